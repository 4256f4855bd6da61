#include "base/json.h"

namespace haypile {

Result<Json> ParseJson(std::string_view text) {
  bool too_deep = false;
  const auto watch_depth = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return depth <= kMaxJsonDepth;
  };
  try {
    Json json = Json::parse(text, watch_depth);
    if (too_deep) {
      return Error(ErrorCode::kMalformed, "JSON nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    return json;
  } catch (const nlohmann::json::parse_error& e) {
    std::string what = e.what();
    if (const size_t bracket = what.find("] "); bracket != std::string::npos) what = what.substr(bracket + 2);
    return Error(ErrorCode::kMalformed, "not valid JSON at byte " + std::to_string(e.byte) + ": " + what);
  } catch (const nlohmann::json::exception& e) {
    return Error(ErrorCode::kMalformed, std::string("not usable JSON: ") + e.what());
  }
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace haypile
