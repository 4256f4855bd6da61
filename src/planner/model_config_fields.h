#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace haypile {

// Bounds on what a config may say, far above every public model; they keep sums inside 64 bits.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxHeads = 65536;
inline constexpr int64_t kMaxHeadDim = 65536;
inline constexpr int64_t kMaxWidth = 1 << 24;
inline constexpr int64_t kMaxCount = 2147483647;
inline constexpr int64_t kMaxPositions = int64_t{1} << 40;

// Typed access to one object of a config.json. Null counts as absent. Errors name the model, the field, its value and
// what was expected. Every field that is asked for counts as read; what was never read can be listed afterwards.
class ConfigObject {
 public:
  // `object` must be a JSON object that outlives this; `prefix` precedes field names in messages ("text_config.").
  ConfigObject(const Json& object, std::string model, std::string prefix = "");

  const Json* Find(std::string_view field) const;
  bool Has(std::string_view field) const { return Find(field) != nullptr; }
  // Present, and neither null, false, zero nor empty.
  bool IsSet(std::string_view field) const;
  // The first of `fields` that is present; empty when none is.
  std::string_view FirstOf(std::initializer_list<std::string_view> fields) const;

  // An integer in [least, most]; kMalformed otherwise, and, without `absent`, when the field is not there.
  Result<int64_t> Int(std::string_view field, int64_t least, int64_t most,
                      std::optional<int64_t> absent = std::nullopt) const;
  // The same under the first spelling that is present; messages name the first of `fields` when none is.
  Result<int64_t> IntOf(std::initializer_list<std::string_view> fields, int64_t least, int64_t most,
                        std::optional<int64_t> absent = std::nullopt) const;
  Result<bool> Bool(std::string_view field, bool absent) const;
  Result<std::string> String(std::string_view field, std::string absent = "") const;
  // An array of integers in [least, most] with at most kMaxLayers entries.
  Result<std::vector<int64_t>> Ints(std::string_view field, int64_t least, int64_t most) const;
  // An array of strings with at most kMaxLayers entries.
  Result<std::vector<std::string>> Strings(std::string_view field) const;
  // kMalformed when the field is there and not an object; without a value when it is absent.
  Result<std::optional<ConfigObject>> Object(std::string_view field) const;

  // Fields of this object that nothing has asked for yet, in the file's order.
  std::vector<std::string> Unread() const;

  Error Malformed(const std::string& what) const;
  Error Unsupported(const std::string& what) const;
  // kMalformed: "field 'x' is VALUE; expected WHAT". The value is cut to a readable length.
  Error Unexpected(std::string_view field, const std::string& expected) const;
  std::string Quoted(std::string_view field) const;  // "'text_config.layer_types'"
  const std::string& model() const { return model_; }
  const Json& json() const { return *object_; }

 private:
  const Json* object_;
  std::string model_;
  std::string prefix_;
  std::shared_ptr<std::set<std::string, std::less<>>> read_;
};

// A JSON value in one short line for a message.
std::string ShortText(const Json& value);

}  // namespace haypile
