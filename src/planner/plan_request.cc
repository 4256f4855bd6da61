#include "planner/plan_request.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace haypile {
namespace {

constexpr std::array<std::pair<EngineKind, std::string_view>, 5> kEngines = {{
    {EngineKind::kVllm, "vllm"},
    {EngineKind::kSglang, "sglang"},
    {EngineKind::kTrtllm, "trtllm"},
    {EngineKind::kLlamacpp, "llamacpp"},
    {EngineKind::kHaypile, "haypile"},
}};

bool StartsWithDigit(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front()));
}

}  // namespace

std::string EngineName(EngineKind engine) {
  for (const auto& [kind, name] : kEngines) {
    if (kind == engine) return std::string(name);
  }
  HAYPILE_CHECK(false);
  return {};
}

Result<EngineKind> ParseEngine(std::string_view name) {
  std::string known;
  for (const auto& [kind, engine] : kEngines) {
    if (engine == name) return kind;
    known += known.empty() ? "" : ", ";
    known += engine;
  }
  return Error(ErrorCode::kInvalidArgument, fmt::format("unknown engine '{}'; known: {}", name, known));
}

std::string EngineVersion::Text() const { return fmt::format("{}.{}.{}", major, minor, patch); }

Result<EngineVersion> ParseEngineVersion(std::string_view text) {
  const auto malformed = [text] {
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("engine version '{}' is not a version; expected numbers such as 0.32.0, v0.19 or b9749", text));
  };
  std::string_view rest = text;
  if (rest.size() > 1 && (rest.front() == 'v' || rest.front() == 'V' || rest.front() == 'b')) rest.remove_prefix(1);
  EngineVersion version;
  for (int* part : {&version.major, &version.minor, &version.patch}) {
    if (!StartsWithDigit(rest)) return malformed();
    const auto [stop, code] = std::from_chars(rest.data(), rest.data() + rest.size(), *part);
    if (code != std::errc()) return malformed();
    rest.remove_prefix(static_cast<size_t>(stop - rest.data()));
    if (rest.empty() || rest.front() != '.' || !StartsWithDigit(rest.substr(1))) break;
    rest.remove_prefix(1);
  }
  // What follows the numbers ("rc4", ".post1", "+cpu", ".dev199") does not change the comparison.
  const bool suffix = rest.empty() || rest.front() == '.' || rest.front() == '+' || rest.front() == '-' ||
                      rest.starts_with("rc") || rest.starts_with("a") || rest.starts_with("b");
  if (!suffix) return malformed();
  return version;
}

// The newest release of each engine whose rules were read or measured.
EngineVersion NewestKnownVersion(EngineKind engine) {
  switch (engine) {
    case EngineKind::kVllm:
      return {0, 32, 0};
    case EngineKind::kSglang:
      return {0, 5, 16};
    case EngineKind::kTrtllm:
      return {1, 4, 0};
    case EngineKind::kLlamacpp:
      return {9749, 0, 0};
    case EngineKind::kHaypile:
      return {0, 1, 0};
  }
  HAYPILE_CHECK(false);
  return {};
}

}  // namespace haypile
