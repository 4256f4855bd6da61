#include "engines/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "engines/doctor.h"
#include "engines/launch_rows.h"
#include "engines/launch_support.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

LogEngine LogEngineOf(const std::string& engine) {
  for (const LogEngine kind : {LogEngine::kVllm, LogEngine::kSglang, LogEngine::kTrtllm, LogEngine::kLlamacpp}) {
    if (LogEngineName(kind) == engine) return kind;
  }
  return LogEngine::kUnknown;
}

// Letters and digits alone: "qwen3_5" and "Qwen3.5ForCausalLM" start alike.
bool IsOfFamily(const ModelGeometry& model, std::string_view families) {
  const std::string type = PlainBackend(model.model_type), architecture = PlainBackend(model.architecture);
  const auto words = WordsOf(families);
  return std::any_of(words.begin(), words.end(), [&](std::string_view family) {
    const std::string plain = PlainBackend(family);
    return type.starts_with(plain) || architecture.starts_with(plain);
  });
}

bool HasFeatures(const std::set<std::string>& features, std::string_view words) {
  const auto all = WordsOf(words);
  return std::all_of(all.begin(), all.end(), [&](std::string_view word) {
    const auto either = FeaturesOf(word);
    return std::any_of(either.begin(), either.end(), [&](std::string_view one) {
      return one.starts_with('!') ? !features.contains(std::string(one.substr(1)))
                                  : features.contains(std::string(one));
    });
  });
}

bool BackendIs(const std::string& backend, std::string_view words) {
  const auto all = WordsOf(words);
  return std::any_of(all.begin(), all.end(), [&](std::string_view word) {
    return word.starts_with('!') ? PlainBackend(backend) != PlainBackend(word.substr(1))
                                 : PlainBackend(backend) == PlainBackend(word);
  });
}

// A start as rows are held to it.
struct Start {
  const LaunchInput* input;
  EngineVersion version;
  LaunchDtypes dtypes;
  std::string backend;
  std::set<std::string> features;
  ModelTraits traits;
};

bool DtypeIs(const Start& start, std::string_view words) {
  // A row on "auto" means the flag; all others mean what the cache will be.
  if (HasWord(words, start.input->kv_cache_dtype)) return true;
  return HasWord(words, start.dtypes.k) || HasWord(words, start.dtypes.v);
}

std::optional<int> HeadOf(const Start& start, const LaunchRow& row) {
  if (start.input->engine != "llamacpp") return HeadWith(row.heads, start.traits.HeadDims());
  // K and V have types of their own.
  const bool k = row.dtypes.empty() || HasWord(row.dtypes, start.dtypes.k);
  const bool v = row.dtypes.empty() || HasWord(row.dtypes, start.dtypes.v);
  if (k) {
    if (const auto head = HeadWith(row.heads, start.traits.head_dims_k)) return head;
  }
  return v ? HeadWith(row.heads, start.traits.head_dims_v) : std::nullopt;
}

bool RowApplies(const Start& start, const LaunchRow& row) {
  const LaunchInput& input = *start.input;
  if (!row.engines.empty() && !HasWord(row.engines, input.engine)) return false;
  if (!VersionMatches(row.versions, start.version)) return false;
  if (DeviceMatches(row.devices, input.device, input.gpu) != Match::kYes) return false;
  if (!row.backends.empty() && !BackendIs(start.backend, row.backends)) return false;
  if (!row.dtypes.empty() && !DtypeIs(start, row.dtypes)) return false;
  if (!row.heads.empty() && !HeadOf(start, row)) return false;
  if (!HasFeatures(start.features, row.features)) return false;
  return row.models.empty() || IsOfFamily(input.model, row.models);
}

std::string Filled(std::string_view text, const Values& values) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t open = std::min(text.find('{', at), text.size());
    filled += text.substr(at, open - at);
    const size_t close = text.find('}', open);
    if (close == std::string_view::npos) return filled + std::string(text.substr(open));
    const auto value = values.find(text.substr(open + 1, close - open - 1));
    filled += value != values.end() ? value->second : std::string(text.substr(open, close - open + 1));
    at = close + 1;
  }
  return filled;
}

std::string BiasText(const LaunchInput& input) {
  if (!input.key_bias || input.key_bias->outliers.empty()) return "";
  std::string layers;
  for (const KeyBias::Layer& layer : input.key_bias->outliers) {
    layers += fmt::format("{}layer {} has {:.0f}", layers.empty() ? "" : ", ", layer.layer, layer.norm);
  }
  return fmt::format("The key biases of some layers are far above the rest: of their norms {}; the median is {:.0f}.",
                     layers, input.key_bias->median_norm);
}

// vLLM can leave layers at the model's dtype.
std::string BiasFlag(const LaunchInput& input, const std::string& model_dtype_flag) {
  if (input.engine != "vllm" || !input.key_bias) return model_dtype_flag;
  std::string layers;
  for (const KeyBias::Layer& layer : input.key_bias->outliers) layers += " " + std::to_string(layer.layer);
  return "--kv-cache-dtype-skip-layers" + layers + "   # those layers at the model's dtype";
}

std::string ScaleNames(const LaunchInput& input) {
  std::string names;
  if (input.checkpoint == nullptr) return names;
  for (const KvScaleFamily family : input.checkpoint->families) {
    names += (names.empty() ? "" : ", ") + std::string(KvScaleFamilyName(family));
  }
  return names;
}

Values ValuesOf(const Start& start) {
  const LaunchInput& input = *start.input;
  const std::string flag = ModelDtypeFlag(LogEngineOf(input.engine));
  const int sm = input.gpu ? input.gpu->sm : 0;
  const int last = input.model.layers.empty() ? 0 : input.model.layers.back().index;
  Values values;
  values["engine"] = input.engine;
  values["dtype"] = input.kv_cache_dtype == "auto" ? start.dtypes.k : input.kv_cache_dtype;
  values["gpu"] = input.gpu ? input.gpu->name : input.device == DeviceKind::kCpu ? "the CPU" : "this device";
  values["capability"] = fmt::format("{}.{}", sm / 10, sm % 10);
  values["ranks"] = std::to_string(input.tensor_parallel);
  values["heads"] = fmt::format("{}", fmt::join(start.traits.kv_heads, ", "));
  values["backend"] = start.backend.empty() ? "not known" : start.backend;
  values["method"] = input.speculative_method;
  values["model"] = input.model.architecture.empty() ? input.model.model_type : input.model.architecture;
  values["model_dtype"] = input.model_dtype;
  values["model_dtype_flag"] = flag;
  values["bias"] = BiasText(input);
  values["bias_flag"] = BiasFlag(input, flag);
  values["skip_flag"] = input.engine == "vllm" ? fmt::format("--kv-cache-dtype-skip-layers 0 {}\n", last) : "";
  values["scales"] = ScaleNames(input);
  return values;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Severity SeverityOf(LaunchOutcome outcome) {
  switch (outcome) {
    case LaunchOutcome::kRefused:
    case LaunchOutcome::kWrong:
      return Severity::kProblem;
    case LaunchOutcome::kRisk:
      return Severity::kWarning;
    case LaunchOutcome::kNote:
      break;
  }
  return Severity::kNote;
}

// What to run where no row says.
std::vector<std::string> HowToFindOut(const LaunchInput& input) {
  const std::string model = input.model.name.empty() ? "MODEL" : input.model.name;
  std::string start = "vllm serve " + model + " --kv-cache-dtype " + input.kv_cache_dtype;
  if (input.engine == "sglang") {
    start = "python3 -m sglang.launch_server --model-path " + model + " --kv-cache-dtype " + input.kv_cache_dtype;
  } else if (input.engine == "trtllm") {
    start = "trtllm-serve " + model + " --config kv.yaml   # kv_cache_config: {dtype: " + input.kv_cache_dtype + "}";
    return {start + " 2>&1 | tee start.log", "haypile doctor --log start.log --checkpoint " + model};
  } else if (input.engine == "llamacpp") {
    const LaunchDtypes dtypes = DtypesOf(input);
    start = "llama-server -m " + model + " -ctk " + dtypes.k + " -ctv " + dtypes.v + " -fa on -lv 4";
  } else if (input.engine != "vllm") {
    return {"start it with the model's dtype and with this one, and send both the same prompts at temperature 0"};
  }
  if (!input.backend.empty() && input.engine != "llamacpp") start += " --attention-backend " + input.backend;
  return {start + " 2>&1 | tee start.log   # and send one request",
          "haypile doctor --log start.log --checkpoint " + model};
}

Finding SupportFinding(const LaunchInput& input, const LaunchSupport& support) {
  Finding finding{"launch.not_known", Severity::kUnknown, support.what, {{0, "source: " + support.source}}, "", {}, ""};
  if (support.match == Match::kYes) {
    finding.id = "launch.served";
    finding.severity = Severity::kGood;
    finding.why = "A row of the support matrix says so; that it starts does not say that its answers are right.";
    finding.check = "the first request is answered, and the backend line names what is expected here";
    return finding;
  }
  if (support.match == Match::kNo) {
    finding.id = "launch.refused";
    finding.severity = Severity::kProblem;
    finding.why =
        "A dtype that no backend serves ends the start after the weights have been loaded, or at the first request.";
    for (const std::string& other : support.alternatives) {
      finding.type.push_back("--attention-backend " + other + "   # serves this dtype here");
    }
    finding.type.push_back(ModelDtypeFlag(LogEngineOf(input.engine)));
    finding.type.push_back("haypile plan MODEL --gpu NAME   # what each dtype would hold, and which are served");
    finding.check = "the first request is answered";
    return finding;
  }
  finding.why = "No row is no promise: it may work, end at the first request, or answer wrongly.";
  finding.type = HowToFindOut(input);
  finding.check = "the first request is answered, and the log names the dtype and the backend";
  return finding;
}

void AddVersionNote(const LaunchInput& input, LaunchPrediction& prediction) {
  const auto kind = PlannedEngine(input.engine);
  if (!kind || !input.version) return;
  // llama.cpp's sources were read at a later build than its pools were measured at.
  constexpr EngineVersion kLlamacppRead{10470, 0, 0};
  const EngineVersion newest = *kind == EngineKind::kLlamacpp ? kLlamacppRead : NewestKnownVersion(*kind);
  if (*input.version <= newest) return;
  prediction.findings.push_back(
      {"launch.version_newer",
       Severity::kUnknown,
       fmt::format("{} {} is newer than the newest version that rows are of ({}): what they say may "
                   "no longer hold.",
                   input.engine, LaunchVersionText(input),
                   *kind == EngineKind::kLlamacpp ? "b" + std::to_string(newest.major) : newest.Text()),
       {{0, "source: the versions of the support matrix"}},
       "Backends and refusals change between releases.",
       HowToFindOut(input),
       "the log names the dtype and the backend"});
  if (prediction.verdict == LaunchVerdict::kServed) prediction.verdict = LaunchVerdict::kNotKnown;
}

// A row of trouble speaks against a backend that takes the dtype: nobody should read "served" beside it.
void Overrule(LaunchPrediction& prediction) {
  if (prediction.verdict == LaunchVerdict::kRefused) {
    prediction.storage = "no";
    prediction.arithmetic = "not known";
  }
  for (Finding& finding : prediction.findings) {
    if (finding.id != "launch.served") continue;
    finding.id = "launch.backend_takes_it";
    finding.severity = Severity::kNote;
    finding.what += " What else is found here speaks against it.";
    finding.why = "A backend that takes the dtype is not enough.";
  }
}

void AddRows(const Start& start, std::span<const LaunchRow> rows, LaunchPrediction& prediction) {
  const Values common = ValuesOf(start);
  for (const LaunchRow& row : rows) {
    if (!RowApplies(start, row)) continue;
    Values values = common;
    const auto head = row.heads.empty() ? std::nullopt : HeadOf(start, row);
    values["head"] = head ? std::to_string(*head) : "";
    prediction.findings.push_back({std::string(row.id),
                                   SeverityOf(row.outcome),
                                   Filled(row.what, values),
                                   {{0, "source: " + std::string(row.source)}},
                                   Filled(row.why, values),
                                   Lines(Filled(row.type, values)),
                                   Filled(row.check, values)});
    if (row.outcome == LaunchOutcome::kRefused) prediction.verdict = LaunchVerdict::kRefused;
    if (row.outcome == LaunchOutcome::kWrong && prediction.verdict != LaunchVerdict::kRefused) {
      prediction.verdict = LaunchVerdict::kWrong;
    }
  }
}

// The same start with V's heads as K's, or K's as V's: what one type alone has to fit.
LaunchInput WithHeadsOf(const LaunchInput& input, bool keys) {
  LaunchInput side = input;
  for (LayerGeometry& layer : side.model.layers) {
    (keys ? layer.head_dim_v : layer.head_dim_k) = keys ? layer.head_dim_k : layer.head_dim_v;
  }
  return side;
}

// The worse of both types' answers.
LaunchSupport SupportOfBoth(const LaunchInput& input, const LaunchDtypes& dtypes) {
  if (dtypes.v == dtypes.k) return SupportOfLaunch(input, dtypes.k);
  LaunchSupport keys = SupportOfLaunch(WithHeadsOf(input, true), dtypes.k);
  LaunchSupport values = SupportOfLaunch(WithHeadsOf(input, false), dtypes.v);
  const auto rank = [](Match match) { return match == Match::kNo ? 2 : match == Match::kUnknown ? 1 : 0; };
  if (rank(keys.match) != rank(values.match)) return rank(keys.match) > rank(values.match) ? keys : values;
  return IsQuantizedDtype(dtypes.v).value_or(false) ? values : keys;
}

}  // namespace

std::string LaunchVerdictName(LaunchVerdict verdict) {
  switch (verdict) {
    case LaunchVerdict::kServed:
      return "served";
    case LaunchVerdict::kRefused:
      return "refused";
    case LaunchVerdict::kWrong:
      return "served_wrongly";
    case LaunchVerdict::kNotKnown:
      break;
  }
  return "not_known";
}

LaunchPrediction PredictLaunch(const LaunchInput& input) {
  const LaunchDtypes dtypes = DtypesOf(input);
  const LaunchSupport support = SupportOfBoth(input, dtypes);
  LaunchPrediction prediction;
  prediction.backend = support.backend;
  prediction.verdict = support.match == Match::kYes  ? LaunchVerdict::kServed
                       : support.match == Match::kNo ? LaunchVerdict::kRefused
                                                     : LaunchVerdict::kNotKnown;
  prediction.storage = support.match == Match::kYes ? "yes" : support.match == Match::kNo ? "no" : "not known";
  prediction.arithmetic = support.arithmetic.empty() || support.arithmetic == "?" || support.match == Match::kNo
                              ? "not known"
                              : support.arithmetic;
  prediction.findings.push_back(SupportFinding(input, support));
  Start start{&input, LaunchVersion(input), dtypes, support.backend, {}, TraitsOf(input.model)};
  if (start.backend.empty() && LowerCase(input.backend) != "auto") start.backend = input.backend;
  start.features = LaunchFeatures(input, support.match == Match::kNo ? "" : support.backend);
  AddRows(start, VllmLaunchRows(), prediction);
  AddRows(start, OtherLaunchRows(), prediction);
  AddVersionNote(input, prediction);
  if (support.match == Match::kYes && prediction.verdict != LaunchVerdict::kServed) Overrule(prediction);
  std::stable_sort(prediction.findings.begin(), prediction.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return prediction;
}

}  // namespace haypile
