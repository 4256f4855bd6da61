#include "checkpoint/kv_scale_tensors.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "checkpoint/weight_type.h"
#include "formats/bf16.h"
#include "formats/e4m3fn.h"
#include "formats/e4m3fnuz.h"
#include "formats/e5m2.h"
#include "formats/e8m0.h"
#include "formats/fp16.h"

namespace haypile {
namespace {

template <typename T, typename Decode>
std::vector<double> DecodeAll(std::span<const uint8_t> bytes, Decode decode) {
  std::vector<double> values;
  values.reserve(bytes.size() / sizeof(T));
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T code;
    std::memcpy(&code, bytes.data() + at, sizeof(T));
    values.push_back(static_cast<double>(decode(code)));
  }
  return values;
}

Status ReadValues(const CheckpointHeaders& headers, KvScaleTensor* scale, ReadCount* count) {
  const HeaderTensor& tensor = scale->tensor;
  if (scale->name.kind == KvScaleKind::kBias) {
    scale->unread = "a bias, not a scale";
    return {};
  }
  if (tensor.bytes > kMostScaleValues * sizeof(double) ||
      ElementCount(tensor.shape).value_or(INT64_MAX) > static_cast<int64_t>(kMostScaleValues)) {
    scale->unread = "too large for a scale: shape " + ShapeText(tensor.shape);
    return {};
  }
  HAYPILE_TRY_ASSIGN(const HeaderFile file, HeaderFile::Open(headers.folder + "/" + headers.files[tensor.file], count));
  std::vector<uint8_t> bytes(tensor.bytes);
  HAYPILE_TRY(file.ReadAt(tensor.offset, bytes));
  Result<std::vector<double>> values = DecodeScaleValues(tensor.dtype, bytes);
  if (values.ok()) {
    scale->values = std::move(values).value();
  } else {
    scale->unread = values.error().message();
  }
  return {};
}

}  // namespace

Result<std::vector<double>> DecodeScaleValues(std::string_view dtype, std::span<const uint8_t> bytes) {
  if (dtype == "F64") return DecodeAll<double>(bytes, [](double v) { return v; });
  if (dtype == "F32") return DecodeAll<float>(bytes, [](float v) { return v; });
  if (dtype == "F16") return DecodeAll<uint16_t>(bytes, [](uint16_t v) { return FloatFromFp16(v); });
  if (dtype == "BF16") return DecodeAll<uint16_t>(bytes, [](uint16_t v) { return FloatFromBf16(v); });
  if (dtype == "F8_E4M3") return DecodeAll<uint8_t>(bytes, [](uint8_t v) { return FloatFromE4m3fn(v); });
  if (dtype == "F8_E4M3FNUZ") return DecodeAll<uint8_t>(bytes, [](uint8_t v) { return FloatFromE4m3fnuz(v); });
  if (dtype == "F8_E5M2") return DecodeAll<uint8_t>(bytes, [](uint8_t v) { return FloatFromE5m2(v); });
  if (dtype == "F8_E8M0") return DecodeAll<uint8_t>(bytes, [](uint8_t v) { return FloatFromE8m0(v); });
  return Error(ErrorCode::kUnsupported, "dtype " + QuotedName(dtype) + " is not one that holds scales");
}

Result<std::vector<KvScaleTensor>> ReadKvScales(const CheckpointHeaders& headers, ReadCount* count) {
  std::vector<KvScaleTensor> scales;
  for (const HeaderTensor& tensor : headers.tensors) {
    std::optional<KvScaleName> name = ParseKvScaleName(tensor.name);
    if (!name) continue;
    scales.push_back({.name = std::move(*name), .tensor = tensor, .values = {}, .unread = {}});
    HAYPILE_TRY(ReadValues(headers, &scales.back(), count));
  }
  std::sort(scales.begin(), scales.end(), [](const KvScaleTensor& a, const KvScaleTensor& b) {
    return std::tie(a.name.place.layer, a.tensor.name) < std::tie(b.name.place.layer, b.tensor.name);
  });
  return scales;
}

}  // namespace haypile
