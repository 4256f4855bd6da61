#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace haypile {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kCacheLineBytes = 64;

size_t RoundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t size_bytes) {
  AlignedBuffer buffer;
  if (size_bytes == 0) return buffer;
  const bool huge = size_bytes >= kHugePageBytes;
  const size_t alignment = huge ? kHugePageBytes : kCacheLineBytes;
  const Error refused(ErrorCode::kOutOfBudget,
                      "the system cannot give " + std::to_string(size_bytes) + " bytes of memory; ask for less");
  if (size_bytes > SIZE_MAX - alignment) return refused;
  const size_t rounded = RoundUp(size_bytes, alignment);
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) return refused;
  // Advice before the first touch, so that the zeroing below faults huge pages in; a refusal is harmless.
  if (huge) (void)madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded);
  buffer.data_ = static_cast<uint8_t*>(memory);
  buffer.size_bytes_ = size_bytes;
  buffer.mapped_bytes_ = rounded;
  return buffer;
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

}  // namespace haypile
