#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/attention/attention.h"
#include "kernels/kv_write/kv_write.h"
#include "spec/model_spec.h"

namespace haypile {

// The activations of one forward pass, kept from pass to pass and grown when a larger batch comes, so that a token
// allocates nothing. R rows, all FP32 and densely packed.
struct DecoderWorkspace {
  float* x = nullptr;          // [R][H], the residual stream
  float* normed = nullptr;     // [R][H]
  float* projected = nullptr;  // [R][H]
  float* q = nullptr;          // [R][Hq][D]
  float* k = nullptr;          // [R][Hkv][D]
  float* v = nullptr;          // [R][Hkv][D]
  float* attention = nullptr;  // [R][Hq][D]
  float* gate = nullptr;       // [R][F]
  float* up = nullptr;         // [R][F]
  float* cosines = nullptr;    // [R][D/2], and so the next three
  float* sines = nullptr;
  float* local_cosines = nullptr;
  float* local_sines = nullptr;

  std::vector<int32_t> tokens;     // [R]
  std::vector<int64_t> positions;  // [R]
  std::vector<AttentionSequence> sequences;
  std::vector<KvWriteSequence> writes;

  // Makes room for `rows` rows; contents are lost when it grows. kOutOfBudget.
  Status Reserve(const ModelSpec& spec, int64_t rows);

 private:
  AlignedBuffer memory_;
  int64_t rows_ = 0;
};

}  // namespace haypile
