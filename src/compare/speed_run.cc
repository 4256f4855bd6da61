#include "compare/speed_run.h"

#include <algorithm>
#include <chrono>

#include "base/interrupt.h"
#include "base/machine.h"
#include "evaluate/statistics.h"

namespace haypile {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kPrefillTokens = 512;
constexpr int64_t kLongestShortPrompt = 1024;
constexpr double kGiga = 1e9;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Samples of one figure.
struct Samples {
  std::vector<double> values;
  std::vector<double> clocks_mhz;

  void Add(double value, std::optional<double> clock_mhz) {
    values.push_back(value);
    if (clock_mhz) clocks_mhz.push_back(*clock_mhz);
  }
  std::optional<double> MeanClock() const {
    if (clocks_mhz.empty()) return std::nullopt;
    double sum = 0;
    for (const double clock : clocks_mhz) sum += clock;
    return sum / static_cast<double>(clocks_mhz.size());
  }
};

// Cache bytes that one decode step of one stream at `depth` reads.
int64_t KvBytesRead(const KvGeometry& geometry, int64_t depth) {
  int64_t bytes = 0;
  for (const LayerKvGeometry& layer : geometry.layers) {
    bytes += layer.BytesPerToken() * (layer.window > 0 ? std::min<int64_t>(depth, layer.window) : depth);
  }
  return bytes;
}

// Least-squares slope of ms per token against depth, in microseconds per 1,000 tokens of depth.
std::optional<double> SlopeUsPer1k(const std::vector<DecodePoint>& points) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const DecodePoint& point : points) {
    if (point.streams != 1) continue;
    const double x = static_cast<double>(point.depth) / 1000, y = point.ms_per_token * 1000;
    n += 1;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  const double determinant = n * sxx - sx * sx;
  if (n < 2 || determinant <= 0) return std::nullopt;
  return (n * sxy - sx * sy) / determinant;
}

// One lane's cache and the sequence that grows through the depths.
struct TimedLane {
  std::unique_ptr<KvCache> cache;
  SequenceId main = -1;
  double prefill_seconds = 0;  // of the main sequence so far
};

class SpeedRun {
 public:
  SpeedRun(const Session& session, std::span<const Lane> lanes, std::span<const int32_t> tokens,
           const SpeedOptions& options, const std::function<void(int64_t)>& on_tokens)
      : session_(session),
        lanes_(lanes),
        tokens_(tokens),
        options_(options),
        plan_(*options.plan),
        on_tokens_(on_tokens),
        short_tokens_(ShortPromptTokens(options.max_model_len)) {}

  Result<SpeedResult> Run() {
    result_.lanes.resize(lanes_.size());
    HAYPILE_TRY(MakeCaches());
    HAYPILE_TRY(MeasureShortPrefill());
    HAYPILE_TRY(MeasureStreams());
    HAYPILE_TRY(MeasureDepths());
    for (CompareSpeed& speed : result_.lanes) speed.slope_us_per_1k_tokens = SlopeUsPer1k(speed.decode);
    return std::move(result_);
  }

 private:
  // Room that decode samples may grow a sequence by.
  int64_t Slack() const { return int64_t{plan_.decode_samples} * plan_.decode_steps_per_sample * 3 + 16; }
  int64_t Deepest() const { return options_.max_model_len - Slack(); }
  int64_t MostStreams() const { return *std::max_element(options_.streams.begin(), options_.streams.end()); }

  Status MakeCaches() {
    const int64_t pool_tokens = options_.max_model_len + MostStreams() * (short_tokens_ + Slack() + 64);
    for (const Lane& lane : lanes_) {
      TimedLane state;
      HAYPILE_TRY_ASSIGN(state.cache,
                         KvCache::Create(lane.CacheConfig(pool_tokens, options_.max_model_len, MostStreams() + 1)));
      result_.pool_tokens = state.cache->plan().pool_tokens;
      states_.push_back(std::move(state));
    }
    return {};
  }

  void Report(int64_t passes) { on_tokens_(passes_ += passes); }

  // Extends a lane's main sequence to `length` tokens of text; adds the time taken.
  Status PrefillTo(TimedLane& state, int64_t length) {
    const int64_t have = state.cache->Length(state.main);
    const auto start = Clock::now();
    auto logits = Prefill(*session_.model, *state.cache, state.main,
                          tokens_.subspan(static_cast<size_t>(have), static_cast<size_t>(length - have)));
    if (!logits.ok()) return std::move(logits).error();
    state.prefill_seconds += SecondsSince(start);
    Report(length - have);
    return {};
  }

  void Restart(TimedLane& state) {
    if (state.main >= 0) state.cache->RemoveSequence(state.main);
    state.main = state.cache->AddSequence();
    state.prefill_seconds = 0;
  }

  Status MeasureShortPrefill() {
    std::vector<Samples> samples(lanes_.size());
    // One small pass first: code, weights and threads warm.
    Restart(states_[0]);
    HAYPILE_TRY(PrefillTo(states_[0], 16));
    for (int sample = 0; sample < plan_.prefill_samples; ++sample) {
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        Restart(states_[lane]);
        const auto clock = MeasureClockMhz();
        HAYPILE_TRY(PrefillTo(states_[lane], short_tokens_));
        samples[lane].Add(static_cast<double>(short_tokens_) / states_[lane].prefill_seconds, clock);
      }
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) AddPrefill(lane, short_tokens_, samples[lane]);
    return {};
  }

  void AddPrefill(size_t lane, int64_t prompt_tokens, const Samples& samples) {
    const MedianSpread summary = SummarizeSamples(samples.values);
    result_.lanes[lane].prefill.push_back(
        {prompt_tokens, summary.median, summary.spread, summary.samples, samples.MeanClock()});
  }

  // Decodes from every sequence of `sequences` for a few steps; the time of one step in ms.
  Result<double> TimeDecode(TimedLane& state, const std::vector<SequenceId>& sequences) {
    DecoderModel& model = *session_.model;
    const size_t width = static_cast<size_t>(model.spec().hidden_size);
    const size_t vocabulary = static_cast<size_t>(model.spec().vocabulary_size);
    hidden_.resize(sequences.size() * width);
    logits_.resize(sequences.size() * vocabulary);
    std::vector<int32_t> next(sequences.size(), tokens_[static_cast<size_t>(short_tokens_)]);
    std::vector<BatchItem> items(sequences.size());
    const auto start = Clock::now();
    for (int step = 0; step < plan_.decode_steps_per_sample; ++step) {
      for (size_t i = 0; i < items.size(); ++i) items[i] = {sequences[i], {&next[i], 1}};
      HAYPILE_TRY(model.Forward(items, *state.cache, hidden_));
      model.Logits(hidden_, logits_);
      for (size_t i = 0; i < items.size(); ++i) next[i] = Argmax({logits_.data() + i * vocabulary, vocabulary});
    }
    Report(static_cast<int64_t>(sequences.size()) * plan_.decode_steps_per_sample);
    return SecondsSince(start) * 1e3 / plan_.decode_steps_per_sample;
  }

  // Samples a decode point on every lane in turn.
  Status MeasurePoint(int64_t depth, const std::vector<std::vector<SequenceId>>& sequences) {
    std::vector<Samples> samples(lanes_.size());
    for (int sample = 0; sample <= plan_.decode_samples; ++sample) {
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
        const auto clock = MeasureClockMhz();
        HAYPILE_TRY_ASSIGN(const double ms, TimeDecode(states_[lane], sequences[lane]));
        if (sample > 0) samples[lane].Add(ms, clock);  // the first warms caches and predictors
      }
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      AddDecode(lane, static_cast<int64_t>(sequences[lane].size()), depth, samples[lane]);
    }
    return {};
  }

  void AddDecode(size_t lane, int64_t streams, int64_t depth, const Samples& samples) {
    const MedianSpread summary = SummarizeSamples(samples.values);
    DecodePoint point;
    point.streams = streams;
    point.depth = depth;
    point.ms_per_token = summary.median;
    point.spread = summary.spread;
    point.samples = summary.samples;
    point.clock_mhz = samples.MeanClock();
    const double seconds = summary.median / 1e3;
    const double kv_bytes = static_cast<double>(streams * KvBytesRead(lanes_[lane].geometry, depth));
    point.kv_gb_per_s = kv_bytes / seconds / kGiga;
    if (options_.read_bandwidth_gb_per_s > 0) {
      point.share_of_bandwidth = (kv_bytes + static_cast<double>(session_.model->weight_bytes())) / seconds / kGiga /
                                 options_.read_bandwidth_gb_per_s;
    }
    result_.lanes[lane].decode.push_back(point);
  }

  // 1, 4, 8 ... streams at the depth of the short prompt: copies of the main sequence in pages of their own.
  Status MeasureStreams() {
    std::vector<std::vector<SequenceId>> clones(lanes_.size());
    for (const int64_t count : options_.streams) {
      std::vector<std::vector<SequenceId>> sequences(lanes_.size());
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        while (static_cast<int64_t>(clones[lane].size()) < count) {
          HAYPILE_TRY_ASSIGN(const SequenceId id, states_[lane].cache->CloneSequence(states_[lane].main));
          clones[lane].push_back(id);
        }
        sequences[lane].assign(clones[lane].begin(), clones[lane].begin() + count);
      }
      HAYPILE_TRY(MeasurePoint(short_tokens_, sequences));
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (const SequenceId id : clones[lane]) states_[lane].cache->RemoveSequence(id);
    }
    return {};
  }

  // One stream at the middle and the deepest context, and the long prefill on the way there.
  Status MeasureDepths() {
    const int64_t deepest = Deepest();
    std::vector<Samples> long_prefill(lanes_.size());
    for (int sample = 0; sample < plan_.long_prefill_samples; ++sample) {
      if (sample > 0) {
        for (TimedLane& state : states_) Restart(state);
      }
      const bool last = sample + 1 == plan_.long_prefill_samples;
      for (int64_t length = sample > 0 ? 0 : short_tokens_; length < deepest;) {
        const int64_t next = NextStop(length, deepest);
        for (TimedLane& state : states_) HAYPILE_TRY(PrefillTo(state, next));
        length = next;
        if (last && (length == Middle(deepest) || length == deepest)) HAYPILE_TRY(MeasureMain(length));
      }
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        long_prefill[lane].Add(static_cast<double>(deepest) / states_[lane].prefill_seconds, MeasureClockMhz());
      }
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) AddPrefill(lane, deepest, long_prefill[lane]);
    return {};
  }

  static int64_t Middle(int64_t deepest) { return deepest / 2; }
  int64_t NextStop(int64_t length, int64_t deepest) const {
    const int64_t next = std::min(length + kPrefillTokens, deepest);
    return length < Middle(deepest) ? std::min(next, Middle(deepest)) : next;
  }

  // Decodes from a copy, so that the main sequence goes on as if nothing had been measured.
  Status MeasureMain(int64_t depth) {
    std::vector<std::vector<SequenceId>> sequences(lanes_.size());
    for (size_t lane = 0; lane < lanes_.size(); ++lane) sequences[lane] = {states_[lane].main};
    if (depth != Deepest()) {
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        HAYPILE_TRY_ASSIGN(sequences[lane][0], states_[lane].cache->CloneSequence(states_[lane].main));
      }
    }
    HAYPILE_TRY(MeasurePoint(depth, sequences));
    if (depth == Deepest()) return {};
    for (size_t lane = 0; lane < lanes_.size(); ++lane) states_[lane].cache->RemoveSequence(sequences[lane][0]);
    return {};
  }

  const Session& session_;
  const std::span<const Lane> lanes_;
  const std::span<const int32_t> tokens_;
  const SpeedOptions& options_;
  const EffortPlan& plan_;
  const std::function<void(int64_t)>& on_tokens_;
  const int64_t short_tokens_;
  std::vector<TimedLane> states_;
  SpeedResult result_;
  std::vector<float> hidden_, logits_;
  int64_t passes_ = 0;
};

}  // namespace

int64_t ShortPromptTokens(int64_t max_model_len) { return std::min(kLongestShortPrompt, max_model_len / 2); }

int64_t SpeedTokenPasses(const SpeedOptions& options, size_t lanes) {
  const EffortPlan& plan = *options.plan;
  const int64_t short_tokens = ShortPromptTokens(options.max_model_len);
  int64_t passes = plan.prefill_samples * short_tokens + plan.long_prefill_samples * options.max_model_len;
  for (const int64_t streams : options.streams) {
    passes += streams * (plan.decode_samples + 1) * plan.decode_steps_per_sample;
  }
  return passes * static_cast<int64_t>(lanes);
}

Result<SpeedResult> MeasureSpeed(const Session& session, std::span<const Lane> lanes, std::span<const int32_t> tokens,
                                 const SpeedOptions& options, const std::function<void(int64_t)>& on_tokens) {
  return SpeedRun(session, lanes, tokens, options, on_tokens).Run();
}

}  // namespace haypile
