#if defined(__x86_64__)
#include <chrono>

#include "kernels/isa/product_rates.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

constexpr int kChains = 12;  // more than any processor's latency times its products a cycle
constexpr int kRounds = 400;
constexpr int kRuns = 5;

// The least of some runs of kRounds * kChains calls of `add` on sums of their own.
template <typename Add>
double SecondsOf(Add add) {
  double least = 1;
  for (int run = 0; run < kRuns; ++run) {
    Vec<16>::F sums[kChains] = {};
    const auto start = std::chrono::steady_clock::now();
    HAYPILE_NO_UNROLL
    for (int round = 0; round < kRounds; ++round) {
      HAYPILE_UNROLL
      for (int chain = 0; chain < kChains; ++chain) add(sums[chain]);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (Vec<16>::F& sum : sums) asm volatile("" : "+v"(sum));
    if (seconds < least) least = seconds;
  }
  return least;
}

}  // namespace

double SecondsOfFp32ProductsAvx512() {
  const Vec<16>::F value = {}, factor = {};
  return SecondsOf([&](Vec<16>::F & sum) __attribute__((always_inline)) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(value), "v"(factor));
  });
}

double SecondsOfBf16ProductsAvx512() {
  const Vec<16>::F value = {}, factor = {};
  return SecondsOf([&](Vec<16>::F & sum) __attribute__((always_inline)) {
    asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(value), "v"(factor));
  });
}

}  // namespace haypile
#endif
