#include "checkpoint/config_fields.h"

#include <limits>

#include "base/json.h"

namespace haypile {

const Json* ConfigFields::Find(const char* field) const {
  const auto found = object_.find(field);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Result<ConfigFields> ConfigFields::Nested(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return Missing(field);
  if (!value->is_object()) return WrongType(field, "an object");
  return ConfigFields(*value, file_, prefix_ + field + ".");
}

Result<int64_t> ConfigFields::Int(const char* field, std::optional<int64_t> absent) const {
  const Json* value = Find(field);
  if (value == nullptr) {
    if (absent) return *absent;
    return Missing(field);
  }
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) return WrongType(field, "an integer");
  return value->get<int64_t>();
}

Result<int> ConfigFields::SmallInt(const char* field, std::optional<int64_t> absent) const {
  HAYPILE_TRY_ASSIGN(const int64_t value, Int(field, absent));
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    return Malformed("field " + Quoted(field) + " is " + std::to_string(value) + "; 0 to 2147483647 are allowed");
  }
  return static_cast<int>(value);
}

Result<double> ConfigFields::Number(const char* field, std::optional<double> absent) const {
  const Json* value = Find(field);
  if (value == nullptr) {
    if (absent) return *absent;
    return Missing(field);
  }
  if (!value->is_number()) return WrongType(field, "a number");
  return value->get<double>();
}

Result<bool> ConfigFields::Bool(const char* field, bool absent) const {
  const Json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return WrongType(field, "true or false");
  return value->get<bool>();
}

Result<std::string> ConfigFields::String(const char* field, std::optional<std::string> absent) const {
  const Json* value = Find(field);
  if (value == nullptr) {
    if (absent) return *std::move(absent);
    return Missing(field);
  }
  if (!value->is_string()) return WrongType(field, "a string");
  return value->get<std::string>();
}

Error ConfigFields::Malformed(const std::string& what) const {
  return Error(ErrorCode::kMalformed, "'" + file_ + "': " + what);
}

Error ConfigFields::Unsupported(const std::string& what) const {
  return Error(ErrorCode::kUnsupported, "'" + file_ + "': " + what);
}

std::string ConfigFields::Quoted(const char* field) const { return "'" + prefix_ + field + "'"; }

Error ConfigFields::WrongType(const char* field, const char* wanted) const {
  return Malformed("field " + Quoted(field) + " is not " + wanted);
}

Error ConfigFields::Missing(const char* field) const { return Malformed("field " + Quoted(field) + " is missing"); }

}  // namespace haypile
