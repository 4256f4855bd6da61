#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kvcache/kv_cache.h"
#include "models/kv_observer.h"
#include "spec/model_spec.h"

namespace haypile {

// New tokens of one sequence: a prefill chunk or a single decoded token. They follow what the cache already holds.
struct BatchItem {
  SequenceId sequence = 0;
  std::span<const int32_t> tokens;
};

// A decoder-only model with its weights in BF16 and activations in FP32. Not thread-safe: one Forward or Logits at a
// time; both use the thread pool given to Load, which must outlive the model.
class DecoderModel {
 public:
  // Reads all weights. kNotFound or kMalformed name a missing or wrongly shaped tensor; kOutOfBudget when memory is
  // short.
  static Result<std::unique_ptr<DecoderModel>> Load(const Checkpoint& checkpoint, ThreadPool& pool);
  ~DecoderModel();

  const ModelSpec& spec() const;
  int64_t weight_bytes() const;  // BF16 matrices and FP32 vectors held in memory

  // Runs the tokens of all items through the model in one batch, extends the cache by them, and fills `hidden`
  // [rows][H] with the final-normed state of every token; rows are the items' tokens in order. A token reads its own K
  // and V back through the cache's format like any other.
  // kInvalidArgument, with nothing changed, for a token id outside the vocabulary, a position past max_positions, an
  // empty item, a sequence named twice, or an item longer than the cache's chunk_tokens. kOutOfBudget when the cache or
  // memory cannot hold the batch: items before the failing one may then have been extended without their K and V, so
  // the batch's sequences must be removed.
  Status Forward(std::span<const BatchItem> items, KvCache& cache, std::span<float> hidden);

  // From now on `observer` sees every K and V that Forward writes; null: nobody does. It must outlive its use.
  void set_kv_observer(KvObserver* observer);
  // The same for one that may change them.
  void set_kv_rewriter(KvRewriter* rewriter);

  // logits [rows][V] = hidden_rows [rows][H] times the output matrix.
  void Logits(std::span<const float> hidden_rows, std::span<float> logits);

 private:
  DecoderModel();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace haypile
