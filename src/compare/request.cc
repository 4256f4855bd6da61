#include "compare/request.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace haypile {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

constexpr int64_t kLargestByteCount = int64_t{1} << 60;
constexpr int64_t kMostStreams = 256;
constexpr int64_t kShortestMaxModelLen = 256;

double UnitBytes(const std::string& unit) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1},          {"B", 1},         {"kB", 1e3},      {"KB", 1e3},    {"MB", 1e6},    {"GB", 1e9},
      {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  for (const auto& [name, bytes] : kUnits) {
    if (unit == name) return bytes;
  }
  return 0;
}

}  // namespace

const EffortPlan& PlanOf(CompareEffort effort) {
  static const EffortPlan kQuick{4096, 768, 3, 1, 5, 3, {384}, 1};
  static const EffortPlan kStandard{8192, 4096, 5, 2, 9, 4, {1024, 4096}, 2};
  static const EffortPlan kFull{32768, 0, 5, 3, 15, 8, {1024, 4096, 8192, 16384}, 4};
  switch (effort) {
    case CompareEffort::kQuick:
      return kQuick;
    case CompareEffort::kFull:
      return kFull;
    case CompareEffort::kStandard:
      break;
  }
  return kStandard;
}

Result<std::vector<KvDtype>> ParseDtypeList(const std::string& text) {
  std::vector<KvDtype> dtypes;
  for (const std::string& part : SplitAtCommas(text)) {
    auto dtype = ParseKvDtype(part);
    if (!dtype.ok()) return std::move(dtype).error().WithContext("--kv-cache-dtype");
    if (std::find(dtypes.begin(), dtypes.end(), *dtype) != dtypes.end()) {
      return Error(ErrorCode::kInvalidArgument, "--kv-cache-dtype names '" + dtype->Name() + "' twice");
    }
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

Result<int64_t> ParseByteCount(const std::string& text, const std::string& flag) {
  const Error bad(ErrorCode::kInvalidArgument,
                  flag + ": '" + text +
                      "' is not a size; expected a positive number of bytes with an optional unit, "
                      "e.g. 512MiB, 2GB, 1073741824");
  double value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || !std::isfinite(value)) return bad;
  const double unit = UnitBytes(std::string(stop, text.data() + text.size()));
  const double bytes = std::floor(value * unit);
  if (unit == 0 || bytes < 1 || bytes > static_cast<double>(kLargestByteCount)) return bad;
  return static_cast<int64_t>(bytes);
}

Result<std::vector<int64_t>> ParseStreams(const std::string& text) {
  std::vector<int64_t> streams;
  for (const std::string& part : SplitAtCommas(text)) {
    int64_t value = 0;
    const auto [stop, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (code != std::errc() || stop != part.data() + part.size() || value < 1 || value > kMostStreams) {
      return Error(ErrorCode::kInvalidArgument, "--streams: '" + part + "' is not a number of streams from 1 to " +
                                                    std::to_string(kMostStreams) + "; expected e.g. 1,4,8");
    }
    streams.push_back(value);
  }
  std::sort(streams.begin(), streams.end());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  return streams;
}

Status ResolveMaxModelLen(const ModelSpec& spec, CompareRequest& request) {
  if (request.max_model_len == 0) {
    request.max_model_len = std::min(spec.max_positions, PlanOf(request.effort).default_max_model_len);
  }
  if (request.max_model_len > spec.max_positions) {
    return Error(ErrorCode::kOutOfBudget, "--max-model-len " + std::to_string(request.max_model_len) +
                                              " is longer than the " + std::to_string(spec.max_positions) +
                                              " tokens this model was made for");
  }
  if (request.max_model_len < kShortestMaxModelLen) {
    return Error(ErrorCode::kInvalidArgument, "--max-model-len " + std::to_string(request.max_model_len) +
                                                  " is too short to compare anything; give at least " +
                                                  std::to_string(kShortestMaxModelLen));
  }
  return {};
}

}  // namespace haypile
