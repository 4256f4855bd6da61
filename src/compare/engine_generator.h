#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/session.h"
#include "evaluate/generator.h"

namespace haypile {

// The embedded engine as the evaluator's generator: greedy, several prompts decoded in one batch. Prompts of a batch
// that begin alike are prefilled once up to there and copied. `session` must outlive it.
class EngineGenerator : public TextGenerator {
 public:
  // The pool holds `pool_tokens` tokens, room for at most `most_sequences` at once.
  static Result<std::unique_ptr<EngineGenerator>> Create(const Session& session, KvCacheConfig config);

  Result<std::vector<int32_t>> Greedy(std::span<const int32_t> prompt, int max_new_tokens) override;
  Result<std::vector<std::vector<int32_t>>> GreedyBatch(std::span<const std::vector<int32_t>> prompts,
                                                        int max_new_tokens) override;

 private:
  struct Stream;
  EngineGenerator(const Session& session, std::unique_ptr<KvCache> cache)
      : session_(session), cache_(std::move(cache)) {}
  Result<std::vector<std::vector<int32_t>>> RunBatch(std::span<const std::vector<int32_t>> prompts, int max_new_tokens);
  Status PrefillAll(std::span<const std::vector<int32_t>> prompts, std::vector<Stream>& streams);
  Status DecodeAll(std::vector<Stream>& streams, int max_new_tokens);
  size_t BatchSize(std::span<const std::vector<int32_t>> prompts, int max_new_tokens) const;

  const Session& session_;
  std::unique_ptr<KvCache> cache_;
};

}  // namespace haypile
