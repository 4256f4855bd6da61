#include "checkpoint/gguf.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <utility>

#include "checkpoint/byte_cursor.h"
#include "checkpoint/gguf_parser.h"
#include "checkpoint/mapped_file.h"

namespace haypile {
namespace {

class ParsedGguf final : public GgufFile {
 public:
  ParsedGguf(std::string name, std::span<const uint8_t> bytes, GgufContent content,
             std::shared_ptr<const MappedFile> mapping)
      : name_(std::move(name)), bytes_(bytes), content_(std::move(content)), mapping_(std::move(mapping)) {}

  bool Has(std::string_view key) const override { return content_.values.contains(key); }
  Result<std::string> GetString(std::string_view key) const override;
  Result<int64_t> GetInt(std::string_view key) const override;
  Result<double> GetFloat(std::string_view key) const override;
  Result<bool> GetBool(std::string_view key) const override;
  Result<std::vector<std::string>> GetStringArray(std::string_view key) const override;
  Result<std::vector<int64_t>> GetIntArray(std::string_view key) const override;
  Result<std::vector<float>> GetFloatArray(std::string_view key) const override;
  bool IsArray(std::string_view key) const override {
    const auto found = content_.values.find(key);
    return found != content_.values.end() && found->second.is_array;
  }
  std::string path() const override { return name_; }
  std::span<const StoredTensor> tensors() const override { return content_.tensors; }

 private:
  Result<GgufValue> Find(std::string_view key, bool array, std::string_view wanted) const;
  Error WrongType(std::string_view key, const GgufValue& value, std::string_view wanted) const;
  // The next value at the cursor, converted to T; false when an integer does not fit.
  template <typename T>
  static bool Next(ByteCursor* cursor, GgufValueType type, T* out);

  std::string name_;
  std::span<const uint8_t> bytes_;
  GgufContent content_;
  std::shared_ptr<const MappedFile> mapping_;  // null when parsed from memory
};

Error ParsedGguf::WrongType(std::string_view key, const GgufValue& value, std::string_view wanted) const {
  return Error(ErrorCode::kMalformed, "'" + name_ + "': byte " + std::to_string(value.offset) + ": key " +
                                          QuotedName(key) + " is " + (value.is_array ? "an array of " : "of type ") +
                                          std::string(GgufValueTypeName(value.type)) + "; wanted " +
                                          std::string(wanted));
}

Result<GgufValue> ParsedGguf::Find(std::string_view key, bool array, std::string_view wanted) const {
  const auto found = content_.values.find(key);
  if (found == content_.values.end()) {
    return Error(ErrorCode::kNotFound, "'" + name_ + "': metadata key " + QuotedName(key) + " is absent");
  }
  if (found->second.is_array != array) return WrongType(key, found->second, wanted);
  return found->second;
}

template <typename T, typename Stored>
bool Convert(Stored stored, T* out) {
  if constexpr (std::integral<T> && std::integral<Stored>) {
    if (!std::in_range<T>(stored)) return false;
  }
  *out = static_cast<T>(stored);
  return true;
}

template <typename T>
bool ParsedGguf::Next(ByteCursor* cursor, GgufValueType type, T* out) {
  const auto as = [cursor, out](auto stored) { return cursor->Read(&stored) && Convert(stored, out); };
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kBool:
      return as(uint8_t{});
    case GgufValueType::kInt8:
      return as(int8_t{});
    case GgufValueType::kUint16:
      return as(uint16_t{});
    case GgufValueType::kInt16:
      return as(int16_t{});
    case GgufValueType::kUint32:
      return as(uint32_t{});
    case GgufValueType::kInt32:
      return as(int32_t{});
    case GgufValueType::kUint64:
      return as(uint64_t{});
    case GgufValueType::kInt64:
      return as(int64_t{});
    case GgufValueType::kFloat32:
      return as(float{});
    case GgufValueType::kFloat64:
      return as(double{});
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return false;
  }
  return false;
}

bool IsFloat(GgufValueType type) { return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64; }

Result<std::string> ParsedGguf::GetString(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, false, "a string"));
  std::string_view text;
  if (value.type != GgufValueType::kString || !ByteCursor(bytes_, value.offset).ReadString(&text)) {
    return WrongType(key, value, "a string");
  }
  return std::string(text);
}

Result<int64_t> ParsedGguf::GetInt(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, false, "an integer"));
  ByteCursor cursor(bytes_, value.offset);
  int64_t number = 0;
  if (!IsGgufInteger(value.type) || !Next(&cursor, value.type, &number)) {
    return WrongType(key, value, "an integer below 2^63");
  }
  return number;
}

Result<double> ParsedGguf::GetFloat(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, false, "a number"));
  ByteCursor cursor(bytes_, value.offset);
  double number = 0;
  const bool numeric = IsFloat(value.type) || IsGgufInteger(value.type);
  if (!numeric || !Next(&cursor, value.type, &number)) return WrongType(key, value, "a number");
  return number;
}

Result<bool> ParsedGguf::GetBool(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, false, "a bool"));
  ByteCursor cursor(bytes_, value.offset);
  uint8_t byte = 0;
  if (value.type != GgufValueType::kBool || !cursor.Read(&byte)) return WrongType(key, value, "a bool");
  return byte != 0;
}

Result<std::vector<std::string>> ParsedGguf::GetStringArray(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, true, "an array of strings"));
  if (value.type != GgufValueType::kString) return WrongType(key, value, "an array of strings");
  ByteCursor cursor(bytes_, value.offset);
  std::vector<std::string> strings;
  strings.reserve(value.count);
  std::string_view text;
  for (uint64_t i = 0; i < value.count && cursor.ReadString(&text); ++i) strings.emplace_back(text);
  return strings;
}

Result<std::vector<int64_t>> ParsedGguf::GetIntArray(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, true, "an array of integers"));
  const bool integral = IsGgufInteger(value.type) || value.type == GgufValueType::kBool;
  if (!integral) return WrongType(key, value, "an array of integers");
  ByteCursor cursor(bytes_, value.offset);
  std::vector<int64_t> numbers(value.count);
  for (int64_t& number : numbers) {
    if (!Next(&cursor, value.type, &number)) return WrongType(key, value, "an array of integers below 2^63");
  }
  return numbers;
}

Result<std::vector<float>> ParsedGguf::GetFloatArray(std::string_view key) const {
  HAYPILE_TRY_ASSIGN(const GgufValue value, Find(key, true, "an array of floats"));
  if (!IsFloat(value.type)) return WrongType(key, value, "an array of floats");
  ByteCursor cursor(bytes_, value.offset);
  std::vector<float> numbers(value.count);
  for (float& number : numbers) Next(&cursor, value.type, &number);
  return numbers;
}

Status CheckNotSplit(const std::string& name, const GgufFile& file) {
  if (!file.Has("split.count")) return {};
  HAYPILE_TRY_ASSIGN(const int64_t count, file.GetInt("split.count"));
  if (count <= 1) return {};
  return Error(ErrorCode::kUnsupported, "'" + name + "': one part of a model split into " + std::to_string(count) +
                                            " GGUF files (key 'split.count'); merge them into one file");
}

Result<std::shared_ptr<const GgufFile>> ParseHolding(const std::string& name, std::span<const uint8_t> bytes,
                                                     std::shared_ptr<const MappedFile> mapping) {
  HAYPILE_TRY_ASSIGN(GgufContent content, ParseGgufContent(name, bytes));
  auto file = std::make_shared<const ParsedGguf>(name, bytes, std::move(content), std::move(mapping));
  HAYPILE_TRY(CheckNotSplit(name, *file));
  return std::shared_ptr<const GgufFile>(std::move(file));
}

}  // namespace

Result<std::shared_ptr<const GgufFile>> GgufFile::Open(const std::string& path) {
  HAYPILE_TRY_ASSIGN(std::shared_ptr<const MappedFile> mapping, MappedFile::Open(path));
  const std::span<const uint8_t> bytes = mapping->bytes();
  return ParseHolding(path, bytes, std::move(mapping));
}

Result<std::shared_ptr<const GgufFile>> GgufFile::Parse(const std::string& name, std::span<const uint8_t> bytes) {
  return ParseHolding(name, bytes, nullptr);
}

const StoredTensor* GgufFile::FindTensor(std::string_view name) const {
  const std::span<const StoredTensor> all = tensors();
  const auto found = std::find_if(all.begin(), all.end(), [&](const StoredTensor& t) { return t.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace haypile
