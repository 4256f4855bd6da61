// From 64-byte blocks of a tile to FP32 lanes, exactly, for every element kind. Included only by per-ISA units.
// N is the vector width in 32-bit lanes; a block has 16 lanes, so it is read in 16/N parts.
#ifndef HAYPILE_KERNELS_ATTENTION_KV_DECODERS_H_
#define HAYPILE_KERNELS_ATTENTION_KV_DECODERS_H_

#include "kernels/attention/fp8_tables.h"
#include "kernels/attention/tile_layout.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// 16-bit pairs in 32-bit lanes, each half a bf16: out[0] from the low halves, out[1] from the high ones.
template <int N>
inline void WidenBf16Pairs(typename Vec<N>::U pairs, typename Vec<N>::F* out) {
  out[0] = (typename Vec<N>::F)(pairs << 16);
  out[1] = (typename Vec<N>::F)(pairs & 0xffff0000u);
}

// Bytes of bf16 values apart, low and high, to four vectors in lane order.
template <int N>
inline void WidenBytePlanes(typename Vec<N>::B low, typename Vec<N>::B high, typename Vec<N>::F* out) {
  WidenBf16Pairs<N>((typename Vec<N>::U)UnpackLow(low, high), out);
  WidenBf16Pairs<N>((typename Vec<N>::U)UnpackHigh(low, high), out + 2);
}

// A decoder turns part `part` of a block into kInner vectors, kStep at a time: Decode<step>(block, part, out).

struct Bf16Decoder {
  static constexpr int kInner = 2, kStep = 2;
  static constexpr float kFactor = 1.0f;  // what products must be multiplied by; folded outside the element path
  template <int N, int Step>
  static inline void Decode(const uint8_t* block, int part, typename Vec<N>::F* out) {
    WidenBf16Pairs<N>(LoadVec<typename Vec<N>::U>(block + part * 4 * N), out);
  }
};

struct Fp16Decoder {
  static constexpr int kInner = 2, kStep = 2;
  static constexpr float kFactor = 1.0f;
  template <int N, int Step>
  static inline void Decode(const uint8_t* block, int part, typename Vec<N>::F* out) {
    out[0] = LoadHalfFloats<N>(block + part * 2 * N);
    out[1] = LoadHalfFloats<N>(block + 32 + part * 2 * N);
  }
};

// E4M3: bits seeeemmm. As bf16 a normal code is sign, then p = eeeemmm shifted by 4, plus 0x3C00 for the exponent: the
// high byte follows from the high nibble alone, the low byte is the low nibble. The seven subnormals m * 2^-9, zero and
// NaN are put right by adding to both bytes, looked up by a small index: p for p < 8, 8 for any normal code, 9 for NaN.
// Flushing subnormals would be wrong, and scaling FP32 denormals instead is slow.
constexpr uint8_t kE4m3High[16] = {0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43,
                                   0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3};
constexpr uint8_t kE4m3fnAddHigh[16] = {0xc4, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x3c};
constexpr uint8_t kE4m3fnuzAddHigh[16] = {0xc4, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x43};
constexpr uint8_t kE4m3AddLow[16] = {0x00, 0xf0, 0x60, 0x90, 0xc0, 0xd0, 0xe0, 0xf0, 0, 0};
constexpr uint8_t kE4m3fnuzAddLow[16] = {0x00, 0xf0, 0x60, 0x90, 0xc0, 0xd0, 0xe0, 0xf0, 0, 0xf0};

template <bool kFnuz>
struct E4m3Decoder {
  static constexpr int kInner = 4, kStep = 4;
  // FNUZ has the bias 8: every value is half of the E4M3FN value with the same bits.
  static constexpr float kFactor = kFnuz ? 0.5f : 1.0f;
  template <int N, int Step>
  static inline void Decode(const uint8_t* block, int part, typename Vec<N>::F* out) {
    using B = typename Vec<N>::B;
    const B x = LoadVec<B>(block + part * 4 * N);
    if constexpr (kHasLookup128<N>) {
      B low, high;
      Fp8BytePlanes<kFnuz ? Fp8Kind{3, 7, 0x80, 0x80, true} : kE4m3Kind>(x, low, high);
      return WidenBytePlanes<N>(low, high, out);
    }
    const B p = x & 0x7f;
    const B small = MinBytes(p, B{} + 8);
    const B nan = kFnuz ? (B)(x == 0x80) : (B)(p == 0x7f);
    const B index = kFnuz ? small | (nan & 9) : small - nan;
    const B high = Lookup(kE4m3High, x >> 4) + Lookup(kFnuz ? kE4m3fnuzAddHigh : kE4m3fnAddHigh, index);
    const B low = (x << 4) + Lookup(kFnuz ? kE4m3fnuzAddLow : kE4m3AddLow, index);
    WidenBytePlanes<N>(low, high, out);
  }
};

// E5M2: bits seeeeemm. As bf16: (p << 5) + 0x3800; subnormals m * 2^-16; from 0x7c on Inf and NaN.
constexpr uint8_t kE5m2SubnormalHigh[16] = {0x00, 0x37, 0x38, 0x38};
constexpr uint8_t kE5m2SubnormalLow[16] = {0x00, 0x80, 0x00, 0x40};

struct E5m2Decoder {
  static constexpr int kInner = 4, kStep = 4;
  static constexpr float kFactor = 1.0f;
  template <int N, int Step>
  static inline void Decode(const uint8_t* block, int part, typename Vec<N>::F* out) {
    using B = typename Vec<N>::B;
    const B x = LoadVec<B>(block + part * 4 * N);
    if constexpr (kHasLookup128<N>) {
      B low, high;
      Fp8BytePlanes<kE5m2Kind>(x, low, high);
      return WidenBytePlanes<N>(low, high, out);
    }
    const B p = x & 0x7f;
    const B subnormal = (B)(p < 4);
    B high = (p >> 3) + 0x38;
    B low = p << 5;
    high = Select(subnormal, Lookup(kE5m2SubnormalHigh, p), high);
    low = Select(subnormal, Lookup(kE5m2SubnormalLow, p), low);
    high = high | ((B)(p >= 0x7c) & 0x7f) | (x & 0x80);
    WidenBytePlanes<N>(low, high, out);
  }
};

struct Int8Decoder {
  static constexpr int kInner = 4, kStep = 4;
  static constexpr float kFactor = 1.0f;
  template <int N>
  static inline void WidenPairs(typename Vec<N>::I pairs, typename Vec<N>::F* out) {
    out[0] = __builtin_convertvector((pairs << 16) >> 16, typename Vec<N>::F);
    out[1] = __builtin_convertvector(pairs >> 16, typename Vec<N>::F);
  }
  template <int N, int Step>
  static inline void Decode(const uint8_t* block, int part, typename Vec<N>::F* out) {
    using B = typename Vec<N>::B;
    const B x = LoadVec<B>(block + part * 4 * N);
    const B sign = (B)((typename Vec<N>::S)x < 0);
    WidenPairs<N>((typename Vec<N>::I)UnpackLow(x, sign), out);
    WidenPairs<N>((typename Vec<N>::I)UnpackHigh(x, sign), out + 2);
  }
};

// 4-bit codes through two 16-entry tables of bf16 bytes.
template <typename Tables>
struct NibbleDecoder {
  static constexpr int kInner = 8, kStep = 4;
  static constexpr float kFactor = 1.0f;
  template <int N, int Step>
  static inline void Decode(const uint8_t* block, int part, typename Vec<N>::F* out) {
    using B = typename Vec<N>::B;
    const B x = LoadVec<B>(block + part * 4 * N);
    const B code = Step == 0 ? x & 0x0f : x >> 4;
    WidenBytePlanes<N>(Lookup(Tables::kLow, code), Lookup(Tables::kHigh, code), out);
  }
};

struct E2m1Tables {  // 0 .5 1 1.5 2 3 4 6 and their negatives
  static constexpr uint8_t kHigh[16] = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                        0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};
  static constexpr uint8_t kLow[16] = {0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0,
                                       0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0};
};

struct Int4Tables {  // code - 8
  static constexpr uint8_t kHigh[16] = {0xc1, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xbf,
                                        0x00, 0x3f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40};
  static constexpr uint8_t kLow[16] = {0x00, 0xe0, 0xc0, 0xa0, 0x80, 0x40, 0x00, 0x80,
                                       0x00, 0x80, 0x00, 0x40, 0x80, 0xa0, 0xc0, 0xe0};
};

// Calls emit(inner, vector) for every inner element of a part of a block.
template <int N, typename Decoder, typename Emit>
inline __attribute__((always_inline)) void DecodeWhole(const uint8_t* block, int part, Emit emit) {
  typename Vec<N>::F values[Decoder::kStep];
  Decoder::template Decode<N, 0>(block, part, values);
  HAYPILE_UNROLL
  for (int i = 0; i < Decoder::kStep; ++i) emit(i, values[i]);
  if constexpr (Decoder::kInner > Decoder::kStep) {
    Decoder::template Decode<N, 1>(block, part, values);
    HAYPILE_UNROLL
    for (int i = 0; i < Decoder::kStep; ++i) emit(Decoder::kStep + i, values[i]);
  }
}

// sums[r][p][inner % C] += factor(r, inner) times the elements `inner` of part first_part + p of a block, in FP32. Of
// decoders of two elements all parts are decoded first, so that a factor is loaded once for all of them.
template <int N, typename Decoder, int R, int P, int C, typename Factor>
inline __attribute__((always_inline)) void AddDecoded(const uint8_t* block, int first_part, Factor factor,
                                                      typename Vec<N>::F (&sums)[R][P][C]) {
  using F = typename Vec<N>::F;
  if constexpr (Decoder::kInner == 2) {
    F values[P][2];
    HAYPILE_UNROLL
    for (int p = 0; p < P; ++p) Decoder::template Decode<N, 0>(block, first_part + p, values[p]);
    HAYPILE_UNROLL
    for (int inner = 0; inner < 2; ++inner) {
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F of_row = Splat<F>(factor(r, inner));
        HAYPILE_UNROLL
        for (int p = 0; p < P; ++p) sums[r][p][inner % C] = MulAdd(of_row, values[p][inner], sums[r][p][inner % C]);
      }
    }
  } else {
    HAYPILE_UNROLL
    for (int p = 0; p < P; ++p) {
      DecodeWhole<N, Decoder>(
          block, first_part + p, [&](int inner, F value) __attribute__((always_inline)) {
            HAYPILE_UNROLL
            for (int r = 0; r < R; ++r) {
              F& sum = sums[r][p][inner % C];
              sum = MulAdd(Splat<F>(factor(r, inner)), value, sum);
            }
          });
    }
  }
}

// E4M3 codes in 32-bit lanes, neither negative nor NaN. kFastDenormals: FP32 subnormals may be multiplied
// (fp8_products.h).
template <int N, bool kFastDenormals>
inline typename Vec<N>::F DecodePlainE4m3(typename Vec<N>::I code) {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  if constexpr (kFastDenormals) return (F)(code << 20) * Splat<F>(0x1p120f);
  const F normal = (F)((code << 20) + (120 << 23));
  const F subnormal = __builtin_convertvector(code, F) * Splat<F>(1.0f / 512);
  return Select((I)(code < 8), subnormal, normal);
}

// Whether `bytes` E4M3 codes, a multiple of 32, are neither negative nor NaN.
template <int N>
inline bool ArePlainE4m3(const uint8_t* codes, int bytes) {
  typedef uint8_t Bytes __attribute__((vector_size(32)));
  Bytes largest = {};
  for (int at = 0; at < bytes; at += 32) largest = MaxBytes(largest, LoadVec<Bytes>(codes + at));
  return !AnyByte((Bytes)(largest >= 0x7f));
}

// N block scales of neighbouring tokens as FP32. kPlain: E4M3 codes are known to be plain.
template <int N, bool kFastDenormals, BlockScale kKind, bool kPlain = false>
inline __attribute__((always_inline)) typename Vec<N>::F DecodeScalesOf(const uint8_t* from) {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  if constexpr (kKind == BlockScale::kE4m3) {
    const I byte = LoadBytes<N>(from);
    if constexpr (kPlain) return DecodePlainE4m3<N, kFastDenormals>(byte);
    const I code = byte & 0x7f;
    const I nan = (I)(code == 0x7f) & 0x7fc00000;
    return (F)((I)DecodePlainE4m3<N, kFastDenormals>(code) | nan);
  } else if constexpr (kKind == BlockScale::kE8m0) {
    const I code = LoadBytes<N>(from);
    return (F)((code << 23) | ((I)(code == 0) & 0x00400000) | ((I)(code == 0xff) & 0x7fc00000));
  } else if constexpr (kKind == BlockScale::kFp16) {
    return LoadHalfFloats<N>(from);
  } else if constexpr (kKind == BlockScale::kFp32) {
    return LoadVec<F>(from);
  } else {
    return Splat<F>(1.0f);
  }
}

// The same for a kind that is known only now.
template <int N, bool kFastDenormals>
inline typename Vec<N>::F DecodeScales(BlockScale kind, const uint8_t* from) {
  switch (kind) {
    case BlockScale::kE4m3:
      return DecodeScalesOf<N, kFastDenormals, BlockScale::kE4m3>(from);
    case BlockScale::kE8m0:
      return DecodeScalesOf<N, kFastDenormals, BlockScale::kE8m0>(from);
    case BlockScale::kFp16:
      return DecodeScalesOf<N, kFastDenormals, BlockScale::kFp16>(from);
    case BlockScale::kFp32:
      return DecodeScalesOf<N, kFastDenormals, BlockScale::kFp32>(from);
    case BlockScale::kNone:
      break;
  }
  return Splat<typename Vec<N>::F>(1.0f);
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_KV_DECODERS_H_
