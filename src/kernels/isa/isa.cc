#include "kernels/isa/isa.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/check.h"
#include "kernels/isa/product_rates.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace haypile {
namespace {

constexpr int kUnset = -1;
std::atomic<int> g_active{kUnset};

Result<Isa> IsaByName(std::string_view name) {
  std::string known;
  for (const Isa isa : kEveryIsa) {
    if (IsaName(isa) == name) return isa;
    known += (known.empty() ? "" : ", ") + std::string(IsaName(isa));
  }
  return Error(ErrorCode::kInvalidArgument,
               "HAYPILE_FORCE_ISA='" + std::string(name) + "' is not a level; known: " + known);
}

// Whether this program was built for processors of the kind that may have the level.
bool IsOfThisArchitecture(Isa isa) {
  if (isa == Isa::kScalar) return true;
#if defined(__x86_64__)
  return isa != Isa::kNeon;
#elif defined(__aarch64__)
  return isa == Isa::kNeon;
#else
  return false;
#endif
}

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports does not know this name.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

#if defined(__x86_64__)
// Whether the processor multiplies tiles of BF16 and the system lets this program use them. Linux keeps their 8 kB of
// state only for programs that ask; the answer holds for all threads, also those to come.
bool MayUseAmx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;  // CPUID leaf 7, EDX
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;  // XCR0: tile configuration and tile data
  if ((low & kTileState) != kTileState) return false;
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool allowed = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
#else
  return false;
#endif
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

bool Bf16ProductsAreFast() {
#if defined(__x86_64__)
  static const bool fast = SecondsOfBf16ProductsAvx512() < 1.5 * SecondsOfFp32ProductsAvx512();
  return fast;
#else
  return false;
#endif
}

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
    case Isa::kNeon:
      return "neon";
  }
  return "unknown";
}

Isa HighestIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
                    __builtin_cpu_supports("avx512vbmi");
  if (bf16) return MayUseAmx() ? Isa::kAmx : Isa::kAvx512Bf16;
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#elif defined(__aarch64__)
  return Isa::kNeon;
#endif
  return Isa::kScalar;
}

bool HasIsa(Isa isa) { return IsOfThisArchitecture(isa) && isa <= HighestIsa(); }

Result<Isa> SelectIsa() {
  const char* forced = std::getenv("HAYPILE_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return HighestIsa();
  HAYPILE_TRY_ASSIGN(const Isa isa, IsaByName(forced));
  if (HasIsa(isa)) return isa;
  const std::string why = IsOfThisArchitecture(isa) ? "this processor has no such instructions"
                                                    : "a level of another processor architecture";
  return Error(ErrorCode::kUnsupported, "HAYPILE_FORCE_ISA=" + std::string(forced) + ": " + why +
                                            "; the highest level here is " + std::string(IsaName(HighestIsa())));
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
  HAYPILE_CHECK(HasIsa(isa));
  g_active.store(static_cast<int>(isa));
}

}  // namespace haypile
