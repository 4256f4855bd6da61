#include "plan_arguments.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace haypile {
namespace {

// Short flags that a parser of one-letter flags would misread.
constexpr std::pair<std::string_view, std::string_view> kShortFlags[] = {
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-np", "--parallel"},
    {"-ub", "--ubatch-size"},
    {"-fa", "--flash-attn"},
    {"-kvu", "--kv-unified"},
    {"-tp", "--tensor-parallel-size"},
    {"-pp", "--pipeline-parallel-size"},
    {"-dcp", "--decode-context-parallel-size"},
    {"-dp", "--data-parallel-size"},
};

std::string Normalized(std::string argument) {
  const size_t name_end = std::min(argument.find('='), argument.size());
  if (argument.rfind("--", 0) == 0) {
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
    return argument;
  }
  for (const auto& [flag, name] : kShortFlags) {
    if (std::string_view(argument).substr(0, name_end) == flag) return std::string(name) + argument.substr(name_end);
  }
  return argument;
}

}  // namespace

std::vector<std::string> NormalizedArguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || (arguments.front() != "plan" && arguments.front() != "doctor")) return arguments;
  std::transform(arguments.begin() + 1, arguments.end(), arguments.begin() + 1, Normalized);
  return arguments;
}

}  // namespace haypile
