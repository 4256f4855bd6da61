#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace haypile {

inline bool IsOfJsonType(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

// The part of JSON Schema that the doctor's schema uses; any other keyword is a breach of its own.
class DoctorSchemaCheck {
 public:
  explicit DoctorSchemaCheck(const Json& root) : root_(root) {}

  void Check(const Json& schema, const Json& value, const std::string& path) {
    for (const auto& [keyword, rule] : schema.items()) CheckKeyword(keyword, rule, schema, value, path);
  }
  const std::vector<std::string>& breaches() const { return breaches_; }

 private:
  void Expect(bool holds, const std::string& path, const std::string& what) {
    if (!holds) breaches_.push_back(path + ": " + what);
  }

  void CheckKeyword(const std::string& keyword, const Json& rule, const Json& schema, const Json& value,
                    const std::string& path) {
    if (keyword == "type") {
      const Json types = rule.is_array() ? rule : Json::array({rule});
      Expect(std::any_of(types.begin(), types.end(), [&](const Json& type) { return IsOfJsonType(value, type); }), path,
             "is not of type " + rule.dump());
    } else if (keyword == "const") {
      Expect(value == rule, path, "is not " + rule.dump());
    } else if (keyword == "enum") {
      Expect(std::find(rule.begin(), rule.end(), value) != rule.end(), path, "is not one of " + rule.dump());
    } else if (keyword == "required") {
      for (const Json& name : rule) {
        Expect(!value.is_object() || value.contains(name.get<std::string>()), path, "lacks " + name.get<std::string>());
      }
    } else if (keyword == "properties") {
      CheckProperties(schema, value, path);
    } else if (keyword == "items") {
      for (size_t i = 0; value.is_array() && i < value.size(); ++i)
        Check(rule, value[i], fmt::format("{}[{}]", path, i));
    } else if (keyword == "minimum") {
      Expect(!value.is_number() || value.get<double>() >= rule.get<double>(), path, "is below " + rule.dump());
    } else if (keyword == "minLength") {
      Expect(!value.is_string() || value.get<std::string>().size() >= rule.get<size_t>(), path, "is too short");
    } else if (keyword == "$ref") {
      const std::string name = rule.get<std::string>();
      Check(root_["$defs"][name.substr(name.rfind('/') + 1)], value, path);
    } else {
      const bool silent = keyword == "$schema" || keyword == "$id" || keyword == "$defs" || keyword == "title" ||
                          keyword == "description" || keyword == "additionalProperties";
      Expect(silent, path, "keyword " + keyword + " is not known to this check");
    }
  }

  void CheckProperties(const Json& schema, const Json& value, const std::string& path) {
    if (!value.is_object()) return;
    for (const auto& [name, member] : value.items()) {
      if (schema["properties"].contains(name)) {
        Check(schema["properties"][name], member, path + "." + name);
      } else {
        const bool open = !schema.contains("additionalProperties") || schema["additionalProperties"] == true;
        Expect(open, path, "has the unknown field " + name);
      }
    }
  }

  const Json& root_;
  std::vector<std::string> breaches_;
};

inline const Json& DoctorSchema() {
  static const Json kSchema = [] {
    const auto text = ReadFile(std::string(HAYPILE_SOURCE_DIR) + "/docs/schemas/haypile.doctor-1.schema.json");
    return ParseJson(text.value()).value();
  }();
  return kSchema;
}

// Where a document of `haypile doctor --json` breaks its published schema; empty: nowhere.
inline std::string Breaches(const Json& document) {
  DoctorSchemaCheck check(DoctorSchema());
  check.Check(DoctorSchema(), document, "$");
  std::string text;
  for (const std::string& breach : check.breaches()) text += breach + "\n";
  return text;
}

}  // namespace haypile
