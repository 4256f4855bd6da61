#include "checkpoint/tensor_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "checkpoint/dequantize.h"

namespace haypile {
namespace {

// Elements expanded at a time: a multiple of every block, small enough for the first-level cache.
constexpr int64_t kChunkElements = 4096;

int64_t BytesFor(const StoredTensor& tensor, int64_t elements) {
  return elements / tensor.type->block_elements * tensor.type->block_bytes;
}

// The file's row that holds row `row`: in each head of D rows, half h's row i lies at 2i+h.
int64_t InterleavedRow(int64_t row, int64_t rows_per_head) {
  const int64_t in_head = row % rows_per_head;
  const int64_t half_rows = rows_per_head / 2;
  return row - in_head + 2 * (in_head % half_rows) + in_head / half_rows;
}

// Calls write(first_element, values) over the whole tensor in order, `values` being what checkpoint.h promises.
void ForEachChunk(const TensorSource& source, const std::function<void(int64_t, std::span<const float>)>& write) {
  const StoredTensor& tensor = source.tensor;
  const int64_t elements = *ElementCount(tensor.shape);
  const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  // One piece is contiguous in the file: the whole tensor, or one row when rows are reordered.
  const bool reorder = source.interleaved_heads > 0;
  const int64_t piece_elements = reorder ? elements / rows : elements;
  const int64_t pieces = reorder ? rows : 1;
  alignas(64) float values[kChunkElements];
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t stored = reorder ? InterleavedRow(piece, rows / source.interleaved_heads) : 0;
    const uint8_t* bytes = tensor.bytes.data() + BytesFor(tensor, stored * piece_elements);
    for (int64_t done = 0; done < piece_elements; done += kChunkElements) {
      const std::span<float> chunk(values, static_cast<size_t>(std::min(kChunkElements, piece_elements - done)));
      DequantizeToFloat(tensor.type->type, bytes + BytesFor(tensor, done), chunk);
      if (source.addend != 0.0f) {
        for (float& value : chunk) value += source.addend;
      }
      write(piece * piece_elements + done, chunk);
    }
  }
}

bool IsPlainBf16(const TensorSource& source) {
  return source.tensor.type->type == WeightType::kBf16 && source.interleaved_heads == 0 && source.addend == 0.0f;
}

}  // namespace

Status TensorCheckpoint::Add(const PlannedTensor& planned, TensorSource source) {
  const StoredTensor& tensor = source.tensor;
  const std::string who =
      "'" + source.file + "': byte " + std::to_string(tensor.file_offset) + ": tensor " + QuotedName(tensor.name);
  if (tensor.shape != planned.shape) {
    return Error(ErrorCode::kMalformed, who + " has shape " + ShapeText(tensor.shape) + "; wanted " +
                                            ShapeText(planned.shape) + " by the model's hyper-parameters");
  }
  if (tensor.type->type == WeightType::kOther) {
    return Error(ErrorCode::kUnsupported, who + " is stored as " + std::string(tensor.type->name) +
                                              ", which cannot be read; known are F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
                                              "Q5_0, Q5_1, Q4_K, Q5_K and Q6_K");
  }
  HAYPILE_CHECK(sources_.emplace(planned.name, std::move(source)).second);
  return {};
}

Result<const TensorSource*> TensorCheckpoint::Find(const std::string& name) const {
  const auto found = sources_.find(name);
  if (found != sources_.end()) return &found->second;
  const std::string where = gguf_ ? gguf_->path() : folder_;
  return Error(ErrorCode::kNotFound, "'" + where + "' has no tensor " + QuotedName(name));
}

Result<std::vector<int64_t>> TensorCheckpoint::Shape(const std::string& name) const {
  HAYPILE_TRY_ASSIGN(const TensorSource* source, Find(name));
  return source->tensor.shape;
}

Status TensorCheckpoint::ReadBf16(const std::string& name, std::span<uint16_t> out) const {
  HAYPILE_TRY_ASSIGN(const TensorSource* source, Find(name));
  HAYPILE_CHECK_EQ(out.size(), static_cast<size_t>(*ElementCount(source->tensor.shape)));
  if (IsPlainBf16(*source)) {
    std::memcpy(out.data(), source->tensor.bytes.data(), out.size_bytes());
    return {};
  }
  ForEachChunk(*source,
               [&out](int64_t first, std::span<const float> values) { RoundToBf16(values, out.data() + first); });
  return {};
}

Status TensorCheckpoint::ReadF32(const std::string& name, std::span<float> out) const {
  HAYPILE_TRY_ASSIGN(const TensorSource* source, Find(name));
  HAYPILE_CHECK_EQ(out.size(), static_cast<size_t>(*ElementCount(source->tensor.shape)));
  ForEachChunk(*source, [&out](int64_t first, std::span<const float> values) {
    std::copy(values.begin(), values.end(), out.begin() + first);
  });
  return {};
}

}  // namespace haypile
