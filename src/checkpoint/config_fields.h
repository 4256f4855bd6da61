#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "base/result.h"

namespace haypile {

// Typed access to one object of a config.json. Errors name the file and the field; null counts as absent.
class ConfigFields {
 public:
  // `object` must be a JSON object that outlives this; `prefix` precedes field names in messages ("text_config.").
  ConfigFields(const Json& object, std::string file, std::string prefix = "")
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  // Null when absent or null.
  const Json* Find(const char* field) const;
  bool Has(const char* field) const { return Find(field) != nullptr; }
  // The nested object; kMalformed when it is something else. Call only when Has.
  Result<ConfigFields> Nested(const char* field) const;

  // kMalformed for a value of another type, and, without `absent`, for a field that is not there.
  Result<int64_t> Int(const char* field, std::optional<int64_t> absent = std::nullopt) const;
  Result<int> SmallInt(const char* field, std::optional<int64_t> absent = std::nullopt) const;
  Result<double> Number(const char* field, std::optional<double> absent = std::nullopt) const;
  Result<bool> Bool(const char* field, bool absent) const;
  Result<std::string> String(const char* field, std::optional<std::string> absent = std::nullopt) const;

  Error Malformed(const std::string& what) const;
  Error Unsupported(const std::string& what) const;
  // "'layer_types'" with the prefix.
  std::string Quoted(const char* field) const;
  const Json& json() const { return object_; }

 private:
  Error WrongType(const char* field, const char* wanted) const;
  Error Missing(const char* field) const;

  const Json& object_;
  std::string file_;
  std::string prefix_;
};

}  // namespace haypile
