// Attention over a span of tokens with N-lane vectors: the one algorithm of the avx2 and avx512 units. Included only by
// per-ISA units. Online softmax over blocks of tokens; see attention_span.h for the contract and units.
#ifndef HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_
#define HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "kernels/attention/attention_span.h"
#include "kernels/attention/kv_decoders.h"

// Accumulators live in registers only if every loop over them is unrolled.
#define HAYPILE_UNROLL _Pragma("GCC unroll 16")

namespace haypile {
namespace {

// One side (K or V) of one head in one tile.
struct TilePart {
  const uint8_t* data;
  const uint8_t* scales;
};

struct SideInfo {
  BlockScale scale_kind;
  int scale_bytes;
  int scale_elements;  // elements along the head that share a scale; head_dim when one or none
};

inline SideInfo SideOf(KvFormat format, int head_dim) {
  const KvFormatInfo& info = InfoOf(format);
  return {info.block_scale, info.block_scale_bytes, info.block_elements > 0 ? info.block_elements : head_dim};
}

template <int N>
class SpanKernel {
 public:
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  static constexpr int kParts = kBlockLanes / N;
  static constexpr int kPrefetchTiles = 2;

  explicit SpanKernel(const AttentionSpan& span)
      : span_(span),
        kv_(*span.kv),
        head_dim_(span.kv->head_dim),
        k_side_(SideOf(kv_.k_format, head_dim_)),
        v_side_(SideOf(kv_.v_format, head_dim_)) {}

  void Run() {
    const int64_t step = Fused() ? kDecodeBlockTokens : kPrefillBlockTokens;
    for (int64_t begin = span_.begin / kTileTokens * kTileTokens; begin < span_.end; begin += step) {
      block_begin_ = begin;
      block_end_ = std::min(begin + step, span_.end);
      tiles_ = static_cast<int>((block_end_ - begin + kTileTokens - 1) / kTileTokens);
      for (int tile = 0; tile < tiles_ + kPrefetchTiles; ++tile) {
        const int64_t token = begin + int64_t{tile} * kTileTokens;
        tile_starts_[tile] = token < span_.end ? TileAt(kv_, span_.page_table, token) : nullptr;
      }
      Dispatch<true>(kv_.k_format);
      for (int row = 0; row < span_.rows; ++row) SoftmaxRow(row);
      Dispatch<false>(kv_.v_format);
    }
  }

 private:
  bool Fused() const { return span_.rows <= kFusedRows; }
  int ScoreStride() const { return Fused() ? kDecodeBlockTokens : kPrefillBlockTokens; }
  float* ScoreRow(int row) const { return span_.scores + int64_t{row} * ScoreStride(); }
  const float* QueryRow(int row) const { return span_.queries + int64_t{row} * head_dim_; }
  float* WeightedRow(int row) const { return span_.weighted + int64_t{row} * head_dim_; }

  // Asks for K and V of a tile to come. A head's part of a tile is a short run far from the next one, which hardware
  // prefetchers start too late for: without this each run costs a memory latency.
  void PrefetchTile(int tile) const {
    if (tile_starts_[tile] == nullptr) return;
    const uint8_t* data = tile_starts_[tile] + span_.kv_head * kv_.layout.data_head_stride;
    for (int64_t byte = 0; byte < kv_.layout.data_head_stride; byte += kBlockBytes) __builtin_prefetch(data + byte);
    const uint8_t* scales = tile_starts_[tile] + span_.kv_head * kv_.layout.scale_head_stride;
    for (int64_t byte = 0; byte < kv_.layout.scale_head_stride; byte += kBlockBytes) {
      __builtin_prefetch(scales + kv_.layout.k_scale_offset + byte);
    }
  }

  template <bool kIsKey>
  TilePart Part(int tile) const {
    const uint8_t* start = tile_starts_[tile];
    const TileLayout& layout = kv_.layout;
    return {
        start + span_.kv_head * layout.data_head_stride + (kIsKey ? layout.k_data_offset : layout.v_data_offset),
        start + span_.kv_head * layout.scale_head_stride + (kIsKey ? layout.k_scale_offset : layout.v_scale_offset)};
  }

  F Scales(const SideInfo& side, const uint8_t* scales, int index, int part) const {
    return DecodeScales<N>(side.scale_kind, scales + ScaleByte(side.scale_bytes, part * N, index));
  }

  template <bool kIsKey>
  void Dispatch(KvFormat format) {
    switch (format) {
      case KvFormat::kBf16:
        return Side<kIsKey, Bf16Decoder>();
      case KvFormat::kFp16:
        return Side<kIsKey, Fp16Decoder>();
      case KvFormat::kFp8E4m3:
        return Side<kIsKey, E4m3Decoder<false>>();
      case KvFormat::kFp8E4m3Fnuz:
        return Side<kIsKey, E4m3Decoder<true>>();
      case KvFormat::kFp8E5m2:
        return Side<kIsKey, E5m2Decoder>();
      case KvFormat::kNvfp4:
      case KvFormat::kNvfp4FourOverSix:
      case KvFormat::kMxfp4:
        return Side<kIsKey, NibbleDecoder<E2m1Tables>>();
      case KvFormat::kInt8PerTokenHead:
      case KvFormat::kQ8_0:
        return Side<kIsKey, Int8Decoder>();
      case KvFormat::kQ4_0:
        return Side<kIsKey, NibbleDecoder<Int4Tables>>();
    }
  }

  template <bool kIsKey, typename Decoder>
  void Side() {
    if (!Fused()) {
      kIsKey ? DecodeKeys<Decoder>() : DecodeValues<Decoder>();
      for (int row = 0; row < span_.rows; row += kFusedRows) {
        RowsOf<kIsKey, Fp32Decoder>(row, std::min(kFusedRows, span_.rows - row));
      }
      return;
    }
    RowsOf<kIsKey, Decoder>(0, span_.rows);
  }

  template <bool kIsKey, typename Decoder>
  void RowsOf(int row, int rows) {
    switch (rows) {
      case 1:
        return kIsKey ? ScoreRows<Decoder, 1>(row) : WeighRows<Decoder, 1>(row);
      case 2:
        return kIsKey ? ScoreRows<Decoder, 2>(row) : WeighRows<Decoder, 2>(row);
      case 3:
        return kIsKey ? ScoreRows<Decoder, 3>(row) : WeighRows<Decoder, 3>(row);
      default:
        return kIsKey ? ScoreRows<Decoder, 4>(row) : WeighRows<Decoder, 4>(row);
    }
  }

  // Accumulators R rows x kParts, doubled for few rows so that enough independent sums hide the latency of FMA.
  template <int R>
  static constexpr int Chains() {
    return R * kParts <= 4 ? 2 : 1;
  }

  // ---- keys ----

  // Decodes the block's keys with their scales to [dim][token], a tile after the other.
  template <typename Decoder>
  void DecodeKeys() {
    for (int tile = 0; tile < tiles_; ++tile) {
      PrefetchTile(tile + kPrefetchTiles);
      const TilePart part_of = Part<true>(tile);
      float* out = span_.decoded + int64_t{tile} * kTileTokens * head_dim_;
      for (int group = 0; group * k_side_.scale_elements < head_dim_; ++group) {
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          const F scale = Scales(k_side_, part_of.scales, group, part) * Splat<F>(Decoder::kFactor);
          const int first = group * k_side_.scale_elements;
          for (int dim = first; dim < first + k_side_.scale_elements; dim += Decoder::kInner) {
            const uint8_t* block = part_of.data + int64_t{dim / Decoder::kInner} * kBlockBytes;
            DecodeWhole<Decoder>(block, part, [&](int inner, F value) {
              StoreVec(out + int64_t{dim + inner} * kTileTokens + part * N, value * scale);
            });
          }
        }
      }
    }
  }

  // Calls emit(inner, vector) for every inner element of a part of a block.
  template <typename Decoder, typename Emit>
  static inline __attribute__((always_inline)) void DecodeWhole(const uint8_t* block, int part, Emit emit) {
    F values[Decoder::kStep];
    Decoder::template Decode<N, 0>(block, part, values);
    HAYPILE_UNROLL
    for (int i = 0; i < Decoder::kStep; ++i) emit(i, values[i]);
    if constexpr (Decoder::kInner > Decoder::kStep) {
      Decoder::template Decode<N, 1>(block, part, values);
      HAYPILE_UNROLL
      for (int i = 0; i < Decoder::kStep; ++i) emit(Decoder::kStep + i, values[i]);
    }
  }

  // Adds the products of dims [first, last) to the accumulators.
  template <typename Decoder, int R>
  inline __attribute__((always_inline)) void KeyProducts(const uint8_t* data, const float* const (&query)[R], int first,
                                                         int last, F (&sums)[R][kParts][Chains<R>()]) const {
    constexpr int kChains = Chains<R>();
    for (int dim = first; dim < last; dim += Decoder::kInner) {
      const uint8_t* block = data + int64_t{dim / Decoder::kInner} * kBlockBytes;
      HAYPILE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        DecodeWhole<Decoder>(
            block, part, [&](int inner, F value) __attribute__((always_inline)) {
              HAYPILE_UNROLL
              for (int r = 0; r < R; ++r) {
                F& sum = sums[r][part][inner % kChains];
                sum = MulAdd(Splat<F>(query[r][dim + inner]), value, sum);
              }
            });
      }
    }
  }

  template <typename Decoder, int R>
  void ScoreRows(int row) {
    constexpr bool kDecoded = std::is_same_v<Decoder, Fp32Decoder>;
    const float* query[R];
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) query[r] = QueryRow(row + r);
    for (int tile = 0; tile < tiles_; ++tile) {
      TilePart part_of;
      if constexpr (kDecoded) {
        part_of.data = reinterpret_cast<const uint8_t*>(span_.decoded + int64_t{tile} * kTileTokens * head_dim_);
      } else {
        PrefetchTile(tile + kPrefetchTiles);
        part_of = Part<true>(tile);
      }
      const int step = kDecoded ? head_dim_ : k_side_.scale_elements;
      F totals[R][kParts] = {};
      for (int group = 0; group * step < head_dim_; ++group) {
        F sums[R][kParts][Chains<R>()] = {};
        KeyProducts<Decoder, R>(part_of.data, query, group * step, (group + 1) * step, sums);
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          F scale = Splat<F>(Decoder::kFactor);
          if constexpr (!kDecoded) scale = scale * Scales(k_side_, part_of.scales, group, part);
          HAYPILE_UNROLL
          for (int r = 0; r < R; ++r) {
            F sum = sums[r][part][0];
            if constexpr (Chains<R>() > 1) sum = sum + sums[r][part][1];
            totals[r][part] = MulAdd(sum, scale, totals[r][part]);
          }
        }
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          StoreVec(ScoreRow(row + r) + tile * kTileTokens + part * N, totals[r][part]);
        }
      }
    }
  }

  // ---- softmax ----

  void MaskRow(int row, float* scores) const {
    const int count = tiles_ * kTileTokens;
    const auto clamp = [&](int64_t token) {
      return static_cast<int>(std::clamp<int64_t>(token - block_begin_, 0, count));
    };
    const float minus_infinity = -std::numeric_limits<float>::infinity();
    std::fill(scores, scores + clamp(std::max(span_.row_begin[row], span_.begin)), minus_infinity);
    std::fill(scores + clamp(std::min(span_.row_end[row], block_end_)), scores + count, minus_infinity);
  }

  static float MaxOf(F value) {
    float max = value[0];
    for (int i = 1; i < N; ++i) max = std::max(max, value[i]);
    return max;
  }
  static float SumOf(F value) {
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += value[i];
    return sum;
  }

  // Turns a row's scores into weights against the new maximum and rescales what the row has gathered.
  void SoftmaxRow(int row) {
    float* scores = ScoreRow(row);
    MaskRow(row, scores);
    const int count = tiles_ * kTileTokens;
    F max = Splat<F>(-std::numeric_limits<float>::infinity());
    for (int i = 0; i < count; i += N) {
      const F score = LoadVec<F>(scores + i);
      max = Select((I)(score > max), score, max);
    }
    const float new_max = std::max(span_.row_max[row], MaxOf(max));
    // Nothing visible yet: weights of zero. NaN scores pass through the sum below.
    const float base = new_max == -std::numeric_limits<float>::infinity() ? 0.0f : new_max;
    F sum = {};
    for (int i = 0; i < count; i += N) {
      const F weight = Exp2<N>(LoadVec<F>(scores + i) - base);
      StoreVec(scores + i, weight);
      sum = sum + weight;
    }
    const F keep = Exp2<N>(Splat<F>(span_.row_max[row] - base));
    span_.row_sum[row] = span_.row_sum[row] * keep[0] + SumOf(sum);
    if (new_max != span_.row_max[row]) {
      float* weighted = WeightedRow(row);
      for (int d = 0; d < head_dim_; d += N) StoreVec(weighted + d, LoadVec<F>(weighted + d) * keep);
      span_.row_max[row] = new_max;
    }
  }

  // ---- values ----

  // Tokens of a tile that any row can see; beyond them memory is stale and must not be multiplied, not even by zero.
  int TokensIn(int tile) const {
    return static_cast<int>(std::min<int64_t>(kTileTokens, block_end_ - block_begin_ - int64_t{tile} * kTileTokens));
  }

  // Decodes the block's values with their scales to [dim block][token][16 dims].
  template <typename Decoder>
  void DecodeValues() {
    const int64_t plane = int64_t{tiles_} * kTileTokens * kBlockLanes;
    alignas(64) float scale[kTileTokens];
    for (int tile = 0; tile < tiles_; ++tile) {
      const TilePart part_of = Part<false>(tile);
      for (int dim_block = 0; dim_block * kBlockLanes < head_dim_; ++dim_block) {
        const int group = dim_block * kBlockLanes / v_side_.scale_elements;
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          StoreVec(scale + part * N, Scales(v_side_, part_of.scales, group, part) * Splat<F>(Decoder::kFactor));
        }
        float* out = span_.decoded + dim_block * plane + int64_t{tile} * kTileTokens * kBlockLanes;
        const uint8_t* data = part_of.data + int64_t{dim_block} * (kTileTokens / Decoder::kInner) * kBlockBytes;
        for (int token = 0; token < kTileTokens; token += Decoder::kInner) {
          const uint8_t* block = data + int64_t{token / Decoder::kInner} * kBlockBytes;
          HAYPILE_UNROLL
          for (int part = 0; part < kParts; ++part) {
            DecodeWhole<Decoder>(block, part, [&](int inner, F value) {
              StoreVec(out + (token + inner) * kBlockLanes + part * N, value * Splat<F>(scale[token + inner]));
            });
          }
        }
      }
    }
  }

  // Weights of one tile times the values' block scales of one dim block.
  template <int R>
  void ScaleWeights(const TilePart& part_of, int tile, int row, int group, float factor,
                    float (&weights)[R][kTileTokens]) const {
    HAYPILE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const F scale = Scales(v_side_, part_of.scales, group, part) * Splat<F>(factor);
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F weight = LoadVec<F>(ScoreRow(row + r) + tile * kTileTokens + part * N);
        StoreVec(&weights[r][part * N], weight * scale);
      }
    }
  }

  template <typename Decoder, int R>
  inline __attribute__((always_inline)) void ValueProducts(const uint8_t* data, const float* const (&weight)[R],
                                                           int tokens, F (&sums)[R][kParts][Chains<R>()]) const {
    constexpr int kChains = Chains<R>();
    for (int token = 0; token < tokens; token += Decoder::kInner) {
      const uint8_t* block = data + int64_t{token / Decoder::kInner} * kBlockBytes;
      const bool whole = token + Decoder::kInner <= tokens;
      HAYPILE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        DecodeWhole<Decoder>(
            block, part, [&](int inner, F value) __attribute__((always_inline)) {
              if (!whole && token + inner >= tokens) return;
              HAYPILE_UNROLL
              for (int r = 0; r < R; ++r) {
                F& sum = sums[r][part][inner % kChains];
                sum = MulAdd(Splat<F>(weight[r][token + inner]), value, sum);
              }
            });
      }
    }
  }

  template <typename Decoder, int R>
  void WeighRows(int row) {
    constexpr bool kDecoded = std::is_same_v<Decoder, Fp32Decoder>;
    const int64_t plane = int64_t{tiles_} * kTileTokens * kBlockLanes;
    alignas(64) float scaled[R][kTileTokens];
    for (int dim_block = 0; dim_block * kBlockLanes < head_dim_; ++dim_block) {
      F sums[R][kParts][Chains<R>()] = {};
      const int group = dim_block * kBlockLanes / v_side_.scale_elements;
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          sums[r][part][0] = LoadVec<F>(WeightedRow(row + r) + dim_block * kBlockLanes + part * N);
        }
      }
      for (int tile = 0; tile < tiles_; ++tile) {
        const float* weight[R];
        const uint8_t* data;
        if constexpr (kDecoded) {
          data = reinterpret_cast<const uint8_t*>(span_.decoded + dim_block * plane +
                                                  int64_t{tile} * kTileTokens * kBlockLanes);
          HAYPILE_UNROLL
          for (int r = 0; r < R; ++r) weight[r] = ScoreRow(row + r) + tile * kTileTokens;
        } else {
          const TilePart part_of = Part<false>(tile);
          data = part_of.data + int64_t{dim_block} * (kTileTokens / Decoder::kInner) * kBlockBytes;
          if (v_side_.scale_kind == BlockScale::kNone && Decoder::kFactor == 1.0f) {
            HAYPILE_UNROLL
            for (int r = 0; r < R; ++r) weight[r] = ScoreRow(row + r) + tile * kTileTokens;
          } else {
            ScaleWeights<R>(part_of, tile, row, group, Decoder::kFactor, scaled);
            HAYPILE_UNROLL
            for (int r = 0; r < R; ++r) weight[r] = scaled[r];
          }
        }
        ValueProducts<Decoder, R>(data, weight, TokensIn(tile), sums);
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          F sum = sums[r][part][0];
          if constexpr (Chains<R>() > 1) sum = sum + sums[r][part][1];
          StoreVec(WeightedRow(row + r) + dim_block * kBlockLanes + part * N, sum);
        }
      }
    }
  }

  const AttentionSpan& span_;
  const PagedKvView& kv_;
  const int head_dim_;
  const SideInfo k_side_, v_side_;
  int64_t block_begin_ = 0, block_end_ = 0;
  int tiles_ = 0;
  const uint8_t* tile_starts_[kDecodeBlockTokens / kTileTokens + kPrefetchTiles];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_
