#include "calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/interrupt.h"
#include "base/json.h"
#include "base/sha256.h"
#include "calibrate/kv_statistics.h"
#include "calibrate/output_error.h"
#include "checkpoint/checkpoint.h"
#include "compare/state_store.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

constexpr const char* kStatisticsStep = "statistics";

std::string HexOf(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}

std::string BytesOf(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return bytes;
}

// Lets `statistics` see what the model writes, for as long as this object lives.
class ScopedObserver {
 public:
  ScopedObserver(DecoderModel& model, KvStatistics& statistics) : model_(model) { model.set_kv_observer(&statistics); }
  ~ScopedObserver() { model_.set_kv_observer(nullptr); }
  ScopedObserver(const ScopedObserver&) = delete;
  ScopedObserver& operator=(const ScopedObserver&) = delete;

 private:
  DecoderModel& model_;
};

class Calibration {
 public:
  Calibration(const CalibrateRequest& request, const CalibrateContext& context, const Session& session,
              CalibrationText text, StateStore state)
      : request_(request),
        context_(context),
        session_(session),
        text_(std::move(text)),
        state_(std::move(state)),
        statistics_(std::make_unique<KvStatistics>(session.spec(), *session.pool)) {}

  Result<CalibrateResult> Run() {
    total_ = static_cast<double>(text_.tokens);
    const std::vector<int32_t> sample = OutputSample();
    total_ += static_cast<double>(OutputErrorPasses(OutputLayers(), sample.size()));
    HAYPILE_TRY(Observe());
    HAYPILE_TRY(statistics_->Check());
    Describe();
    for (int layer = 0; layer < statistics_->layers(); ++layer) AddLayer(layer);
    if (!sample.empty()) HAYPILE_TRY(MeasureOutput(sample));
    state_.Remove();
    return std::move(result_);
  }

 private:
  void Progress(double done, const std::string& what) {
    if (context_.on_progress) context_.on_progress(done, total_, what);
  }

  // Segments that an earlier run finished, with its statistics put back; 0 when there is none.
  size_t Resume() {
    const Json* stored = state_.Find(kStatisticsStep);
    if (stored == nullptr || !stored->is_object()) return 0;
    const size_t done = stored->value("segments", size_t{0});
    if (done <= text_.segments.size() && statistics_->Deserialize(BytesOf(stored->value("bytes", "")))) return done;
    statistics_ = std::make_unique<KvStatistics>(session_.spec(), *session_.pool);
    return 0;
  }

  Status Observe() {
    const size_t finished = Resume();
    HAYPILE_TRY_ASSIGN(const std::unique_ptr<KvCache> cache, MakeCache());
    const ScopedObserver scope(*session_.model, *statistics_);
    double done = 0;
    for (size_t i = 0; i < text_.segments.size(); ++i) {
      const CalibrationSegment& segment = text_.segments[i];
      if (i >= finished) {
        Progress(done, segment.source);
        const SequenceId sequence = cache->AddSequence();
        auto logits = Prefill(*session_.model, *cache, sequence, segment.tokens);
        cache->RemoveSequence(sequence);
        if (!logits.ok()) return std::move(logits).error();
        HAYPILE_TRY(state_.Put(kStatisticsStep, {{"segments", i + 1}, {"bytes", HexOf(statistics_->Serialize())}}));
      }
      done += static_cast<double>(segment.tokens.size());
    }
    return {};
  }

  int64_t LongestSegment() const {
    size_t longest = 0;
    for (const CalibrationSegment& segment : text_.segments) longest = std::max(longest, segment.tokens.size());
    return static_cast<int64_t>(longest);
  }

  Result<std::unique_ptr<KvCache>> MakeCache() const {
    KvCacheConfig config;
    HAYPILE_TRY_ASSIGN(config.geometry, MakeKvGeometry(session_.spec(), KvDtype{}));
    config.max_model_len = config.pool_tokens = LongestSegment();
    return KvCache::Create(std::move(config));
  }

  void Describe() {
    result_.model = request_.model;
    result_.tool_version = context_.tool_version;
    result_.request = request_;
    const CalibrationTextRequest& text = request_.text;
    result_.text = !text.chats_path.empty()  ? std::filesystem::path(text.chats_path).filename().string()
                   : !text.text_path.empty() ? std::filesystem::path(text.text_path).filename().string()
                                             : "the built-in texts";
    result_.tokens = text_.tokens;
    result_.tokens_left_out = text_.tokens_left_out;
    result_.segments = static_cast<int64_t>(text_.segments.size());
    result_.longest_segment = LongestSegment();
    result_.head_dim = session_.spec().head_dim;
  }

  void AddLayer(int layer) {
    LayerCalibration out;
    out.tokens = statistics_->tokens(layer);
    out.k = Side(layer, KvSide::kK);
    out.v = Side(layer, KvSide::kV);
    const float shared = std::max(*std::ranges::max_element(out.k.scales), *std::ranges::max_element(out.v.scales));
    out.k.error_shared = ErrorAt(layer, KvSide::kK, shared);
    out.v.error_shared = ErrorAt(layer, KvSide::kV, shared);
    result_.layers.push_back(std::move(out));
  }

  double ErrorAt(int layer, KvSide side, float scale) const {
    return RelativeSquaredError(request_.rule.format, scale, statistics_->OfLayer(layer, side),
                                session_.spec().head_dim);
  }

  SideCalibration Side(int layer, KvSide side) const {
    const int heads = statistics_->kv_heads();
    const int d = session_.spec().head_dim;
    const RangeStatistics all = statistics_->OfLayer(layer, side);
    SideCalibration out;
    out.amax_token = all.amax_token;
    out.error_at_one = RelativeSquaredError(request_.rule.format, 1.0f, all, d);
    double error = 0, energy = 0;
    for (int head = 0; head < heads; ++head) {
      const RangeStatistics& range = statistics_->Of(layer, side, head);
      out.head_amax.push_back(range.histogram.amax());
      if (request_.strategy == ScaleStrategy::kTensor) continue;
      out.scales.push_back(ScaleFor(request_.rule, range, d));
      double squares = 0;
      range.histogram.ForEachBin([&](float x, uint64_t count) { squares += static_cast<double>(count) * x * x; });
      error += squares * RelativeSquaredError(request_.rule.format, out.scales.back(), range, d);
      energy += squares;
    }
    if (request_.strategy == ScaleStrategy::kTensor) {
      out.scales.assign(static_cast<size_t>(heads), ScaleFor(request_.rule, all, d));
      out.error = RelativeSquaredError(request_.rule.format, out.scales[0], all, d);
    } else {
      out.error = error / energy;
    }
    return out;
  }

  int OutputLayers() const { return request_.output_whole_only ? 0 : session_.spec().layer_count; }

  // The scales that another method makes of the same statistics, with the request's strategy.
  KvScales ScalesBy(ScaleMethod method) const {
    ScaleRule rule = request_.rule;
    rule.method = method;
    const int d = session_.spec().head_dim;
    const auto side_of = [&](int layer, KvSide side) {
      const auto heads = static_cast<size_t>(statistics_->kv_heads());
      if (request_.strategy == ScaleStrategy::kTensor) {
        return std::vector<float>(heads, ScaleFor(rule, statistics_->OfLayer(layer, side), d));
      }
      std::vector<float> scales;
      for (size_t head = 0; head < heads; ++head) {
        scales.push_back(ScaleFor(rule, statistics_->Of(layer, side, static_cast<int>(head)), d));
      }
      return scales;
    };
    KvScales scales;
    for (int layer = 0; layer < statistics_->layers(); ++layer) {
      scales.k.push_back(side_of(layer, KvSide::kK));
      scales.v.push_back(side_of(layer, KvSide::kV));
    }
    return scales;
  }

  bool HasHeldOut() const { return text_.held_out.size() >= static_cast<size_t>(request_.output_tokens); }

  // The first tokens of a text that was left out, or, when none is long enough, of the longest calibration sequence.
  std::vector<int32_t> OutputSample() const {
    std::vector<int32_t> sample;
    if (request_.output_tokens == 0) return sample;
    const std::vector<int32_t>& first =
        HasHeldOut()
            ? text_.held_out
            : std::ranges::max_element(text_.segments, {}, [](const auto& s) { return s.tokens.size(); })->tokens;
    sample.assign(first.begin(), first.begin() + std::min(static_cast<std::ptrdiff_t>(first.size()),
                                                          static_cast<std::ptrdiff_t>(request_.output_tokens)));
    return sample.size() < 2 ? std::vector<int32_t>() : sample;
  }

  Status MeasureOutput(const std::vector<int32_t>& sample) {
    const double before = static_cast<double>(text_.tokens);
    const auto on_tokens = [&](int64_t passes) {
      Progress(before + static_cast<double>(passes), "output divergence by layer");
    };
    std::vector<MethodScales> methods;
    for (const ScaleMethod method : kScaleMethods) methods.push_back({method, ScalesBy(method)});
    OutputMeasurement wanted{request_.rule.format, request_.rule.method, methods, OutputLayers(), sample};
    HAYPILE_TRY_ASSIGN(const OutputErrors errors, MeasureOutputErrors(session_, wanted, state_, on_tokens));
    result_.output = errors.whole;
    result_.output->held_out = HasHeldOut();
    for (size_t layer = 0; layer < errors.k_mean_kl.size(); ++layer) {
      result_.layers[layer].k.mean_kl = errors.k_mean_kl[layer];
      result_.layers[layer].v.mean_kl = errors.v_mean_kl[layer];
    }
    return {};
  }

  const CalibrateRequest& request_;
  const CalibrateContext& context_;
  const Session& session_;
  const CalibrationText text_;
  StateStore state_;
  std::unique_ptr<KvStatistics> statistics_;
  CalibrateResult result_;
  double total_ = 0;
};

// Everything that results depend on, so that a state file of anything else is not taken for this run's.
std::string StateKey(const CalibrateRequest& request, const CalibrateContext& context, const CalibrationText& text) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(context.model_path, ignored);
  const auto time = std::filesystem::last_write_time(context.model_path, ignored).time_since_epoch().count();
  Sha256 tokens;
  for (const CalibrationSegment& segment : text.segments) {
    const auto* bytes = reinterpret_cast<const char*>(segment.tokens.data());
    tokens.Update({bytes, segment.tokens.size() * sizeof(int32_t)});
  }
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", context.tool_version, context.model_path, size, time,
                     tokens.FinishHex(), InfoOf(request.rule.format).name, static_cast<int>(request.rule.method),
                     request.rule.percentile, static_cast<int>(request.strategy), request.output_tokens) +
         (request.output_whole_only ? "|whole" : "");
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// How far a layer is above the median of its kind: the larger of its K and V.
std::vector<double> TimesMedian(const std::vector<LayerCalibration>& layers) {
  std::vector<double> times(layers.size());
  for (const auto side : {&LayerCalibration::k, &LayerCalibration::v}) {
    std::vector<double> values;
    for (const LayerCalibration& layer : layers) {
      values.push_back((layer.*side).mean_kl.value_or((layer.*side).error));
    }
    const double median = Median(values);
    for (size_t i = 0; i < values.size(); ++i) {
      if (median > 0) times[i] = std::max(times[i], values[i] / median);
    }
  }
  return times;
}

}  // namespace

KvScales CalibrateResult::Scales() const {
  KvScales scales;
  for (const LayerCalibration& layer : layers) {
    scales.k.push_back(layer.k.scales);
    scales.v.push_back(layer.v.scales);
  }
  return scales;
}

std::vector<int> CalibrateResult::LayersThatStandOut() const {
  const std::vector<double> times = TimesMedian(layers);
  std::vector<int> chosen;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] > kOutlierFactor) chosen.push_back(static_cast<int>(i));
  }
  std::ranges::stable_sort(chosen, std::greater(), [&](int layer) { return times[static_cast<size_t>(layer)]; });
  return chosen;
}

Status CheckCalibrateRequest(const std::string& model_path, const CalibrateRequest& request) {
  const KvFormatInfo& format = InfoOf(request.rule.format);
  if (!format.has_global_scale) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("--format {} has no scale to calibrate; it makes its own for every block", format.name));
  }
  if (!(request.rule.percentile > 0 && request.rule.percentile <= 100)) {
    return Error(ErrorCode::kInvalidArgument, "--percentile must be above 0 and at most 100, e.g. 99.99");
  }
  if (!request.text.text_path.empty() && !request.text.chats_path.empty()) {
    return Error(ErrorCode::kInvalidArgument, "--text and --chats exclude each other; give one of them or neither");
  }
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  const ModelSpec& spec = checkpoint->spec();
  HAYPILE_TRY_ASSIGN(const KvGeometry geometry, MakeKvGeometry(spec, {request.rule.format, request.rule.format}));
  if (request.text.segment_tokens > spec.max_positions) {
    return Error(ErrorCode::kOutOfBudget,
                 fmt::format("--max-model-len {} is longer than the {} tokens this model was made for",
                             request.text.segment_tokens, spec.max_positions));
  }
  return {};
}

Result<CalibrateResult> RunCalibrate(const CalibrateRequest& request, const CalibrateContext& context) {
  HAYPILE_TRY(CheckCalibrateRequest(context.model_path, request));
  HAYPILE_TRY_ASSIGN(const Session session, Session::Load(context.model_path, context.threads));
  HAYPILE_TRY_ASSIGN(CalibrationText text, MakeCalibrationText(session, request.text));
  StateStore state(context.state_path, StateKey(request, context, text));
  return Calibration(request, context, session, std::move(text), std::move(state)).Run();
}

}  // namespace haypile
