#include "planner/vllm_dtypes.h"

#include <fmt/format.h>

#include <array>

#include "formats/kv_format.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

struct DtypeRow {
  std::string_view name;
  VllmKvMode mode;
  int key_bits = 0;
  int value_bits = 0;
};

// config/cache.py; the bits of turboquant: K8V4 keeps K in 8 bits, the others pack both.
constexpr std::array<DtypeRow, 17> kDtypes = {{
    {"auto", VllmKvMode::kModelDtype},
    {"float16", VllmKvMode::kHalf},
    {"bfloat16", VllmKvMode::kHalf},
    {"fp8", VllmKvMode::kFp8},
    {"fp8_e4m3", VllmKvMode::kFp8},
    {"fp8_e5m2", VllmKvMode::kFp8},
    {"fp8_inc", VllmKvMode::kFp8},
    {"fp8_ds_mla", VllmKvMode::kFp8DsMla},
    {"turboquant_k8v4", VllmKvMode::kTurboquant, 8, 4},
    {"turboquant_4bit_nc", VllmKvMode::kTurboquant, 4, 4},
    {"turboquant_k3v4_nc", VllmKvMode::kTurboquant, 3, 4},
    {"turboquant_3bit_nc", VllmKvMode::kTurboquant, 3, 3},
    {"int4_per_token_head", VllmKvMode::kInt4PerTokenHead},
    {"int8_per_token_head", VllmKvMode::kInt8PerTokenHead},
    {"fp8_per_token_head", VllmKvMode::kFp8PerTokenHead},
    {"nvfp4", VllmKvMode::kNvfp4},
    {"nvfp4_4over6", VllmKvMode::kNvfp4},
}};

constexpr int kScaleBytes = 4;            // float32 beside each row of the per-token-head modes
constexpr int kTurboquantNormBytes = 2;   // float16 norm of a packed key
constexpr int kTurboquantScaleBytes = 4;  // float16 scale and zero point of a value
constexpr int64_t kFp8DsMlaRow = 656;     // 512 fp8 + 4 float32 scales + 64 bfloat16 of RoPE

int64_t PackedBytes(int dim, int bits) { return (int64_t{dim} * bits + 7) / 8; }

int64_t TurboquantBytes(const VllmKvDtype& dtype, int dim) {
  const int64_t key = dtype.key_bits == 8 ? dim : PackedBytes(dim, dtype.key_bits) + kTurboquantNormBytes;
  const int64_t both = key + PackedBytes(dim, dtype.value_bits) + kTurboquantScaleBytes;
  return both + both % 2;
}

Result<int64_t> RowsBytes(const VllmKvDtype& dtype, KvFormat format, int dim_k, int dim_v) {
  for (const int dim : {dim_k, dim_v}) {
    if (!FitsHeadDim(InfoOf(format), dim)) {
      return Error(ErrorCode::kUnsupported,
                   fmt::format("vLLM's '{}' stores blocks of 16 values, which a head of {} does not divide into",
                               dtype.name, dim));
    }
  }
  return RowBytes(format, dim_k) + RowBytes(format, dim_v);
}

Result<int64_t> OneHeadBytes(const VllmKvDtype& dtype, int dim_k, int dim_v, int model_bytes) {
  switch (dtype.mode) {
    case VllmKvMode::kModelDtype:
      return int64_t{model_bytes} * (dim_k + dim_v);
    case VllmKvMode::kHalf:
      return int64_t{2} * (dim_k + dim_v);
    case VllmKvMode::kFp8:
      return int64_t{dim_k} + dim_v;
    case VllmKvMode::kNvfp4:
      if (dim_k != dim_v) {
        return Error(ErrorCode::kUnsupported, "nvfp4 with asymmetric K/V head sizes not yet supported by vLLM");
      }
      return RowsBytes(dtype, KvFormat::kNvfp4, dim_k, dim_v);
    case VllmKvMode::kInt8PerTokenHead:
    case VllmKvMode::kFp8PerTokenHead:
      return int64_t{dim_k} + dim_v + 2 * kScaleBytes;
    case VllmKvMode::kInt4PerTokenHead:
      return int64_t{dim_k / 2} + dim_v / 2 + 2 * kScaleBytes;
    case VllmKvMode::kTurboquant:
      return TurboquantBytes(dtype, dim_k);
    case VllmKvMode::kFp8DsMla:
      return Error(ErrorCode::kUnsupported, "fp8_ds_mla is a layout of latent (MLA) rows; this model has none");
  }
  return Error(ErrorCode::kInternal, "unknown KV cache mode");
}

}  // namespace

Result<VllmKvDtype> ParseVllmKvDtype(std::string_view name) {
  std::string known;
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return VllmKvDtype{std::string(name), row.mode, row.key_bits, row.value_bits};
    known += known.empty() ? "" : ", ";
    known += row.name;
  }
  if (name == "nvfp4_ds_mla" || name == "ultraquant_4bit") {
    return Error(ErrorCode::kUnsupported, fmt::format("vLLM's KV cache dtype '{}' is not understood yet", name));
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("vLLM knows no --kv-cache-dtype '{}'; it takes {}", name, known));
}

Result<int64_t> VllmHeadBytes(const VllmKvDtype& dtype, int heads, int dim_k, int dim_v, int model_bytes) {
  Result<int64_t> one = OneHeadBytes(dtype, dim_k, dim_v, model_bytes);
  if (!one) return one;
  return *one * heads;
}

Result<int64_t> VllmLatentBytes(const VllmKvDtype& dtype, int row, int model_bytes) {
  switch (dtype.mode) {
    case VllmKvMode::kModelDtype:
      return int64_t{row} * model_bytes;
    case VllmKvMode::kHalf:
      return int64_t{row} * 2;
    case VllmKvMode::kFp8:
      return int64_t{row};
    case VllmKvMode::kFp8DsMla:
      return kFp8DsMlaRow;
    case VllmKvMode::kInt8PerTokenHead:
    case VllmKvMode::kFp8PerTokenHead:
      return int64_t{row} + 2 * kScaleBytes;
    case VllmKvMode::kInt4PerTokenHead:
      return int64_t{row / 2} + 2 * kScaleBytes;
    case VllmKvMode::kNvfp4:
    case VllmKvMode::kTurboquant:
      return Error(ErrorCode::kUnsupported, fmt::format("vLLM stores no latent (MLA) rows as {}", dtype.name));
  }
  return Error(ErrorCode::kInternal, "unknown KV cache mode");
}

}  // namespace haypile
