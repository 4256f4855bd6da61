#include "checkpoint/gguf_parser.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoint/byte_cursor.h"

namespace haypile {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kLongestKey = 65535;  // the format's own limits
constexpr uint64_t kLongestTensorName = 64;
constexpr uint32_t kMostDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kLargestAlignment = 1 << 20;
constexpr uint64_t kMinValueRecordBytes = 8 + 4 + 1;           // key length, type, one byte of value
constexpr uint64_t kMinTensorRecordBytes = 8 + 4 + 8 + 4 + 8;  // name length, rank, one dimension, type, offset

// A tensor record before the start of the data section is known.
struct TensorRecord {
  StoredTensor tensor;
  uint64_t record_offset = 0;
  uint64_t data_offset = 0;  // from the start of the data section
  uint64_t size_bytes = 0;
};

class Parser {
 public:
  Parser(const std::string& name, std::span<const uint8_t> bytes) : name_(name), bytes_(bytes), cursor_(bytes) {}

  Result<GgufContent> Run() {
    HAYPILE_TRY(ReadHeader());
    for (uint64_t i = 0; i < value_count_; ++i) HAYPILE_TRY(ReadKeyValue(i));
    HAYPILE_TRY(ReadAlignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) HAYPILE_TRY(ReadTensorRecord(i));
    HAYPILE_TRY(PlaceTensors());
    HAYPILE_TRY(CheckOverlaps());
    content_.tensors.reserve(records_.size());
    for (TensorRecord& record : records_) content_.tensors.push_back(std::move(record.tensor));
    return std::move(content_);
  }

 private:
  Error Bad(uint64_t offset, const std::string& what, ErrorCode code = ErrorCode::kMalformed) const {
    return Error(code, "'" + name_ + "': byte " + std::to_string(offset) + ": " + what);
  }
  Error Truncated(const std::string& what) const {
    return Bad(cursor_.position(), "the file ends (at byte " + std::to_string(bytes_.size()) + ") inside " + what);
  }

  Status ReadHeader();
  Status ReadKeyValue(uint64_t index);
  Status ReadArrayHeader(const std::string& who, GgufValue* value);
  Status SkipValues(const std::string& who, const GgufValue& value);
  Status ReadAlignment();
  Status ReadTensorRecord(uint64_t index);
  Status ReadShape(const std::string& who, StoredTensor* tensor);
  Status SizeTensor(const std::string& who, TensorRecord* record);
  Status PlaceTensors();
  Status CheckOverlaps() const;

  const std::string& name_;
  std::span<const uint8_t> bytes_;
  ByteCursor cursor_;
  uint64_t tensor_count_ = 0;
  uint64_t value_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<TensorRecord> records_;
  std::set<std::string, std::less<>> tensor_names_;
  GgufContent content_;
};

Status Parser::ReadHeader() {
  uint32_t magic = 0;
  if (!cursor_.Read(&magic)) return Truncated("the magic");
  if (magic != kMagic) return Bad(0, "not a GGUF file: it does not begin with \"GGUF\"");
  uint32_t& version = content_.version;
  if (!cursor_.Read(&version)) return Truncated("the version");
  if (version != 0 && (version & 0xffff) == 0) {
    return Bad(4, "a big-endian GGUF file; only little-endian files are read", ErrorCode::kUnsupported);
  }
  if (version != 2 && version != 3) {
    return Bad(4, "GGUF version " + std::to_string(version) + "; versions 2 and 3 are read", ErrorCode::kUnsupported);
  }
  if (!cursor_.Read(&tensor_count_)) return Truncated("the tensor count");
  if (!cursor_.Read(&value_count_)) return Truncated("the metadata count");
  const uint64_t rest = cursor_.remaining();
  if (value_count_ > rest / kMinValueRecordBytes) {
    return Bad(16, "claims " + std::to_string(value_count_) + " metadata values, more than the " +
                       std::to_string(rest) + " bytes that follow can hold");
  }
  if (tensor_count_ > rest / kMinTensorRecordBytes) {
    return Bad(8, "claims " + std::to_string(tensor_count_) + " tensors, more than the " + std::to_string(rest) +
                      " bytes that follow can hold");
  }
  return {};
}

Status Parser::ReadKeyValue(uint64_t index) {
  const uint64_t start = cursor_.position();
  const std::string ordinal = "metadata key " + std::to_string(index);
  std::string_view key;
  if (!cursor_.ReadString(&key)) return Truncated(ordinal);
  if (key.empty() || key.size() > kLongestKey) {
    return Bad(start, ordinal + " is " + std::to_string(key.size()) + " bytes long; 1 to 65535 are allowed");
  }
  const std::string who = "key " + QuotedName(key);
  const uint64_t type_offset = cursor_.position();
  uint32_t type = 0;
  if (!cursor_.Read(&type)) return Truncated("the type of " + who);
  GgufValue value;
  value.type = static_cast<GgufValueType>(type);
  if (GgufValueMinBytes(value.type) == 0) {
    return Bad(type_offset, who + " has value type " + std::to_string(type) + ", which is none of GGUF's (0 to 12)");
  }
  if (value.type == GgufValueType::kArray) HAYPILE_TRY(ReadArrayHeader(who, &value));
  value.offset = cursor_.position();
  HAYPILE_TRY(SkipValues(who, value));
  if (!content_.values.emplace(key, value).second) return Bad(start, who + " appears twice");
  return {};
}

Status Parser::ReadArrayHeader(const std::string& who, GgufValue* value) {
  const uint64_t start = cursor_.position();
  uint32_t type = 0;
  if (!cursor_.Read(&type)) return Truncated("the element type of " + who);
  value->type = static_cast<GgufValueType>(type);
  value->is_array = true;
  if (value->type == GgufValueType::kArray) {
    return Bad(start, who + " is an array of arrays, which is not read", ErrorCode::kUnsupported);
  }
  const uint64_t element_bytes = GgufValueMinBytes(value->type);
  if (element_bytes == 0) {
    return Bad(start, who + " has element type " + std::to_string(type) + ", which is none of GGUF's (0 to 12)");
  }
  if (!cursor_.Read(&value->count)) return Truncated("the length of " + who);
  if (value->count > cursor_.remaining() / element_bytes) {
    return Bad(start + 4, who + " claims " + std::to_string(value->count) + " elements of " +
                              std::string(GgufValueTypeName(value->type)) + ", more than the " +
                              std::to_string(cursor_.remaining()) + " bytes that follow can hold");
  }
  return {};
}

Status Parser::SkipValues(const std::string& who, const GgufValue& value) {
  std::string_view skipped;
  if (value.type == GgufValueType::kString) {
    for (uint64_t i = 0; i < value.count; ++i) {
      if (!cursor_.ReadString(&skipped)) return Truncated("string " + std::to_string(i) + " of " + who);
    }
    return {};
  }
  const uint64_t start = cursor_.position();
  if (!cursor_.ReadBytes(value.count * GgufValueMinBytes(value.type), &skipped)) {
    return Truncated("the value of " + who);
  }
  if (value.type == GgufValueType::kBool) {
    const size_t bad = skipped.find_first_not_of(std::string_view("\0\1", 2));
    if (bad != std::string_view::npos) {
      return Bad(start + bad, who + " holds a bool that is neither 0 nor 1");
    }
  }
  return {};
}

Status Parser::ReadAlignment() {
  const auto found = content_.values.find("general.alignment");
  if (found == content_.values.end()) return {};
  const GgufValue& value = found->second;
  uint32_t alignment = 0;
  const bool readable =
      value.type == GgufValueType::kUint32 && !value.is_array && ByteCursor(bytes_, value.offset).Read(&alignment);
  if (!readable) return Bad(value.offset, "key 'general.alignment' is not a uint32");
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kLargestAlignment) {
    return Bad(value.offset, "key 'general.alignment' is " + std::to_string(alignment) + "; a power of two up to " +
                                 std::to_string(kLargestAlignment) + " is needed");
  }
  alignment_ = alignment;
  return {};
}

Status Parser::ReadTensorRecord(uint64_t index) {
  TensorRecord record;
  record.record_offset = cursor_.position();
  const std::string ordinal = "tensor record " + std::to_string(index);
  std::string_view name;
  if (!cursor_.ReadString(&name)) return Truncated(ordinal);
  if (name.empty() || name.size() > kLongestTensorName) {
    return Bad(record.record_offset,
               "the name of " + ordinal + " is " + std::to_string(name.size()) + " bytes long; 1 to 64 are allowed");
  }
  const std::string who = "tensor " + QuotedName(name);
  record.tensor.name = name;
  if (!tensor_names_.emplace(name).second) return Bad(record.record_offset, who + " appears twice");
  HAYPILE_TRY(ReadShape(who, &record.tensor));
  const uint64_t type_offset = cursor_.position();
  uint32_t type = 0;
  if (!cursor_.Read(&type)) return Truncated("the type of " + who);
  record.tensor.type = GgufWeightType(type);
  if (record.tensor.type == nullptr) {
    return Bad(type_offset, who + " has tensor type " + std::to_string(type) + ", which is not known",
               ErrorCode::kUnsupported);
  }
  const uint64_t offset_offset = cursor_.position();
  if (!cursor_.Read(&record.data_offset)) return Truncated("the offset of " + who);
  if (record.data_offset % alignment_ != 0) {
    return Bad(offset_offset, who + " lies at offset " + std::to_string(record.data_offset) +
                                  ", which is no multiple of the alignment " + std::to_string(alignment_));
  }
  HAYPILE_TRY(SizeTensor(who, &record));
  records_.push_back(std::move(record));
  return {};
}

// Leaves the shape row-major: the file lists the contiguous dimension first.
Status Parser::ReadShape(const std::string& who, StoredTensor* tensor) {
  const uint64_t start = cursor_.position();
  uint32_t rank = 0;
  if (!cursor_.Read(&rank)) return Truncated("the rank of " + who);
  if (rank < 1 || rank > kMostDimensions) {
    return Bad(start, who + " has " + std::to_string(rank) + " dimensions; 1 to 4 are allowed");
  }
  for (uint32_t i = 0; i < rank; ++i) {
    const uint64_t offset = cursor_.position();
    int64_t size = 0;
    if (!cursor_.Read(&size)) return Truncated("the dimensions of " + who);
    if (size <= 0) {
      return Bad(offset, who + " has dimension " + std::to_string(i) + " of " +
                             std::to_string(static_cast<uint64_t>(size)) + "; 1 to 2^63-1 are allowed");
    }
    tensor->shape.push_back(size);
  }
  std::reverse(tensor->shape.begin(), tensor->shape.end());
  if (!ElementCount(tensor->shape)) {
    return Bad(start, who + " of shape " + ShapeText(tensor->shape) + " has more elements than 64 bits count");
  }
  return {};
}

Status Parser::SizeTensor(const std::string& who, TensorRecord* record) {
  const StoredTensor& tensor = record->tensor;
  const WeightTypeInfo& type = *tensor.type;
  if (tensor.shape.back() % type.block_elements != 0) {
    return Bad(record->record_offset, who + " of shape " + ShapeText(tensor.shape) + " has rows of " +
                                          std::to_string(tensor.shape.back()) + " elements, no multiple of the " +
                                          std::to_string(type.block_elements) + " in a block of " +
                                          std::string(type.name));
  }
  const auto blocks = static_cast<uint64_t>(*ElementCount(tensor.shape) / type.block_elements);
  if (__builtin_mul_overflow(blocks, static_cast<uint64_t>(type.block_bytes), &record->size_bytes)) {
    return Bad(record->record_offset, who + " of shape " + ShapeText(tensor.shape) + " has a size beyond 64 bits");
  }
  return {};
}

Status Parser::PlaceTensors() {
  const uint64_t header_end = cursor_.position();
  const uint64_t data_start = (header_end + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t data_bytes = bytes_.size() > data_start ? bytes_.size() - data_start : 0;
  for (TensorRecord& record : records_) {
    if (record.data_offset > data_bytes || record.size_bytes > data_bytes - record.data_offset) {
      return Bad(record.record_offset, "tensor " + QuotedName(record.tensor.name) + " takes " +
                                           std::to_string(record.size_bytes) + " bytes at offset " +
                                           std::to_string(record.data_offset) + " of the data section (byte " +
                                           std::to_string(data_start) + "), past the end of the file at byte " +
                                           std::to_string(bytes_.size()));
    }
    record.tensor.file_offset = data_start + record.data_offset;
    record.tensor.bytes = bytes_.subspan(record.tensor.file_offset, record.size_bytes);
  }
  return {};
}

Status Parser::CheckOverlaps() const {
  std::vector<const TensorRecord*> order;
  order.reserve(records_.size());
  for (const TensorRecord& record : records_) order.push_back(&record);
  std::sort(order.begin(), order.end(),
            [](const TensorRecord* a, const TensorRecord* b) { return a->data_offset < b->data_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorRecord& before = *order[i - 1];
    const TensorRecord& after = *order[i];
    if (before.data_offset + before.size_bytes > after.data_offset) {
      return Bad(after.tensor.file_offset,
                 "tensor " + QuotedName(after.tensor.name) + " overlaps tensor " + QuotedName(before.tensor.name));
    }
  }
  return {};
}

}  // namespace

Result<GgufContent> ParseGgufContent(const std::string& name, std::span<const uint8_t> bytes) {
  return Parser(name, bytes).Run();
}

}  // namespace haypile
