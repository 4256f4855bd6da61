// Products of BF16 matrices in the tile registers of AMX, for any number of rows. Included only by per-ISA units.
// Without AMX the same sums are computed with vectors, so that what stands around them is tested on any processor.
//
// The first factor, queries or weights, is the sum of two BF16 numbers, each rounded to nearest even: within 2^-17 of
// it. Both stand as rows of one matrix, whose sums are added in the end. Sums are FP32; AMX takes subnormals of FP32
// and BF16 for zero. An infinite element gives NaN, since the second number may be zero.
#ifndef HAYPILE_KERNELS_ATTENTION_AMX_PRODUCTS_H_
#define HAYPILE_KERNELS_ATTENTION_AMX_PRODUCTS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/attention/attention_span.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// A tile register holds 16 rows of 64 bytes. Matrices stand in memory as tiles of this size, "chunks": of the first
// factor 16 rows (of the group) times 32 inner numbers, of the second one 16 pairs of inner numbers times 16 columns.
inline constexpr int kChunkBytes = 1024;
inline constexpr int kChunkRows = 16;
inline constexpr int kChunkInner = 32;

// The tile registers of the calling thread while this lives: 0 to 3 sums, 4 and 5 the first factor, 6 and 7 the second.
class AmxTiles {
 public:
  // `rows`: of the first factor and the sums, at most kChunkRows.
  explicit AmxTiles([[maybe_unused]] int rows) {
#if defined(__AMX_BF16__)
    struct alignas(64) Configuration {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } configuration;
    for (int tile = 0; tile < 8; ++tile) {
      configuration.row_bytes[tile] = 64;
      configuration.rows[tile] = static_cast<uint8_t>(tile < 6 ? rows : kChunkRows);
    }
    asm volatile("" ::: "memory");
    _tile_loadconfig(&configuration);
#endif
  }
  ~AmxTiles() {
#if defined(__AMX_BF16__)
    _tile_release();
#endif
  }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

struct alignas(64) AmxSums {
  float of[kChunkRows][16];
};

// sums[m][t] = first[m] times second[t], over `terms` stretches of second[t], each `chunks` long and `term_stride`
// bytes after the one before, all with the same chunks of first[m].
template <int M, int T>
inline void MultiplyChunks(const uint8_t* const (&first)[M], const uint8_t* const (&second)[T], int chunks, int terms,
                           int64_t term_stride, AmxSums (&sums)[M][T]) {
#if defined(__AMX_BF16__)
  asm volatile("" ::: "memory");  // GCC's tile intrinsics do not say that they read and write memory
  _tile_zero(0);
  if constexpr (T > 1) _tile_zero(1);
  if constexpr (M > 1) _tile_zero(2);
  if constexpr (M > 1 && T > 1) _tile_zero(3);
  for (int term = 0; term < terms; ++term) {
    for (int64_t at = 0; at < int64_t{chunks} * kChunkBytes; at += kChunkBytes) {
      _tile_loadd(6, second[0] + term * term_stride + at, 64);
      _tile_loadd(4, first[0] + at, 64);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (T > 1) {
        _tile_loadd(7, second[1] + term * term_stride + at, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (M > 1) {
        _tile_loadd(5, first[1] + at, 64);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (T > 1) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  _tile_stored(0, &sums[0][0], 64);
  if constexpr (T > 1) _tile_stored(1, &sums[0][1], 64);
  if constexpr (M > 1) _tile_stored(2, &sums[1][0], 64);
  if constexpr (M > 1 && T > 1) _tile_stored(3, &sums[1][1], 64);
  asm volatile("" ::: "memory");
#else
  for (int m = 0; m < M; ++m) {
    for (int t = 0; t < T; ++t) {
      for (int row = 0; row < kChunkRows; ++row) {
        Vec<16>::F sum = {};
        for (int term = 0; term < terms; ++term) {
          for (int chunk = 0; chunk < chunks; ++chunk) {
            const uint16_t* factors =
                reinterpret_cast<const uint16_t*>(first[m] + chunk * kChunkBytes) + row * kChunkInner;
            const uint8_t* pairs = second[t] + term * term_stride + chunk * kChunkBytes;
            for (int pair = 0; pair < 16; ++pair) {
              AddBf16Pairs(sum, LoadVec<Vec<16>::U>(pairs + pair * 64), factors + 2 * pair);
            }
          }
        }
        StoreVec(sums[m][t].of[row], sum);
      }
    }
  }
#endif
}

// Rows of a first factor: groups of up to 8 rows, each `chunks` long; in a group first the rows rounded to BF16, then,
// in the same order, what that leaves of them.
class AmxRows {
 public:
  static constexpr int kGroupRows = kChunkRows / 2;

  AmxRows(uint8_t* memory, int rows, int chunks)
      : memory_(memory), chunks_(chunks), group_rows_(std::min(rows, kGroupRows)) {}

  static constexpr int64_t Bytes(int rows, int chunks) {
    return int64_t{(rows + kGroupRows - 1) / kGroupRows} * chunks * kChunkBytes;
  }

  // Rows of a group, which are also what the rest of a row stands below it.
  int GroupRows() const { return group_rows_; }
  const uint8_t* Group(int group) const { return memory_ + int64_t{group} * chunks_ * kChunkBytes; }

  // `count`, a multiple of 16, values of a row; up to the chunk's end zeros follow.
  void Set(int row, const float* values, int count) {
    uint8_t* group = memory_ + int64_t{row / kGroupRows} * chunks_ * kChunkBytes;
    for (int i = 0; i < (count + kChunkInner - 1) / kChunkInner * kChunkInner; i += 16) {
      const Vec<16>::F value = i < count ? LoadVec<Vec<16>::F>(values + i) : Vec<16>::F{};
      uint16_t* to = reinterpret_cast<uint16_t*>(group + i / kChunkInner * kChunkBytes) + i % kChunkInner;
      to += row % kGroupRows * kChunkInner;
      StoreVec(to, RoundToBf16(value));
      StoreVec(to + group_rows_ * kChunkInner, RoundToBf16(value - LoadBf16<16>(to)));
    }
  }

 private:
  uint8_t* memory_;
  int chunks_;
  int group_rows_;
};

// Pairs of FP32 numbers as pairs of BF16 ones, rounded, and what that leaves of them, rounded too.
inline void SplitPairs(Vec<16>::F even, Vec<16>::F odd, Vec<16>::U& high, Vec<16>::U& low) {
  using F = Vec<16>::F;
  using U = Vec<16>::U;
  const U even_high = RoundBitsToBf16((U)even), odd_high = RoundBitsToBf16((U)odd) << 16;
  high = even_high | odd_high;
  low = RoundBitsToBf16((U)(even - (F)(even_high << 16))) | RoundBitsToBf16((U)(odd - (F)odd_high)) << 16;
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_AMX_PRODUCTS_H_
