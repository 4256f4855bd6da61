#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/header_checkpoint.h"
#include "checkpoint/kv_scale_name.h"

namespace haypile {

// A KV scale with its values.
struct KvScaleTensor {
  KvScaleName name;
  HeaderTensor tensor;
  std::vector<double> values;  // row-major; empty when `unread` says why
  std::string unread;
};

// More values than any model has KV heads times head dim: such a tensor is no scale, and is not read.
inline constexpr size_t kMostScaleValues = 1 << 16;

// The KV scales of a checkpoint and their values: the only data that is read. Biases are named, not read. Sorted by
// layer, then name. kIo, kMalformed of the reads.
Result<std::vector<KvScaleTensor>> ReadKvScales(const CheckpointHeaders& headers, ReadCount* count);

// Elements of `dtype` (F64, F32, F16, BF16, F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E8M0) as numbers. kUnsupported for
// others.
Result<std::vector<double>> DecodeScaleValues(std::string_view dtype, std::span<const uint8_t> bytes);

}  // namespace haypile
