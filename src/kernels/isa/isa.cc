#include "kernels/isa/isa.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace haypile {
namespace {

constexpr int kUnset = -1;
std::atomic<int> g_active{kUnset};

Result<Isa> IsaByName(std::string_view name) {
  for (int i = 0; i < kIsaCount; ++i) {
    if (IsaName(static_cast<Isa>(i)) == name) return static_cast<Isa>(i);
  }
  return Error(ErrorCode::kInvalidArgument,
               "HAYPILE_FORCE_ISA='" + std::string(name) + "' is not a level; known: scalar, avx2, avx512");
}

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports does not know this name.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// Seconds of 4,096 products of `value`, the least of five runs.
double SecondsOfProducts(float value) {
  constexpr int kProducts = 4096;
  volatile float source = value;
  volatile float sink = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kProducts; ++i) sink = source * 0x1p100f;
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  (void)sink;
  return least;
}

}  // namespace

bool SubnormalsAreFast() {
  // Leaving the pipeline costs more than 100 cycles; a load, a product and a store about 5.
  static const bool fast = SecondsOfProducts(0x1p-130f) < 3 * SecondsOfProducts(0x1p-100f);
  return fast;
}

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Isa HighestIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

Result<Isa> SelectIsa() {
  const char* forced = std::getenv("HAYPILE_FORCE_ISA");
  const Isa highest = HighestIsa();
  if (forced == nullptr || *forced == '\0') return highest;
  HAYPILE_TRY_ASSIGN(const Isa isa, IsaByName(forced));
  if (isa <= highest) return isa;
  return Error(ErrorCode::kUnsupported, "HAYPILE_FORCE_ISA=" + std::string(forced) +
                                            ": this processor has no such instructions; its highest level is " +
                                            std::string(IsaName(highest)));
}

Isa ActiveIsa() {
  int active = g_active.load(std::memory_order_relaxed);
  if (active == kUnset) {
    active = static_cast<int>(SelectIsa().value());
    g_active.store(active);
  }
  return static_cast<Isa>(active);
}

void SetActiveIsaForTest(Isa isa) {
  HAYPILE_CHECK(isa <= HighestIsa());
  g_active.store(static_cast<int>(isa));
}

}  // namespace haypile
