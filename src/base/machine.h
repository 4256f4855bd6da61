#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/thread_pool.h"

namespace haypile {

// The processor's model name as the system gives it, or the architecture's.
std::string CpuModel();
// Physical memory in bytes; nothing where the system does not say.
std::optional<int64_t> MemoryBytes();

// The clock the calling thread runs at now, in MHz, from about half a millisecond of dependent 64-bit multiplications
// (3 cycles each on every x86-64 core since 2008). Virtual machines report a nominal clock only, so it is measured.
// Nothing on other architectures.
std::optional<double> MeasureClockMhz();

// Rate at which all threads of the pool together read memory that no cache holds, in 1e9 bytes per second: the best of
// `repeats` passes over `bytes`. The limit that decode speed is held against. 0 if the memory cannot be had.
double MeasureReadBandwidth(ThreadPool& pool, int64_t bytes = int64_t{512} << 20, int repeats = 5);

}  // namespace haypile
