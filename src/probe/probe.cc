#include "probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"
#include "compare/teacher_forced.h"
#include "evaluate/evaluation_text.h"
#include "probe/cutting_store.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

// Engines that compute in FNUZ, whose range is half of E4M3's, double a checkpoint's scales when they load them.
constexpr float kFnuzFactor = 2;
// The unquantized run is made twice.
constexpr int64_t kRepeats = 1;
// Logits held at once: of a 262,144-token vocabulary 64 MiB.
constexpr size_t kCutChunkTokens = 64;

using Scales = std::vector<std::vector<float>>;

Scales AsLoaded(Scales scales, KvFormat format, const std::vector<int>& layers_without) {
  if (format != KvFormat::kFp8E4m3Fnuz) return scales;
  for (size_t layer = 0; layer < scales.size(); ++layer) {
    if (std::ranges::find(layers_without, static_cast<int>(layer)) != layers_without.end()) continue;
    for (float& scale : scales[layer]) scale *= kFnuzFactor;
  }
  return scales;
}

void SetRange(const Scales& scales, double& least, double& most) {
  bool first = true;
  for (const std::vector<float>& layer : scales) {
    for (const float scale : layer) {
      least = first ? scale : std::min<double>(least, scale);
      most = first ? scale : std::max<double>(most, scale);
      first = false;
    }
  }
}

// What the probe takes from a checkpoint before its weights are read.
struct Header {
  ModelSpec spec;
  ProbeDtype dtype;
  ProbeScales scales;
  KvScales in_use;  // of the run "file", when scales.compared
};

Result<Header> ReadHeader(const ProbeRequest& request) {
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(request.checkpoint));
  const CheckpointKvScales& own = checkpoint->kv_scales();
  Header header;
  header.spec = checkpoint->spec();
  ProbeDtypeHints hints = request.dtype;
  hints.checkpoint_has_scales = own.tensors > 0;
  HAYPILE_TRY_ASSIGN(header.dtype, ChooseProbeDtype(hints));
  const KvDtype dtype = header.dtype.dtype;
  ProbeScales& scales = header.scales;
  scales.tensors = own.tensors;
  scales.example = own.example;
  scales.words = own.divisor.words;
  scales.layers_without = own.layers_without;
  scales.unused = own.unused;
  scales.dtype_has_scale = InfoOf(dtype.k).has_global_scale || InfoOf(dtype.v).has_global_scale;
  if (own.tensors == 0 || !scales.dtype_has_scale) return header;
  if (!own.bad.empty()) {
    return Error(ErrorCode::kMalformed, "the checkpoint's KV scales cannot be used: tensor " + own.bad +
                                            "; haypile inspect lists them, haypile calibrate makes others");
  }
  if (own.k.empty()) return header;
  scales.compared = true;
  header.in_use.k = AsLoaded(own.k, dtype.k, own.layers_without);
  header.in_use.v = AsLoaded(own.v, dtype.v, own.layers_without);
  SetRange(header.in_use.k, scales.k_least, scales.k_most);
  SetRange(header.in_use.v, scales.v_least, scales.v_most);
  return header;
}

// As many as were asked for, or, when none were, as many as fit.
Result<int64_t> TokensToSend(const ProbeRequest& request, const ModelSpec& spec, const ServedModel& served) {
  // One token more is generated.
  const int64_t server_most = served.max_model_len.value_or(spec.max_positions) - 1;
  const int64_t most = std::min(spec.max_positions, server_most);
  const int64_t wanted = request.tokens > 0 ? request.tokens : std::clamp(most, kLeastProbeTokens, kProbeTokens);
  if (wanted <= most) return wanted;
  return Error(
      ErrorCode::kOutOfBudget,
      fmt::format("a probe of {} tokens does not fit: {} takes {} (at least {} are needed); give --probe-tokens",
                  wanted, server_most < spec.max_positions ? "the server" : "the model", most, kLeastProbeTokens));
}

Result<std::vector<int32_t>> TextTokens(const Session& session, int64_t wanted) {
  std::vector<int32_t> tokens = session.EncodeWithBos(EvaluationText(kProbeText));
  if (static_cast<int64_t>(tokens.size()) < wanted) {
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("--probe-tokens: the built-in text has {} tokens, {} were asked for", tokens.size(), wanted));
  }
  tokens.resize(static_cast<size_t>(wanted));
  return tokens;
}

class OwnRuns {
 public:
  OwnRuns(const Session& session, const Header& header, std::span<const int32_t> tokens)
      : session_(session), header_(header), tokens_(tokens) {}

  // The runs with a store that rounds, and the unquantized one again at the end.
  Result<std::vector<ProbeRun>> Run(const std::function<void(int64_t)>& on_tokens) {
    std::vector<ProbeCache> caches{ProbeCache::kUnquantized, ProbeCache::kUnitScales};
    if (header_.scales.compared) caches.insert(caches.begin() + 1, ProbeCache::kFileScales);
    std::vector<Lane> lanes;
    for (const ProbeCache cache : caches) {
      HAYPILE_TRY_ASSIGN(const Lane lane, LaneOf(cache));
      lanes.push_back(lane);
    }
    HAYPILE_TRY_ASSIGN(const auto rows, RunTeacherForced(session_, lanes, tokens_, on_tokens));
    std::vector<ProbeRun> runs{{ProbeCache::kUnquantized, {}}};
    for (const RowDivergence& row : rows.front()) runs[0].log_probs.push_back(-row.baseline_nll);
    caches.push_back(ProbeCache::kUnquantized);
    for (size_t lane = 0; lane < rows.size(); ++lane) {
      ProbeRun& run = runs.emplace_back(ProbeRun{caches[lane + 1], {}});
      for (const RowDivergence& row : rows[lane]) {
        if (!row.finite) return NoNumber(caches[lane + 1], run.log_probs.size() + 1);
        run.log_probs.push_back(-row.candidate_nll);
      }
    }
    return runs;
  }

  // Those with a store that cuts; `on_tokens` hears the token passes done of these.
  Result<std::vector<ProbeRun>> RunCut(const std::function<void(int64_t)>& on_tokens) {
    std::vector<ProbeCache> caches{ProbeCache::kUnitScalesCut};
    if (header_.scales.compared) caches.insert(caches.begin(), ProbeCache::kFileScalesCut);
    std::vector<ProbeRun> runs;
    for (const ProbeCache cache : caches) {
      const auto done = static_cast<int64_t>(runs.size() * (tokens_.size() - 1));
      HAYPILE_TRY_ASSIGN(const Lane lane, LaneOf(cache));
      CuttingStore store(session_.spec(), lane.dtype, lane.scales);
      session_.model->set_kv_rewriter(&store);
      auto log_probs = LogProbsOf(cache, lane, [&](int64_t tokens) { on_tokens(done + tokens); });
      session_.model->set_kv_rewriter(nullptr);
      if (!log_probs.ok()) return std::move(log_probs).error();
      runs.push_back({cache, std::move(log_probs).value()});
    }
    return runs;
  }

 private:
  Result<Lane> LaneOf(ProbeCache cache) const {
    Lane lane;
    if (cache != ProbeCache::kUnquantized) lane.dtype = header_.dtype.dtype;
    if (cache == ProbeCache::kFileScales || cache == ProbeCache::kFileScalesCut) lane.scales = header_.in_use;
    HAYPILE_TRY_ASSIGN(lane.geometry, MakeKvGeometry(session_.spec(), lane.dtype));
    return lane;
  }

  Result<std::vector<double>> LogProbsOf(ProbeCache cache, const Lane& lane,
                                         const std::function<void(int64_t)>& on_tokens) const {
    const auto length = static_cast<int64_t>(tokens_.size());
    HAYPILE_TRY_ASSIGN(const std::unique_ptr<KvCache> pages, KvCache::Create(lane.CacheConfig(length, length, 1)));
    const SequenceId sequence = pages->AddSequence();
    const auto width = static_cast<size_t>(session_.spec().hidden_size);
    const auto vocabulary = static_cast<size_t>(session_.spec().vocabulary_size);
    std::vector<float> hidden, logits;
    std::vector<double> log_probs;
    while (log_probs.size() + 1 < tokens_.size()) {
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
      const size_t begin = log_probs.size(), count = std::min(kCutChunkTokens, tokens_.size() - 1 - begin);
      hidden.resize(count * width);
      logits.resize(count * vocabulary);
      const BatchItem item{sequence, tokens_.subspan(begin, count)};
      HAYPILE_TRY(session_.model->Forward({&item, 1}, *pages, hidden));
      session_.model->Logits(hidden, logits);
      for (size_t i = 0; i < count; ++i) {
        const std::span row(logits.data() + i * vocabulary, vocabulary);
        const RowDivergence itself = CompareRows(row, row, tokens_[begin + i + 1]);
        if (!itself.finite) return NoNumber(cache, begin + i + 1);
        log_probs.push_back(-itself.baseline_nll);
      }
      on_tokens(static_cast<int64_t>(log_probs.size()));
    }
    return log_probs;
  }

  static Error NoNumber(ProbeCache cache, size_t token) {
    return Error(
        ErrorCode::kMalformed,
        fmt::format(
            "Haypile's own engine gives no number at token {} (run {}): weights or scales of the checkpoint are broken",
            token, NameOf(cache)));
  }

  const Session& session_;
  const Header& header_;
  const std::span<const int32_t> tokens_;
};

// A cut store is tried where no other cache explains the server.
bool AsksForCutRuns(const ProbeJudgement& judgement, KvDtype dtype) {
  const bool open = judgement.doubt == ProbeDoubt::kNoneFits || judgement.doubt == ProbeDoubt::kNoise;
  return (open || judgement.unexplained) && CanCut(dtype);
}

}  // namespace

Result<ProbeResult> RunProbe(const ProbeRequest& request, const ProbeProgress& on_progress) {
  HAYPILE_TRY_ASSIGN(const Header header, ReadHeader(request));
  HAYPILE_TRY_ASSIGN(const KvGeometry fits, MakeKvGeometry(header.spec, header.dtype.dtype));
  ProbeResult result;
  result.checkpoint = request.checkpoint;
  result.dtype = header.dtype;
  result.scales = header.scales;
  HAYPILE_TRY_ASSIGN(result.served, FindServedModel(request.server));
  HAYPILE_TRY_ASSIGN(result.tokens, TokensToSend(request, header.spec, result.served));
  const auto progress = [&](int64_t done, int64_t runs, const std::string& what) {
    if (on_progress) on_progress(static_cast<double>(done), static_cast<double>((result.tokens - 1) * runs), what);
  };
  const int64_t scales = header.scales.compared ? 2 : 1, rounding = scales + 1 + kRepeats;
  progress(0, rounding, "reading the weights");
  HAYPILE_TRY_ASSIGN(const Session session, Session::Load(request.checkpoint, request.threads));
  HAYPILE_TRY_ASSIGN(const std::vector<int32_t> tokens, TextTokens(session, result.tokens));
  progress(0, rounding, "waiting for the server");
  HAYPILE_TRY_ASSIGN(const PromptLogProbs theirs, AskPromptLogProbs(request.server, result.served, tokens));
  result.endpoint = theirs.endpoint;
  result.ids_confirmed = theirs.ids_confirmed;
  OwnRuns own(session, header, tokens);
  HAYPILE_TRY_ASSIGN(std::vector<ProbeRun> runs,
                     own.Run([&](int64_t done) { progress(done, rounding, "Haypile's own runs"); }));
  const ProbeRun repeat = std::move(runs.back());
  runs.pop_back();
  result.judgement = JudgeProbe(theirs.log_probs, runs, repeat.log_probs);
  if (!AsksForCutRuns(result.judgement, header.dtype.dtype)) return result;
  HAYPILE_TRY_ASSIGN(const std::vector<ProbeRun> cut,
                     own.RunCut([&](int64_t done) { progress(done, scales, "the same with a store that cuts"); }));
  runs.insert(runs.end(), cut.begin(), cut.end());
  result.judgement = JudgeProbe(theirs.log_probs, runs, repeat.log_probs);
  return result;
}

}  // namespace haypile
