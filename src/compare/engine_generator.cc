#include "compare/engine_generator.h"

#include <algorithm>

#include "base/interrupt.h"

namespace haypile {
namespace {

// A shared beginning is worth a copy of its pages from here on.
constexpr size_t kShortestSharedPrefix = 32;

// Tokens that all prompts begin with, one token of each left over so that every prompt has logits of its own.
size_t SharedPrefix(std::span<const std::vector<int32_t>> prompts) {
  size_t shared = prompts[0].size();
  for (const auto& prompt : prompts) {
    const auto [a, b] = std::mismatch(prompts[0].begin(), prompts[0].end(), prompt.begin(), prompt.end());
    shared = std::min({shared, static_cast<size_t>(a - prompts[0].begin()), prompt.size() - 1});
  }
  return shared;
}

}  // namespace

struct EngineGenerator::Stream {
  SequenceId sequence = -1;
  int32_t next = 0;  // the token to decode from
  bool done = false;
  std::vector<int32_t> output;
};

Result<std::unique_ptr<EngineGenerator>> EngineGenerator::Create(const Session& session, KvCacheConfig config) {
  HAYPILE_TRY_ASSIGN(std::unique_ptr<KvCache> cache, KvCache::Create(std::move(config)));
  return std::unique_ptr<EngineGenerator>(new EngineGenerator(session, std::move(cache)));
}

Result<std::vector<int32_t>> EngineGenerator::Greedy(std::span<const int32_t> prompt, int max_new_tokens) {
  const std::vector<int32_t> copy(prompt.begin(), prompt.end());
  HAYPILE_TRY_ASSIGN(auto outputs, RunBatch({&copy, 1}, max_new_tokens));
  return std::move(outputs[0]);
}

// As many prompts as the pool's tokens and sequences hold at once, at least one.
size_t EngineGenerator::BatchSize(std::span<const std::vector<int32_t>> prompts, int max_new_tokens) const {
  const int64_t page_tokens = cache_->plan().page_tokens;
  const int64_t most = std::max<int64_t>(1, cache_->config().sequences - 1);  // one for the shared prefix
  int64_t tokens = 0;
  size_t count = 0;
  for (const auto& prompt : prompts) {
    const int64_t needed = static_cast<int64_t>(prompt.size()) + max_new_tokens + page_tokens;
    if (count > 0 && (tokens + needed > cache_->config().pool_tokens * 3 / 4 || static_cast<int64_t>(count) >= most)) {
      break;
    }
    tokens += needed;
    ++count;
  }
  return count;
}

Result<std::vector<std::vector<int32_t>>> EngineGenerator::GreedyBatch(std::span<const std::vector<int32_t>> prompts,
                                                                       int max_new_tokens) {
  std::vector<std::vector<int32_t>> outputs;
  while (!prompts.empty()) {
    const size_t count = BatchSize(prompts, max_new_tokens);
    HAYPILE_TRY_ASSIGN(auto batch, RunBatch(prompts.first(count), max_new_tokens));
    std::move(batch.begin(), batch.end(), std::back_inserter(outputs));
    prompts = prompts.subspan(count);
  }
  return outputs;
}

Result<std::vector<std::vector<int32_t>>> EngineGenerator::RunBatch(std::span<const std::vector<int32_t>> prompts,
                                                                    int max_new_tokens) {
  for (const auto& prompt : prompts) {
    if (prompt.empty()) return Error(ErrorCode::kInvalidArgument, "a prompt has no tokens");
    const int64_t length = static_cast<int64_t>(prompt.size()) + max_new_tokens;
    const int64_t limit = session_.spec().max_positions;
    if (length > limit) {
      return Error(ErrorCode::kOutOfBudget, "prompt and answer take " + std::to_string(length) +
                                                " tokens; the model's context holds " + std::to_string(limit));
    }
  }
  std::vector<Stream> streams(prompts.size());
  Status status = PrefillAll(prompts, streams);
  if (status.ok()) status = DecodeAll(streams, max_new_tokens);
  std::vector<std::vector<int32_t>> outputs;
  for (Stream& stream : streams) {
    if (stream.sequence >= 0) cache_->RemoveSequence(stream.sequence);
    outputs.push_back(std::move(stream.output));
  }
  HAYPILE_TRY(std::move(status));
  return outputs;
}

Status EngineGenerator::PrefillAll(std::span<const std::vector<int32_t>> prompts, std::vector<Stream>& streams) {
  DecoderModel& model = *session_.model;
  const size_t shared = prompts.size() > 1 ? SharedPrefix(prompts) : 0;
  const bool share = shared >= kShortestSharedPrefix;
  SequenceId prefix = -1;
  if (share) {
    prefix = cache_->AddSequence();
    auto logits = Prefill(model, *cache_, prefix, std::span(prompts[0]).first(shared));
    if (!logits.ok()) {
      cache_->RemoveSequence(prefix);
      return std::move(logits).error();
    }
  }
  Status status;
  for (size_t i = 0; i < prompts.size() && status.ok(); ++i) {
    if (share) {
      auto clone = cache_->CloneSequence(prefix);
      if (!clone.ok()) {
        status = std::move(clone).error();
        break;
      }
      streams[i].sequence = *clone;
    } else {
      streams[i].sequence = cache_->AddSequence();
    }
    auto logits = Prefill(model, *cache_, streams[i].sequence, std::span(prompts[i]).subspan(share ? shared : 0));
    if (logits.ok()) {
      streams[i].next = Argmax(*logits);
    } else {
      status = std::move(logits).error();
    }
  }
  if (share) cache_->RemoveSequence(prefix);
  return status;
}

Status EngineGenerator::DecodeAll(std::vector<Stream>& streams, int max_new_tokens) {
  DecoderModel& model = *session_.model;
  const size_t hidden_size = static_cast<size_t>(model.spec().hidden_size);
  const size_t vocabulary = static_cast<size_t>(model.spec().vocabulary_size);
  std::vector<float> hidden, logits;
  for (int step = 0; step < max_new_tokens; ++step) {
    if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
    std::vector<BatchItem> items;
    std::vector<Stream*> active;
    for (Stream& stream : streams) {
      if (stream.done || session_.tokenizer->IsEos(stream.next)) {
        stream.done = true;
        continue;
      }
      stream.output.push_back(stream.next);
      active.push_back(&stream);
      items.push_back({stream.sequence, {&stream.next, 1}});
    }
    if (items.empty() || step + 1 == max_new_tokens) break;
    hidden.resize(items.size() * hidden_size);
    logits.resize(items.size() * vocabulary);
    HAYPILE_TRY(model.Forward(items, *cache_, hidden));
    model.Logits(hidden, logits);
    for (size_t i = 0; i < active.size(); ++i) {
      active[i]->next = Argmax({logits.data() + i * vocabulary, vocabulary});
    }
  }
  return {};
}

}  // namespace haypile
