#include "checkpoint/header_safetensors.h"

#include <array>
#include <cstring>
#include <utility>

#include "checkpoint/json_scanner.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

constexpr uint64_t kLengthBytes = 8;

// Where a header's data lies.
struct DataPlace {
  uint64_t start = 0;
  uint64_t bytes = 0;
};

Status CheckSize(const JsonScanner& scanner, uint64_t at, const HeaderTensor& tensor) {
  const auto who = [&tensor] { return "tensor " + QuotedName(tensor.name); };
  const std::optional<int64_t> elements = ElementCount(tensor.shape);
  if (!elements) return scanner.BadAt(at, who() + " has a shape of more than 2^63 elements");
  const WeightTypeInfo* type = SafetensorsWeightType(tensor.dtype);
  if (type == nullptr) return {};
  int64_t wanted = 0;
  if (*elements % type->block_elements != 0 ||
      __builtin_mul_overflow(*elements / type->block_elements, int64_t{type->block_bytes}, &wanted) ||
      static_cast<uint64_t>(wanted) != tensor.bytes) {
    return scanner.BadAt(at, who() + " of shape " + ShapeText(tensor.shape) + " and dtype " + tensor.dtype +
                                 " does not fill the " + std::to_string(tensor.bytes) +
                                 " bytes that its data_offsets give");
  }
  return {};
}

Result<HeaderTensor> ReadTensor(JsonScanner* scanner, const std::string& key, const DataPlace& data) {
  HeaderTensor tensor;
  tensor.name = key;
  const uint64_t at = scanner->offset();
  const auto who = [&key] { return "tensor " + QuotedName(key); };
  bool has_shape = false;
  std::vector<int64_t> range;
  const auto read_field = [&](const std::string& field) -> Status {
    if (field == "dtype") {
      HAYPILE_TRY_ASSIGN(tensor.dtype, scanner->ReadString());
      return {};
    }
    if (field == "shape") {
      has_shape = true;
      HAYPILE_TRY_ASSIGN(tensor.shape, scanner->ReadIntArray());
      return {};
    }
    if (field != "data_offsets") return scanner->SkipValue();
    HAYPILE_TRY_ASSIGN(range, scanner->ReadIntArray());
    return {};
  };
  HAYPILE_TRY(scanner->ReadObject(read_field));
  if (tensor.dtype.empty() || !has_shape || range.size() != 2) {
    return scanner->BadAt(at, who() + " needs dtype, shape and data_offsets of two numbers");
  }
  if (range[0] > range[1] || static_cast<uint64_t>(range[1]) > data.bytes) {
    return scanner->BadAt(at, who() + " has data_offsets " + ShapeText(std::array{range[0], range[1]}) +
                                  " outside the " + std::to_string(data.bytes) + " bytes of data that the file holds");
  }
  tensor.offset = data.start + static_cast<uint64_t>(range[0]);
  tensor.bytes = static_cast<uint64_t>(range[1] - range[0]);
  HAYPILE_TRY(CheckSize(*scanner, at, tensor));
  return tensor;
}

// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none (also surrogates, overlong forms).
size_t Utf8Length(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second >= 0xa0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90, beyond = first == 0xf4 && second >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

Status CheckTensorName(const std::string& where, const std::string& tensor) {
  for (std::string_view rest = tensor; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    if (length == 0) {
      return Error(ErrorCode::kMalformed,
                   where + ": the tensor name " + QuotedName(tensor) + " is not UTF-8, which the format requires");
    }
    rest.remove_prefix(length);
  }
  return {};
}

Result<SafetensorsHeader> ParseSafetensorsHeader(const std::string& name, std::string_view json, uint64_t data_start,
                                                 uint64_t file_bytes) {
  JsonScanner scanner(json, "'" + name + "'", data_start - json.size());
  if (!json.starts_with('{')) return scanner.BadAt(data_start - json.size(), "the header does not begin with '{'");
  const DataPlace data{.start = data_start, .bytes = file_bytes - data_start};
  SafetensorsHeader header;
  const auto read_metadata = [&](const std::string& key) -> Status {
    HAYPILE_TRY_ASSIGN(header.metadata[key], scanner.ReadString());
    return {};
  };
  const auto read_member = [&](const std::string& key) -> Status {
    if (key == "__metadata__") return scanner.ReadObject(read_metadata);
    HAYPILE_TRY(CheckTensorName("'" + name + "'", key));
    HAYPILE_TRY_ASSIGN(HeaderTensor tensor, ReadTensor(&scanner, key, data));
    header.tensors.push_back(std::move(tensor));
    return {};
  };
  HAYPILE_TRY(scanner.ReadObject(read_member));
  HAYPILE_TRY(scanner.ExpectEnd());
  return header;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const HeaderFile& file) {
  const auto bad = [&file](const std::string& what) {
    return Error(ErrorCode::kMalformed, "'" + file.path() + "': byte 0: " + what);
  };
  if (file.size() < kLengthBytes) {
    return bad("not a safetensors file: " + std::to_string(file.size()) +
               " bytes, shorter than the header's length field");
  }
  std::array<uint8_t, kLengthBytes> prefix;
  HAYPILE_TRY(file.ReadAt(0, prefix));
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | prefix[i];
  if (length > kLongestSafetensorsHeader || length > file.size() - kLengthBytes) {
    return bad("claims a header of " + std::to_string(length) + " bytes; the file holds " +
               std::to_string(file.size() - kLengthBytes) + " more and at most 100000000 are allowed (cut short in a " +
               "download, or not a safetensors file)");
  }
  std::string json(length, '\0');
  HAYPILE_TRY(file.ReadAt(kLengthBytes, {reinterpret_cast<uint8_t*>(json.data()), json.size()}));
  return ParseSafetensorsHeader(file.path(), json, kLengthBytes + length, file.size());
}

}  // namespace haypile
