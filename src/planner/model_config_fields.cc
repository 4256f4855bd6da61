#include "planner/model_config_fields.h"

#include <functional>
#include <limits>

#include "base/json.h"

namespace haypile {
namespace {

std::optional<int64_t> AsInt(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

std::string Range(const char* noun, int64_t least, int64_t most) {
  return std::string(noun) + " from " + std::to_string(least) + " to " + std::to_string(most);
}

}  // namespace

std::string ShortText(const Json& value) {
  constexpr size_t kLongest = 60;
  if (value.is_object()) return "an object";
  if (value.is_array() && value.size() > 8) return "an array of " + std::to_string(value.size()) + " entries";
  std::string text = DumpJson(value, -1);
  if (text.size() <= kLongest) return text;
  size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + "...";
}

ConfigObject::ConfigObject(const Json& object, std::string model, std::string prefix)
    : object_(&object),
      model_(std::move(model)),
      prefix_(std::move(prefix)),
      read_(std::make_shared<std::set<std::string, std::less<>>>()) {}

const Json* ConfigObject::Find(std::string_view field) const {
  read_->emplace(field);
  const auto found = object_->find(std::string(field));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigObject::IsSet(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() != 0;
  return !value->empty();
}

std::string_view ConfigObject::FirstOf(std::initializer_list<std::string_view> fields) const {
  std::string_view first;
  for (const std::string_view field : fields) {
    if (Has(field) && first.empty()) first = field;
  }
  return first;
}

Result<int64_t> ConfigObject::Int(std::string_view field, int64_t least, int64_t most,
                                  std::optional<int64_t> absent) const {
  const Json* value = Find(field);
  if (value == nullptr) {
    if (absent) return *absent;
    return Malformed("field " + Quoted(field) + " is missing; expected " + Range("a whole number", least, most));
  }
  const std::optional<int64_t> number = AsInt(*value);
  if (!number || *number < least || *number > most) return Unexpected(field, Range("a whole number", least, most));
  return *number;
}

Result<int64_t> ConfigObject::IntOf(std::initializer_list<std::string_view> fields, int64_t least, int64_t most,
                                    std::optional<int64_t> absent) const {
  const std::string_view found = FirstOf(fields);
  return Int(found.empty() ? *fields.begin() : found, least, most, absent);
}

Result<bool> ConfigObject::Bool(std::string_view field, bool absent) const {
  const Json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return Unexpected(field, "true or false");
  return value->get<bool>();
}

Result<std::string> ConfigObject::String(std::string_view field, std::string absent) const {
  const Json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_string()) return Unexpected(field, "a string");
  return value->get<std::string>();
}

Result<std::vector<int64_t>> ConfigObject::Ints(std::string_view field, int64_t least, int64_t most) const {
  const Json* value = Find(field);
  const std::string wanted = Range("an array of whole numbers", least, most);
  if (value == nullptr) return Malformed("field " + Quoted(field) + " is missing; expected " + wanted);
  if (!value->is_array() || value->size() > kMaxLayers) return Unexpected(field, wanted);
  std::vector<int64_t> numbers;
  for (const Json& entry : *value) {
    const std::optional<int64_t> number = AsInt(entry);
    if (!number || *number < least || *number > most) {
      return Malformed("entry " + std::to_string(numbers.size()) + " of field " + Quoted(field) + " is " +
                       ShortText(entry) + "; expected " + Range("a whole number", least, most));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<std::string>> ConfigObject::Strings(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return Malformed("field " + Quoted(field) + " is missing; expected an array of strings");
  if (!value->is_array() || value->size() > kMaxLayers) return Unexpected(field, "an array of strings");
  std::vector<std::string> strings;
  for (const Json& entry : *value) {
    if (!entry.is_string()) {
      return Malformed("entry " + std::to_string(strings.size()) + " of field " + Quoted(field) + " is " +
                       ShortText(entry) + "; expected a string");
    }
    strings.push_back(entry.get<std::string>());
  }
  return strings;
}

Result<std::optional<ConfigObject>> ConfigObject::Object(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::optional<ConfigObject>();
  if (!value->is_object()) return Unexpected(field, "an object");
  return std::optional<ConfigObject>(ConfigObject(*value, model_, prefix_ + std::string(field) + "."));
}

std::vector<std::string> ConfigObject::Unread() const {
  std::vector<std::string> unread;
  for (const auto& [field, value] : object_->items()) {
    if (read_->find(field) == read_->end()) unread.push_back(field);
  }
  return unread;
}

Error ConfigObject::Malformed(const std::string& what) const {
  return Error(ErrorCode::kMalformed, "'" + model_ + "': " + what);
}

Error ConfigObject::Unsupported(const std::string& what) const {
  return Error(ErrorCode::kUnsupported, "'" + model_ + "': " + what);
}

Error ConfigObject::Unexpected(std::string_view field, const std::string& expected) const {
  const Json* value = Find(field);
  const std::string text = value == nullptr ? "null" : ShortText(*value);
  return Malformed("field " + Quoted(field) + " is " + text + "; expected " + expected);
}

std::string ConfigObject::Quoted(std::string_view field) const { return "'" + prefix_ + std::string(field) + "'"; }

}  // namespace haypile
