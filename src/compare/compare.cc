#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/json.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "checkpoint/checkpoint.h"
#include "compare/capacity.h"
#include "compare/engine_generator.h"
#include "compare/kv_amax.h"
#include "compare/row_json.h"
#include "compare/speed_run.h"
#include "compare/state_store.h"
#include "compare/teacher_forced.h"
#include "evaluate/divergence.h"
#include "evaluate/evaluation_text.h"
#include "evaluate/golden.h"
#include "evaluate/recall.h"
#include "evaluate/task.h"
#include "evaluate/tokenizer_codec.h"
#include "evaluate/verdict.h"
#include "kernels/isa/isa.h"

namespace haypile {
namespace {

// Sequences that generation decodes at once, and tokens of their pool.
constexpr int64_t kGenerationSequences = 14;
constexpr int64_t kGenerationPoolTokens = 12288;
// What a golden or task prompt costs beside its tokens is decoding; estimates for the progress bar, in token passes.
constexpr double kGoldenPasses = 4000, kTaskPasses = 1500;

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// A stretch of one text that is run as one sequence.
struct Segment {
  std::string text;
  int index = 0;
  std::vector<int32_t> tokens;  // with BOS in front

  std::string StepName() const { return fmt::format("text:{}:{}", text, index); }
};

bool IsInterrupt(const Error& error) { return error.code() == ErrorCode::kInterrupted; }

class Comparison {
 public:
  Comparison(CompareRequest request, const CompareContext& context, Session session, std::vector<Lane> lanes,
             StateStore state)
      : request_(std::move(request)),
        context_(context),
        session_(std::move(session)),
        lanes_(std::move(lanes)),
        plan_(PlanOf(request_.effort)),
        state_(std::move(state)),
        codec_(TokenizerCodec(*session_.tokenizer)),
        start_(std::chrono::steady_clock::now()) {}

  Result<CompareResult> Run() {
    HAYPILE_TRY(Describe());
    HAYPILE_TRY(PlanSteps());
    for (auto step : {&Comparison::RunTexts, &Comparison::RunSpeed, &Comparison::RunGolden_, &Comparison::RunTasks,
                      &Comparison::RunRecall}) {
      Status status = (this->*step)();
      if (status.ok()) continue;
      if (!IsInterrupt(status.error())) return std::move(status).error();
      Conclude();
      return std::move(result_);
    }
    result_.complete = true;
    Conclude();
    state_.Remove();
    return std::move(result_);
  }

 private:
  Status Describe() {
    const ModelSpec& spec = session_.spec();
    result_.model = request_.model;
    result_.baseline = lanes_[0].dtype.Name();
    result_.tool_version = context_.tool_version;
    if (!context_.commit.empty()) result_.commit = context_.commit;
    result_.started = UtcNow();
    CompareOptions& options = result_.options;
    options.kv_cache_memory_bytes = request_.kv_cache_memory_bytes;
    options.max_model_len = request_.max_model_len;
    options.streams = request_.streams;
    options.effort = request_.effort;
    options.threads = session_.pool->size();
    options.page_tokens = request_.page_tokens;
    if (!request_.skip_layers.empty()) options.kv_cache_dtype_skip_layers = request_.skip_layers;
    if (!request_.scales_path.empty()) options.kv_scales = request_.scales_path;
    result_.machine = {CpuModel(), session_.pool->size(), std::string(IsaName(ActiveIsa())), std::nullopt,
                       MemoryBytes()};
    CompareModelFacts& facts = result_.model_facts;
    facts.family = FamilyName(spec.family);
    facts.layers = spec.layer_count;
    facts.query_heads = spec.query_heads;
    facts.kv_heads = spec.kv_heads;
    facts.head_dim = spec.head_dim;
    facts.parameters = ParameterCount(spec);
    facts.weight_bytes = session_.model->weight_bytes();
    facts.context_length = spec.max_positions;
    facts.source = session_.source;
    facts.chat = codec_.has_chat();
    const auto sliding =
        std::count_if(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& l) { return l.window > 0; });
    if (sliding > 0) {
      facts.sliding_layers = sliding;
      facts.sliding_window = std::max_element(spec.layers.begin(), spec.layers.end(), [](auto& a, auto& b) {
                               return a.window < b.window;
                             })->window;
    }
    HAYPILE_TRY_ASSIGN(result_.runs, PlanCapacity(spec, request_, lanes_));
    return {};
  }

  Status PlanSteps() {
    MakeSegments();
    for (const Segment& segment : segments_) {
      // The output matrix costs about a third of a pass again.
      total_ += static_cast<double>(segment.tokens.size() * (lanes_.size() + 1)) * 1.3;
    }
    speed_options_.plan = &plan_;
    speed_options_.max_model_len = request_.max_model_len;
    speed_options_.streams = request_.streams;
    total_ += static_cast<double>(SpeedTokenPasses(speed_options_, lanes_.size()));
    total_ += (kGoldenPasses + 4 * kTaskPasses) * static_cast<double>(lanes_.size());
    RecallOptions recall;
    recall.seeds = plan_.recall_seeds;
    for (const int64_t context : plan_.recall_context_tokens) {
      if (context <= request_.max_model_len) recall.context_tokens.push_back(context);
    }
    if (recall.context_tokens.empty()) return {};
    HAYPILE_TRY_ASSIGN(recall_items_, MakeRecallItems(codec_, recall));
    for (const RecallItem& item : recall_items_) total_ += static_cast<double>(item.prompt.size() * lanes_.size());
    return {};
  }

  void MakeSegments() {
    const auto limit = static_cast<size_t>(request_.max_model_len);
    const auto bos = session_.tokenizer->bos();
    for (const std::string_view name : EvaluationTextNames()) {
      std::vector<int32_t> tokens = session_.tokenizer->Encode(EvaluationText(name));
      if (plan_.text_tokens > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(plan_.text_tokens)));
      const size_t room = bos ? limit - 1 : limit;
      int index = 0;
      // A remainder too short to say anything joins nothing and is dropped.
      for (size_t at = 0; at + 64 <= tokens.size(); at += room) {
        Segment segment{std::string(name), index++, {}};
        if (bos) segment.tokens.push_back(*bos);
        const size_t end = std::min(at + room, tokens.size());
        segment.tokens.insert(segment.tokens.end(), tokens.begin() + at, tokens.begin() + end);
        segments_.push_back(std::move(segment));
      }
    }
  }

  void Progress(double passes_of_step, const std::string& what) {
    if (context_.on_progress) context_.on_progress(done_ + passes_of_step, total_, what);
  }
  void StepDone(double passes) {
    done_ += passes;
    Conclude();
    if (context_.on_step) context_.on_step(result_);
  }

  // ---- cost: teacher-forced texts ----

  Status RunTexts() {
    std::vector<DivergenceAccumulator> lanes(lanes_.size());  // candidates, then the noise lane
    for (const Segment& segment : segments_) {
      const double passes = static_cast<double>(segment.tokens.size() * (lanes_.size() + 1)) * 1.3;
      LaneRows rows;
      const Json* stored = state_.Find(segment.StepName());
      if (stored == nullptr || !RowsFromJson(*stored, rows) || rows.size() != lanes_.size()) {
        KvAmax amax(session_.spec());
        const auto on_tokens = [&](int64_t tokens) {
          Progress(static_cast<double>(tokens) * 1.3, "perplexity and KL of " + segment.text);
        };
        HAYPILE_TRY_ASSIGN(rows, RunTeacherForced(session_, lanes_, segment.tokens, on_tokens, &amax));
        HAYPILE_TRY(state_.Put(AmaxStep(segment), amax.ToJson()));
        HAYPILE_TRY(state_.Put(segment.StepName(), RowsToJson(rows)));
      }
      MergeAmax(segment);
      for (size_t lane = 0; lane < rows.size(); ++lane) {
        for (size_t i = 0; i < rows[lane].size(); ++i) {
          lanes[lane].Add(segment.text, static_cast<int64_t>(i), rows[lane][i]);
        }
      }
      FillCosts(lanes);
      StepDone(passes);
    }
    return {};
  }

  static std::string AmaxStep(const Segment& segment) { return "amax:" + segment.StepName(); }

  void MergeAmax(const Segment& segment) {
    const Json* stored = state_.Find(AmaxStep(segment));
    KvAmax amax(session_.spec());
    if (stored == nullptr || !amax.FromJson(*stored)) return;
    if (!amax_) amax_.emplace(session_.spec());
    amax_->Merge(amax);
  }

  void FillCosts(const std::vector<DivergenceAccumulator>& lanes) {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      CompareCost& cost = result_.runs[lane].cost.emplace();
      if (lane > 0) lanes[lane - 1].FillCost(cost);
    }
    const DivergenceAccumulator& noise = lanes.back();
    const DivergenceSummary summary = noise.All();
    NoiseFloor& floor = result_.noise_floor.emplace();
    floor.mean_kl = summary.kl.mean;
    floor.top1_agreement = summary.top1.mean;
    floor.kl_stderr = summary.kl.stderr_of_mean;
    floor.tokens = summary.tokens;
    floor.how = fmt::format("chunks of {} tokens instead of 512", kNoiseChunkTokens);
    FillBaselineCost(noise, *result_.runs[0].cost);
  }

  // The baseline's own perplexities; against itself nothing is compared.
  static void FillBaselineCost(const DivergenceAccumulator& noise, CompareCost& cost) {
    CompareCost itself;
    noise.FillCost(itself);
    cost.perplexity = cost.baseline_perplexity = itself.baseline_perplexity;
    cost.tokens = itself.tokens;
    for (const TextCost& text : itself.texts) {
      TextCost& own = cost.texts.emplace_back();
      own.text = text.text;
      own.tokens = text.tokens;
      own.perplexity = own.baseline_perplexity = text.baseline_perplexity;
    }
  }

  // ---- speed ----

  Status RunSpeed() {
    constexpr const char* kStep = "speed";
    const double passes = static_cast<double>(SpeedTokenPasses(speed_options_, lanes_.size()));
    std::vector<CompareSpeed> speeds;
    const Json* stored = state_.Find(kStep);
    if (stored == nullptr || !SpeedFromJson(stored->value("lanes", Json()), speeds) || speeds.size() != lanes_.size()) {
      Progress(0, "memory bandwidth");
      speed_options_.read_bandwidth_gb_per_s = MeasureReadBandwidth(*session_.pool);
      const std::vector<int32_t> tokens = SpeedTokens();
      HAYPILE_TRY_ASSIGN(SpeedResult speed, MeasureSpeed(session_, lanes_, tokens, speed_options_, [&](int64_t done) {
                           Progress(static_cast<double>(done), "speed");
                         }));
      speeds = std::move(speed.lanes);
      speed_pool_tokens_ = speed.pool_tokens;
      HAYPILE_TRY(state_.Put(kStep, {{"lanes", SpeedToJson(speeds)},
                                     {"bandwidth", speed_options_.read_bandwidth_gb_per_s},
                                     {"pool_tokens", speed_pool_tokens_}}));
    } else {
      speed_options_.read_bandwidth_gb_per_s = stored->value("bandwidth", 0.0);
      speed_pool_tokens_ = stored->value("pool_tokens", int64_t{0});
    }
    if (speed_options_.read_bandwidth_gb_per_s > 0) {
      result_.machine.read_bandwidth_gb_per_s = speed_options_.read_bandwidth_gb_per_s;
    }
    result_.options.speed_pool_tokens = speed_pool_tokens_;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) result_.runs[lane].speed = speeds[lane];
    StepDone(passes);
    return {};
  }

  // The texts one after the other, repeated to the length that is measured.
  std::vector<int32_t> SpeedTokens() const {
    std::vector<int32_t> tokens = session_.EncodeWithBos("");
    const auto wanted = static_cast<size_t>(request_.max_model_len) + 1;
    while (tokens.size() < wanted) {
      for (const std::string_view name : EvaluationTextNames()) {
        const std::vector<int32_t> text = session_.tokenizer->Encode(EvaluationText(name));
        tokens.insert(tokens.end(), text.begin(), text.end());
      }
    }
    return tokens;
  }

  // ---- generation ----

  Result<TextGenerator*> GeneratorOf(size_t lane) {
    if (generator_ == nullptr || generator_lane_ != lane) {
      generator_.reset();  // one pool at a time
      int64_t longest = 2048;
      for (const RecallItem& item : recall_items_) {
        longest = std::max(longest, static_cast<int64_t>(item.prompt.size()) + kRecallAnswerTokens + 64);
      }
      longest = std::min(longest, session_.spec().max_positions);
      HAYPILE_TRY_ASSIGN(generator_, EngineGenerator::Create(session_, lanes_[lane].CacheConfig(
                                                                           std::max(kGenerationPoolTokens, longest * 2),
                                                                           longest, kGenerationSequences)));
      generator_lane_ = lane;
    }
    return generator_.get();
  }

  Status RunGolden_() {
    constexpr const char* kStep = "golden";
    LaneGolden outputs;
    const Json* stored = state_.Find(kStep);
    if (stored == nullptr || !GoldenFromJson(*stored, outputs) || outputs.size() != lanes_.size()) {
      outputs.clear();
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        Progress(kGoldenPasses * static_cast<double>(lane), "golden prompts");
        HAYPILE_TRY_ASSIGN(TextGenerator * generator, GeneratorOf(lane));
        auto of_lane = RunGolden(*generator, codec_);
        if (SkipIfTooLong(of_lane, "golden prompts")) return {};
        if (!of_lane.ok()) return std::move(of_lane).error();
        outputs.push_back(std::move(*of_lane));
      }
      HAYPILE_TRY(state_.Put(kStep, GoldenToJson(outputs)));
    }
    for (size_t lane = 1; lane < lanes_.size(); ++lane) {
      result_.runs[lane].cost->golden = CompareGolden(outputs[0], outputs[lane]);
    }
    StepDone(kGoldenPasses * static_cast<double>(lanes_.size()));
    return {};
  }

  // A prompt that the model's context cannot hold leaves its part out, by name.
  template <typename T>
  bool SkipIfTooLong(const Result<T>& result, const std::string& what) {
    if (result.ok() || result.error().code() != ErrorCode::kOutOfBudget) return false;
    result_.skipped.push_back({what, result.error().message()});
    return true;
  }

  // Runs `ask` under every lane, or takes what an earlier run stored.
  template <typename Ask>
  Result<LanePasses> PassesOf(const std::string& step, size_t items, double passes_per_lane, Ask ask) {
    LanePasses passes;
    const Json* stored = state_.Find(step);
    if (stored != nullptr && PassesFromJson(*stored, passes) && passes.size() == lanes_.size() &&
        std::all_of(passes.begin(), passes.end(), [&](const auto& lane) { return lane.size() == items; })) {
      return passes;
    }
    passes.clear();
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      Progress(passes_per_lane * static_cast<double>(lane), step);
      HAYPILE_TRY_ASSIGN(TextGenerator * generator, GeneratorOf(lane));
      HAYPILE_TRY_ASSIGN(std::vector<bool> of_lane, ask(*generator));
      passes.push_back(std::move(of_lane));
    }
    HAYPILE_TRY(state_.Put(step, PassesToJson(passes)));
    return passes;
  }

  void AddEvidence(const std::string& name, const LanePasses& passes) {
    evidence_.resize(lanes_.size());
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      evidence_[lane].pairs.emplace_back(name, CountPairs(passes[0], passes[lane]));
    }
  }

  Status RunTasks() {
    const std::vector<Task> tasks = TasksFor(codec_, result_.skipped);
    for (const Task& task : tasks) {
      auto asked = PassesOf("task:" + task.name, task.items.size(), kTaskPasses,
                            [&](TextGenerator& generator) { return RunTask(generator, codec_, task); });
      if (SkipIfTooLong(asked, task.name)) continue;
      if (!asked.ok()) return std::move(asked).error();
      const LanePasses& passes = *asked;
      AddEvidence(task.name, passes);
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        result_.runs[lane].cost->tasks.push_back(SummarizeTask(task, passes[0], passes[lane]));
      }
      StepDone(kTaskPasses * static_cast<double>(lanes_.size()));
    }
    return {};
  }

  Status RunRecall() {
    if (recall_items_.empty()) {
      result_.skipped.push_back({"planted-code recall", "no context size of this effort fits --max-model-len"});
      return {};
    }
    double prompt_tokens = 0;
    for (const RecallItem& item : recall_items_) prompt_tokens += static_cast<double>(item.prompt.size());
    HAYPILE_TRY_ASSIGN(const LanePasses passes, PassesOf("recall", recall_items_.size(), prompt_tokens,
                                                         [&](TextGenerator& generator) { return AskAll(generator); }));
    AddEvidence("recall", passes);
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      result_.runs[lane].cost->recall = SummarizeRecall(recall_items_, passes[0], passes[lane]);
    }
    StepDone(prompt_tokens * static_cast<double>(lanes_.size()));
    return {};
  }

  Result<std::vector<bool>> AskAll(TextGenerator& generator) const {
    std::vector<std::vector<int32_t>> prompts;
    for (const RecallItem& item : recall_items_) prompts.push_back(item.prompt);
    HAYPILE_TRY_ASSIGN(const auto outputs, generator.GreedyBatch(prompts, kRecallAnswerTokens));
    std::vector<bool> passes;
    for (size_t i = 0; i < outputs.size(); ++i) {
      passes.push_back(RecallPassed(codec_.decode(outputs[i]), recall_items_[i].code));
    }
    return passes;
  }

  // ---- conclusion ----

  void Conclude() {
    evidence_.resize(lanes_.size());
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      evidence_[lane].kv_cache_dtype = lanes_[lane].dtype.Name();
      const Lane& of = lanes_[lane];
      const KvAmax* amax = amax_ ? &*amax_ : nullptr;
      evidence_[lane].k_scale = ScaleUseOf(CacheSide::kK, of.geometry, of.dtype.k, of.scales.k, amax);
      evidence_[lane].v_scale = ScaleUseOf(CacheSide::kV, of.geometry, of.dtype.v, of.scales.v, amax);
    }
    result_.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    result_.not_measured = NotMeasured(result_);
    result_.verdict = Judge(result_, evidence_);
  }

  const CompareRequest request_;
  const CompareContext& context_;
  const Session session_;
  const std::vector<Lane> lanes_;
  const EffortPlan& plan_;
  StateStore state_;
  const TextCodec codec_;
  const std::chrono::steady_clock::time_point start_;
  CompareResult result_;
  std::vector<Segment> segments_;
  std::vector<RecallItem> recall_items_;
  std::vector<RunEvidence> evidence_;
  std::optional<KvAmax> amax_;  // of the texts that are done
  SpeedOptions speed_options_;
  int64_t speed_pool_tokens_ = 0;
  std::unique_ptr<EngineGenerator> generator_;
  size_t generator_lane_ = 0;
  double done_ = 0, total_ = 0;
};

// Everything that results depend on, so that a state file of anything else is not taken for this run's.
std::string StateKey(const CompareRequest& request, const CompareContext& context, int threads) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(context.model_path, ignored);
  const auto time = std::filesystem::last_write_time(context.model_path, ignored).time_since_epoch().count();
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", context.tool_version, context.commit, context.model_path,
                  size, time, request.kv_cache_memory_bytes, request.max_model_len, NameOf(request.effort),
                  request.skip_layers, request.scales_path, request.page_tokens, threads, IsaName(ActiveIsa()));
  if (const auto scales = Sha256OfFile(request.scales_path); scales.ok()) key += "|" + *scales;
  for (const KvDtype dtype : request.dtypes) key += "|" + dtype.Name();
  for (const int64_t streams : request.streams) key += fmt::format("|{}", streams);
  return key;
}

}  // namespace

Status CheckCompareRequest(const std::string& model_path, CompareRequest& request) {
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  const ModelSpec& spec = checkpoint->spec();
  HAYPILE_TRY(ResolveMaxModelLen(spec, request));
  HAYPILE_TRY_ASSIGN(const std::vector<Lane> lanes, MakeLanes(spec, request, checkpoint->kv_scales()));
  auto runs = PlanCapacity(spec, request, lanes);
  if (!runs.ok()) return std::move(runs).error();
  return {};
}

Result<CompareResult> RunCompare(CompareRequest request, const CompareContext& context) {
  HAYPILE_TRY_ASSIGN(Session session, Session::Load(context.model_path, context.threads));
  HAYPILE_TRY(ResolveMaxModelLen(session.spec(), request));
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(context.model_path));
  HAYPILE_TRY_ASSIGN(std::vector<Lane> lanes, MakeLanes(session.spec(), request, checkpoint->kv_scales()));
  StateStore state(context.state_path, StateKey(request, context, session.pool->size()));
  return Comparison(std::move(request), context, std::move(session), std::move(lanes), std::move(state)).Run();
}

}  // namespace haypile
