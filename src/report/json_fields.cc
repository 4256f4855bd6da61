#include "report/json_fields.h"

namespace haypile {

namespace {

// What was found, short enough for one line.
std::string Found(const Json& json) {
  constexpr size_t kMaxChars = 40;
  if (json.is_object() || json.is_array()) return json.is_object() ? "an object" : "a list";
  std::string text = DumpJson(json, -1);
  if (text.size() > kMaxChars) text = std::string(json.type_name()) + " of " + std::to_string(text.size()) + " bytes";
  return text;
}

}  // namespace

Error JsonFieldReader::Expected(const std::string& path, const std::string& what, const Json& found) {
  return Error(ErrorCode::kMalformed,
               (path.empty() ? "top level" : path) + ": expected " + what + ", found " + Found(found));
}

Status JsonFieldReader::ReadScalar(const Json& json, const std::string& path, bool& value) {
  if (!json.is_boolean()) return Expected(path, "true or false", json);
  value = json.get<bool>();
  return {};
}

Status JsonFieldReader::ReadScalar(const Json& json, const std::string& path, int64_t& value) {
  const bool too_large =
      json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (!json.is_number_integer() || too_large) return Expected(path, "a whole number", json);
  value = json.get<int64_t>();
  return {};
}

Status JsonFieldReader::ReadScalar(const Json& json, const std::string& path, double& value) {
  if (json.is_null()) {
    value = std::numeric_limits<double>::quiet_NaN();
    return {};
  }
  if (!json.is_number()) return Expected(path, "a number", json);
  value = json.get<double>();
  return {};
}

Status JsonFieldReader::ReadScalar(const Json& json, const std::string& path, std::string& value) {
  if (!json.is_string()) return Expected(path, "a text", json);
  value = json.get<std::string>();
  return {};
}

Status CheckSchemaName(const Json& json, std::string_view name) {
  if (!json.is_object()) return Error(ErrorCode::kMalformed, "expected a JSON object");
  const auto found = json.find("schema");
  if (found == json.end()) {
    return Error(ErrorCode::kMalformed, "schema: missing; expected \"" + std::string(name) + "\"");
  }
  const std::string expected(name);
  if (!found->is_string()) {
    return Error(ErrorCode::kMalformed, "schema: expected \"" + expected + "\", found " + Found(*found));
  }
  const auto& schema = found->get_ref<const std::string&>();
  if (schema == name) return {};
  const std::string family = expected.substr(0, expected.find('/') + 1);
  const ErrorCode code = schema.starts_with(family) ? ErrorCode::kUnsupported : ErrorCode::kMalformed;
  return Error(code, "schema: expected \"" + expected + "\", found " + Found(*found));
}

}  // namespace haypile
