#include "report/schema_check_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"

namespace haypile {
namespace {

class SchemaChecker {
 public:
  explicit SchemaChecker(const Json& root) : root_(root) {}

  void Check(const Json& schema, const Json& value, const std::string& path) {
    for (const auto& [keyword, rule] : schema.items()) Keyword(keyword, rule, schema, value, path);
  }

  std::vector<std::string> Take() && { return std::move(errors_); }

 private:
  static bool HasType(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return value.type_name() == type;
  }

  void Keyword(const std::string& keyword, const Json& rule, const Json& schema, const Json& value,
               const std::string& path) {
    static const std::set<std::string> kSilent{"$schema", "$id",         "$defs",
                                               "title",   "description", "additionalProperties"};
    if (keyword == "type") {
      const Json types = rule.is_array() ? rule : Json::array({rule});
      const bool fits = std::any_of(types.begin(), types.end(), [&](const Json& t) { return HasType(value, t); });
      if (!fits) Fail(path, "is not of type " + rule.dump());
    } else if (keyword == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end()) Fail(path, "is not one of " + rule.dump());
    } else if (keyword == "properties") {
      Properties(rule, schema, value, path);
    } else if (keyword == "required") {
      for (const Json& name : rule) {
        if (value.is_object() && !value.contains(name.get<std::string>())) Fail(path, "lacks " + name.dump());
      }
    } else if (keyword == "items") {
      for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
        Check(rule, value[i], path + "[" + std::to_string(i) + "]");
      }
    } else if (keyword == "minimum") {
      if (value.is_number() && value.get<double>() < rule.get<double>()) Fail(path, "is below " + rule.dump());
    } else if (keyword == "maximum") {
      if (value.is_number() && value.get<double>() > rule.get<double>()) Fail(path, "is above " + rule.dump());
    } else if (keyword == "$ref") {
      Check(root_.at(Json::json_pointer(rule.get<std::string>().substr(1))), value, path);
    } else if (!kSilent.contains(keyword)) {
      Fail(path, "keyword " + keyword + " is not known to this check");
    }
  }

  void Properties(const Json& properties, const Json& schema, const Json& value, const std::string& path) {
    if (!value.is_object()) return;
    for (const auto& [name, member] : value.items()) {
      if (properties.contains(name)) {
        Check(properties[name], member, path + "." + name);
      } else if (schema.contains("additionalProperties") && schema["additionalProperties"] == false) {
        Fail(path, "has the unknown field " + name);
      }
    }
  }

  void Fail(const std::string& path, const std::string& what) { errors_.push_back(path + ": " + what); }

  const Json& root_;
  std::vector<std::string> errors_;
};

const char* const kSmall = R"({"type":"object","properties":{"n":{"type":"integer","minimum":0},
  "list":{"type":"array","items":{"$ref":"#/$defs/item"}}},"required":["n"],"additionalProperties":false,
  "$defs":{"item":{"type":["number","null"],"maximum":1}}})";

size_t ErrorCount(const char* text) { return SchemaErrors(Json::parse(kSmall), Json::parse(text)).size(); }

TEST(SchemaCheck, FindsEachKindOfBreach) {
  EXPECT_EQ(ErrorCount(R"({"n":1,"list":[0.5,null]})"), 0u);
  EXPECT_EQ(ErrorCount(R"([])"), 1u);
  EXPECT_EQ(ErrorCount(R"({})"), 1u);
  EXPECT_EQ(ErrorCount(R"({"n":-1})"), 1u);
  EXPECT_EQ(ErrorCount(R"({"n":1.5})"), 1u);
  EXPECT_EQ(ErrorCount(R"({"n":1,"other":2})"), 1u);
  EXPECT_EQ(ErrorCount(R"({"n":1,"list":["x",2]})"), 2u);
}

TEST(SchemaCheck, RefusesKeywordsItDoesNotKnow) {
  EXPECT_EQ(SchemaErrors(Json::parse(R"({"pattern":"x"})"), Json("x")).size(), 1u);
}

}  // namespace

std::vector<std::string> SchemaErrors(const Json& schema, const Json& value) {
  SchemaChecker checker(schema);
  checker.Check(schema, value, "$");
  return std::move(checker).Take();
}

Json LoadSchema(const std::string& name) {
  Result<std::string> text = ReadFile(std::string(HAYPILE_SOURCE_DIR) + "/docs/schemas/" + name);
  EXPECT_TRUE(text.ok());
  Result<Json> json = text.ok() ? ParseJson(*text) : Result<Json>(Json());
  EXPECT_TRUE(json.ok());
  return json.ok() ? *json : Json();
}

}  // namespace haypile
