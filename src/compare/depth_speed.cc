#include "compare/depth_speed.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "base/interrupt.h"
#include "evaluate/seeded_random.h"

namespace haypile {
namespace {

// Of the context at once, between two looks at progress and Ctrl-C.
constexpr int64_t kFillTokens = 512;

double SecondsOf(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocabulary) {
  SeededRandom random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(static_cast<size_t>(vocabulary)));
  return tokens;
}

// A cache whose main sequence grows from depth to depth; every sample runs on a copy of it.
class DepthRun {
 public:
  DepthRun(const Session& session, KvCache& cache, const DepthSpeedOptions& options,
           const DepthSpeedProgress& on_progress)
      : session_(session),
        cache_(cache),
        options_(options),
        tokens_(RandomTokens(options.LongestContext(), session.spec().vocabulary_size)),
        hidden_(static_cast<size_t>(session.spec().hidden_size)),
        logits_(static_cast<size_t>(session.spec().vocabulary_size)),
        main_(cache.AddSequence()),
        on_progress_(on_progress) {}

  Result<DepthSpeed> MeasureAt(int64_t depth) {
    while (depth > cache_.Length(main_)) {
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
      const int64_t begin = cache_.Length(main_), count = std::min(kFillTokens, depth - begin);
      auto grown = Prefill(*session_.model, cache_, main_, TokensAt(begin, count));
      if (!grown.ok()) return std::move(grown).error();
      Report(count, "filling the cache to " + std::to_string(depth));
    }
    DepthSpeed speed;
    speed.depth = depth;
    if (options_.prompt_tokens > 0) {
      HAYPILE_TRY(Repeat(
          options_.prompt_tokens, "prefill", [&](SequenceId id) { return PrefillOnce(id, depth); }, speed.prefill));
    }
    if (options_.decode_tokens > 0) {
      HAYPILE_TRY(Repeat(
          options_.decode_tokens, "decode", [&](SequenceId id) { return DecodeOnce(id, depth); }, speed.decode));
    }
    return speed;
  }

 private:
  std::span<const int32_t> TokensAt(int64_t first, int64_t count) const {
    return std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }

  void Report(int64_t tokens, const std::string& what) {
    done_ += tokens;
    if (on_progress_) on_progress_(done_, what);
  }

  template <typename Once>
  Status Repeat(int64_t tokens, const std::string& what, const Once& once, SpeedSamples& speed) {
    for (int sample = 0; sample <= options_.repeats; ++sample) {
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
      HAYPILE_TRY_ASSIGN(const SequenceId copy, cache_.CloneSequence(main_));
      const auto start = std::chrono::steady_clock::now();
      const Status status = once(copy);
      const double seconds = SecondsOf(std::chrono::steady_clock::now() - start);
      cache_.RemoveSequence(copy);
      HAYPILE_TRY(status);
      Report(tokens, what + " at depth " + std::to_string(cache_.Length(main_)));
      if (sample > 0) speed.samples.push_back(static_cast<double>(tokens) / seconds);  // the first warms up
    }
    return {};
  }

  Status PrefillOnce(SequenceId id, int64_t depth) {
    auto logits = Prefill(*session_.model, cache_, id, TokensAt(depth, options_.prompt_tokens));
    if (!logits.ok()) return std::move(logits).error();
    return {};
  }

  Status DecodeOnce(SequenceId id, int64_t depth) {
    for (int64_t step = 0; step < options_.decode_tokens; ++step) {
      const BatchItem item{id, TokensAt(depth + step, 1)};
      HAYPILE_TRY(session_.model->Forward({&item, 1}, cache_, hidden_));
      session_.model->Logits(hidden_, logits_);
    }
    return {};
  }

  const Session& session_;
  KvCache& cache_;
  const DepthSpeedOptions& options_;
  const std::vector<int32_t> tokens_;
  std::vector<float> hidden_, logits_;
  const SequenceId main_;
  const DepthSpeedProgress& on_progress_;
  int64_t done_ = 0;
};

}  // namespace

std::vector<int64_t> DepthSpeedOptions::Measured() const {
  std::vector<int64_t> measured = depths;
  std::sort(measured.begin(), measured.end());
  measured.erase(std::unique(measured.begin(), measured.end()), measured.end());
  return measured;
}

int64_t DepthSpeedOptions::LongestContext() const {
  const int64_t deepest = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  return deepest + std::max(prompt_tokens, decode_tokens);
}

int64_t DepthSpeedOptions::PoolTokens(int page_tokens) const { return 2 * (LongestContext() + page_tokens); }

int64_t DepthSpeedOptions::AllTokens() const {
  const std::vector<int64_t> measured = Measured();
  const int64_t deepest = measured.empty() ? 0 : measured.back();
  return deepest + static_cast<int64_t>(measured.size()) * (repeats + 1) * (prompt_tokens + decode_tokens);
}

Status CheckDepthSpeed(const DepthSpeedOptions& options, int64_t max_positions) {
  const auto invalid = [](const std::string& what) { return Error(ErrorCode::kInvalidArgument, what); };
  if (options.depths.empty()) return invalid("--depth: give at least one number of cached tokens");
  for (const int64_t depth : options.depths) {
    if (depth < 0 || depth > max_positions) {
      return invalid("--depth: " + std::to_string(depth) + " is not from 0 to the " + std::to_string(max_positions) +
                     " tokens that this model was made for");
    }
  }
  if (options.prompt_tokens == 0 && options.decode_tokens == 0) {
    return invalid("--prompt-tokens and --decode-tokens are both 0: nothing is left to measure");
  }
  if (options.LongestContext() > max_positions) {
    return invalid("--depth with --prompt-tokens or --decode-tokens makes " + std::to_string(options.LongestContext()) +
                   " tokens of context; this model was made for " + std::to_string(max_positions));
  }
  return {};
}

Result<std::vector<DepthSpeed>> MeasureDepthSpeed(const Session& session, const Lane& lane,
                                                  const DepthSpeedOptions& options,
                                                  const DepthSpeedProgress& on_progress) {
  HAYPILE_TRY(CheckDepthSpeed(options, session.spec().max_positions));
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<KvCache> cache,
                     KvCache::Create(lane.CacheConfig(options.PoolTokens(lane.page_tokens),
                                                      options.LongestContext() + lane.page_tokens, 2)));
  if (on_progress) on_progress(0, "the first pass");
  DepthRun run(session, *cache, options, on_progress);
  std::vector<DepthSpeed> speeds;
  for (const int64_t depth : options.Measured()) {
    HAYPILE_TRY_ASSIGN(DepthSpeed speed, run.MeasureAt(depth));
    speeds.push_back(std::move(speed));
  }
  return speeds;
}

}  // namespace haypile
