#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/sampler.h"
#include "kvcache/kv_cache.h"
#include "models/decoder.h"
#include "tokenizer/tokenizer.h"

namespace haypile {

// A loaded model with its tokenizer and threads: what every command that runs a model starts from.
struct Session {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<DecoderModel> model;
  std::string source;      // file or folder name without its path
  int64_t parameters = 0;  // elements of all weights

  // `threads` 0: every core. Errors name the file and what in it.
  static Result<Session> Load(const std::string& path, int threads);

  const ModelSpec& spec() const { return model->spec(); }
  // The text's ids with the model's BOS in front.
  std::vector<int32_t> EncodeWithBos(std::string_view text) const;
};

// Runs `tokens` of one sequence through the model in chunks of at most the cache's chunk_tokens (or `chunk_tokens`, if
// smaller and positive) and returns the logits after the last one. kInterrupted when the user stops.
Result<std::vector<float>> Prefill(DecoderModel& model, KvCache& cache, SequenceId sequence,
                                   std::span<const int32_t> tokens, int chunk_tokens = 0);

struct GenerateOptions {
  int max_new_tokens = 64;
  SamplingOptions sampling;
};

// Prefills `prompt` in a fresh sequence of `cache`, then samples up to max_new_tokens, stopping before an
// end-of-sequence token. `on_token` (may be empty) sees each as it comes; returning false stops. The sequence is
// removed at the end.
Result<std::vector<int32_t>> Generate(const Session& session, KvCache& cache, std::span<const int32_t> prompt,
                                      const GenerateOptions& options,
                                      const std::function<bool(int32_t)>& on_token = {});

}  // namespace haypile
