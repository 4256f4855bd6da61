#include "base/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/aligned_buffer.h"

namespace haypile {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

typedef uint64_t Lane4 __attribute__((vector_size(32)));

// Reads every byte of [from, from + bytes); the sum keeps the reads alive. bytes is a multiple of 256.
uint64_t ReadAll(const uint8_t* from, int64_t bytes) {
  Lane4 sums[8] = {};
  for (int64_t offset = 0; offset < bytes; offset += 256) {
    for (int i = 0; i < 8; ++i) {
      Lane4 value;
      std::memcpy(&value, from + offset + i * 32, sizeof(value));
      sums[i] += value;
    }
  }
  uint64_t total = 0;
  for (const Lane4& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
  return total;
}

}  // namespace

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname name;
  return uname(&name) == 0 ? name.machine : "unknown";
}

std::optional<int64_t> MemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return std::nullopt;
  return int64_t{pages} * page_bytes;
}

std::optional<double> MeasureClockMhz() {
#if defined(__x86_64__)
  constexpr int kCyclesPerMultiply = 3;
  constexpr int kIterations = 50000;
  constexpr int kMultiplies = 10;
  uint64_t value = 3;
  double best = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto start = Clock::now();
    for (int i = 0; i < kIterations; ++i) {
      asm volatile(
          "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
          "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0"
          : "+r"(value));
    }
    best = std::min(best, SecondsSince(start));
  }
  return double{kIterations} * kMultiplies * kCyclesPerMultiply / best / 1e6;
#else
  return std::nullopt;
#endif
}

double MeasureReadBandwidth(ThreadPool& pool, int64_t bytes, int repeats) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const int64_t pieces = bytes / kPiece;
  auto buffer = AlignedBuffer::Allocate(static_cast<size_t>(pieces * kPiece));
  if (!buffer.ok() || pieces == 0) return 0;
  std::vector<uint64_t> sums(static_cast<size_t>(pieces));
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    pool.ParallelFor(sums.size(), [&](size_t i, int) {
      sums[i] = ReadAll(buffer->data() + static_cast<int64_t>(i) * kPiece, kPiece);
    });
    best = std::max(best, static_cast<double>(pieces * kPiece) / SecondsSince(start) / 1e9);
  }
  return best;
}

}  // namespace haypile
