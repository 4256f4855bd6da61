#include "compare/teacher_forced.h"

#include <algorithm>

#include "base/interrupt.h"

namespace haypile {
namespace {

constexpr size_t kChunkTokens = 512;
// Rows whose logits of two lanes are held at once: 32 rows of a 262,144-token vocabulary are 32 MiB a lane.
constexpr size_t kLogitRows = 32;

struct LaneState {
  std::unique_ptr<KvCache> cache;
  SequenceId sequence = 0;
  size_t chunk_tokens = kChunkTokens;
  std::vector<float> hidden;  // of the current chunk
};

class Runner {
 public:
  Runner(const Session& session, std::span<const int32_t> tokens, KvObserver* baseline)
      : session_(session), tokens_(tokens), baseline_(baseline) {}

  Status AddLane(const Lane& lane, size_t chunk_tokens) {
    const auto length = static_cast<int64_t>(tokens_.size());
    LaneState state;
    HAYPILE_TRY_ASSIGN(state.cache, KvCache::Create(lane.CacheConfig(length, length, 1)));
    state.sequence = state.cache->AddSequence();
    state.chunk_tokens = chunk_tokens;
    lanes_.push_back(std::move(state));
    return {};
  }

  Result<std::vector<std::vector<RowDivergence>>> Run(const std::function<void(int64_t)>& on_tokens) {
    rows_.assign(lanes_.size() - 1, std::vector<RowDivergence>(tokens_.size() - 1));
    int64_t passes = 0;
    for (size_t begin = 0; begin + 1 < tokens_.size(); begin += kChunkTokens) {
      const size_t end = std::min(begin + kChunkTokens, tokens_.size() - 1);
      for (LaneState& lane : lanes_) {
        if (&lane == &lanes_.front()) session_.model->set_kv_observer(baseline_);
        const Status status = ForwardChunk(lane, begin, end);
        session_.model->set_kv_observer(nullptr);
        HAYPILE_TRY(status);
        on_tokens(passes += static_cast<int64_t>(end - begin));
      }
      CompareChunk(begin, end);
    }
    return std::move(rows_);
  }

 private:
  Status ForwardChunk(LaneState& lane, size_t begin, size_t end) {
    const size_t width = static_cast<size_t>(session_.spec().hidden_size);
    lane.hidden.resize((end - begin) * width);
    for (size_t at = begin; at < end; at += lane.chunk_tokens) {
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
      const size_t count = std::min(lane.chunk_tokens, end - at);
      const BatchItem item{lane.sequence, tokens_.subspan(at, count)};
      HAYPILE_TRY(session_.model->Forward({&item, 1}, *lane.cache,
                                          std::span(lane.hidden).subspan((at - begin) * width, count * width)));
    }
    return {};
  }

  void CompareChunk(size_t begin, size_t end) {
    const size_t width = static_cast<size_t>(session_.spec().hidden_size);
    const size_t vocabulary = static_cast<size_t>(session_.spec().vocabulary_size);
    for (size_t at = begin; at < end; at += kLogitRows) {
      const size_t count = std::min(kLogitRows, end - at);
      const auto logits_of = [&](const LaneState& lane, std::vector<float>& logits) {
        logits.resize(count * vocabulary);
        session_.model->Logits(std::span(lane.hidden).subspan((at - begin) * width, count * width), logits);
      };
      logits_of(lanes_[0], baseline_logits_);
      for (size_t lane = 1; lane < lanes_.size(); ++lane) {
        logits_of(lanes_[lane], lane_logits_);
        session_.pool->ParallelFor(count, [&](size_t i, int) {
          const std::span baseline(baseline_logits_.data() + i * vocabulary, vocabulary);
          const std::span candidate(lane_logits_.data() + i * vocabulary, vocabulary);
          rows_[lane - 1][at + i] = CompareRows(baseline, candidate, tokens_[at + i + 1]);
        });
      }
    }
  }

  const Session& session_;
  const std::span<const int32_t> tokens_;
  KvObserver* const baseline_;
  std::vector<LaneState> lanes_;
  std::vector<std::vector<RowDivergence>> rows_;
  std::vector<float> baseline_logits_, lane_logits_;
};

}  // namespace

Result<std::vector<std::vector<RowDivergence>>> RunTeacherForced(const Session& session, std::span<const Lane> lanes,
                                                                 std::span<const int32_t> tokens,
                                                                 const std::function<void(int64_t)>& on_tokens,
                                                                 KvObserver* baseline) {
  if (tokens.size() < 2) return Error(ErrorCode::kInvalidArgument, "a text of fewer than 2 tokens tells nothing");
  Runner runner(session, tokens, baseline);
  for (const Lane& lane : lanes) HAYPILE_TRY(runner.AddLane(lane, kChunkTokens));
  HAYPILE_TRY(runner.AddLane(lanes[0], kNoiseChunkTokens));
  return runner.Run(on_tokens);
}

}  // namespace haypile
