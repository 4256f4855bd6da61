#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace haypile {

// Structs and JSON objects from one description. A struct's fields are listed once, in its namespace:
//   template <typename Visitor> void Describe(Visitor& visit, FieldsOf<Point> auto& p) { visit("depth", p.depth); }
// JsonFieldWriter and JsonFieldReader both walk that list, so what is written is what is read.
//
// An empty optional has no key. A double that is not finite is null, and null reads as NaN. An enum is written as
// NameOf(value) and read through EnumValues<E>.
template <typename T, typename Struct>
concept FieldsOf = std::same_as<std::remove_const_t<T>, Struct>;

template <typename E>
struct EnumValues;  // specialize: static constexpr std::array kAll{E::kA, ...};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

class JsonFieldWriter {
 public:
  template <typename T>
  static Json Write(const T& value) {
    if constexpr (std::same_as<T, double>) {
      return std::isfinite(value) ? Json(value) : Json(nullptr);
    } else if constexpr (std::is_enum_v<T>) {
      return Json(std::string(NameOf(value)));
    } else if constexpr (IsVector<T>::value) {
      Json list = Json::array();
      for (const auto& item : value) list.push_back(Write(item));
      return list;
    } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::string>) {
      return Json(value);
    } else {
      JsonFieldWriter writer;
      Describe(writer, value);
      return std::move(writer.object_);
    }
  }

  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value.has_value()) object_[key] = Write(*value);
    } else {
      object_[key] = Write(value);
    }
  }

 private:
  Json object_ = Json::object();
};

// Reads into `value`; the Error is kMalformed and names the field from the root, e.g. "runs[1].speed: expected ...".
class JsonFieldReader {
 public:
  template <typename T>
  static Status Read(const Json& json, const std::string& path, T& value) {
    if constexpr (std::is_enum_v<T>) {
      return ReadEnum(json, path, value);
    } else if constexpr (IsVector<T>::value) {
      if (!json.is_array()) return Expected(path, "a list", json);
      value.clear();
      for (size_t i = 0; i < json.size(); ++i) {
        typename T::value_type item{};
        HAYPILE_TRY(Read(json[i], path + "[" + std::to_string(i) + "]", item));
        value.push_back(std::move(item));
      }
      return {};
    } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::string>) {
      return ReadScalar(json, path, value);
    } else {
      if (!json.is_object()) return Expected(path, "an object", json);
      JsonFieldReader reader(json, path);
      Describe(reader, value);
      return std::move(reader.status_);
    }
  }

  template <typename T>
  void operator()(const char* key, T& value) {
    if (!status_.ok()) return;
    const std::string path = path_.empty() ? key : path_ + "." + key;
    const auto found = json_.find(key);
    if constexpr (IsOptional<T>::value) {
      value.reset();
      if (found == json_.end()) return;
      typename T::value_type inner{};
      status_ = Read(*found, path, inner);
      if (status_.ok()) value = std::move(inner);
    } else if (found == json_.end()) {
      status_ = Error(ErrorCode::kMalformed, path + ": missing");
    } else {
      status_ = Read(*found, path, value);
    }
  }

 private:
  JsonFieldReader(const Json& json, const std::string& path) : json_(json), path_(path) {}

  static Error Expected(const std::string& path, const std::string& what, const Json& found);
  static Status ReadScalar(const Json& json, const std::string& path, bool& value);
  static Status ReadScalar(const Json& json, const std::string& path, int64_t& value);
  static Status ReadScalar(const Json& json, const std::string& path, double& value);
  static Status ReadScalar(const Json& json, const std::string& path, std::string& value);

  template <typename E>
  static Status ReadEnum(const Json& json, const std::string& path, E& value) {
    std::string names;
    for (const E candidate : EnumValues<E>::kAll) {
      if (json.is_string() && json.get_ref<const std::string&>() == NameOf(candidate)) {
        value = candidate;
        return {};
      }
      names += (names.empty() ? "\"" : ", \"") + std::string(NameOf(candidate)) + "\"";
    }
    return Expected(path, "one of " + names, json);
  }

  const Json& json_;
  const std::string& path_;
  Status status_;
};

// The object's "schema" must be `name` ("haypile.compare/1"): kMalformed when it is missing or names something else,
// kUnsupported when it is another version of the same schema.
Status CheckSchemaName(const Json& json, std::string_view name);

}  // namespace haypile
