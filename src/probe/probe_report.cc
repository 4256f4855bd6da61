#include "probe/probe_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "planner/number_text.h"

namespace haypile {
namespace {

std::string DtypeName(const ProbeResult& result) { return result.dtype.dtype.Name(); }

// "bf16", "fp8_e4m3 at the file's scales", "fp8_e4m3 at 1.0"; a dtype without such scales stands alone.
std::string RunName(const ProbeResult& result, ProbeCache cache) {
  if (cache == ProbeCache::kUnquantized) return "bf16";
  if (!result.scales.dtype_has_scale) return DtypeName(result);
  const bool file = cache == ProbeCache::kFileScales || cache == ProbeCache::kFileScalesCut;
  const bool cut = cache == ProbeCache::kFileScalesCut || cache == ProbeCache::kUnitScalesCut;
  return DtypeName(result) + (file ? " at the file's scales" : " at 1.0") + (cut ? ", cut" : "");
}

std::string IntervalText(const Interval& interval) {
  return fmt::format("[{:.3g}, {:.3g}]", interval.low, interval.high);
}

std::string PairText(const ProbeResult& result, const ProbePair& pair) {
  if (pair.from != ProbeCache::kUnquantized) {
    return fmt::format("{} is farther than {} by {:.3g} {}; the two differ by {:.3g}", RunName(result, pair.to),
                       RunName(result, pair.from), pair.gap, IntervalText(pair.gap_interval), pair.separation);
  }
  std::string text = fmt::format("{} differs from bf16 by {:.3g}", RunName(result, pair.to), pair.separation);
  if (std::isfinite(pair.share)) {
    text += fmt::format("; the server goes along with that step by {:.2f} {}", pair.share,
                        IntervalText(pair.share_interval));
  }
  return text;
}

std::string SourceText(const ProbeDtype& dtype) {
  switch (dtype.source) {
    case ProbeDtypeSource::kFlag:
      return "read from --kv-cache-dtype " + dtype.said;
    case ProbeDtypeSource::kLog:
      return "read from the log: " + dtype.said;
    case ProbeDtypeSource::kCheckpoint:
      return "read from the checkpoint: " + dtype.said;
    case ProbeDtypeSource::kAssumed:
      break;
  }
  return "assumed: nothing given says it; --kv-cache-dtype does";
}

std::string ScalesText(const ProbeScales& scales) {
  if (!scales.dtype_has_scale) return "the dtype uses no scales of a checkpoint";
  if (scales.tensors == 0) return "the checkpoint holds no KV scales, so there is none but 1.0 to compare with";
  if (!scales.compared) {
    return fmt::format("the checkpoint's {} tensors such as {} are not compared: {}", scales.tensors, scales.example,
                       scales.unused);
  }
  std::string text =
      fmt::format("read from {} tensors such as {} ({}): K {:.4g} to {:.4g}, V {:.4g} to {:.4g}", scales.tensors,
                  scales.example, scales.words, scales.k_least, scales.k_most, scales.v_least, scales.v_most);
  if (!scales.layers_without.empty()) {
    text += fmt::format("; layers {} lack one or both, which are 1.0 there", fmt::join(scales.layers_without, ","));
  }
  return text;
}

std::vector<LogLine> Evidence(const ProbeResult& result) {
  const ProbeJudgement& judgement = result.judgement;
  std::string nll = fmt::format("mean negative log-likelihood of {} tokens: server {:.5f}", Grouped(judgement.rows),
                                judgement.server_nll);
  std::string distance = "mean squared distance of the server's log-probabilities, square nats:";
  for (const ProbeDistance& run : judgement.distances) {
    const std::string name = RunName(result, run.cache);
    nll += fmt::format("; {} {:.5f}", name, run.nll);
    distance += fmt::format("{} to {} {:.3g} {}", &run == &judgement.distances.front() ? "" : ";", name,
                            run.mean_square, IntervalText(run.interval));
  }
  std::vector<LogLine> lines{{0, nll}, {0, distance}};
  for (const ProbePair& pair : judgement.pairs) lines.push_back({0, PairText(result, pair)});
  lines.push_back(
      {0,
       fmt::format(
           "intervals at {:g}% over {} blocks of {} tokens; Haypile's bf16 run against itself in other chunks: {:.3g}",
           100 * kProbeConfidence, judgement.blocks, judgement.block_rows, judgement.own_noise)});
  if (judgement.distances.back().cache == ProbeCache::kUnitScalesCut) {
    lines.push_back({0,
                     "cut: with a store that drops what the format cannot hold instead of rounding to nearest, as vLLM "
                     "0.32's FP8 store on CPUs does"});
  }
  lines.push_back({0, "KV dtype " + DtypeName(result) + ", " + SourceText(result.dtype)});
  lines.push_back({0, "scales: " + ScalesText(result.scales)});
  return lines;
}

std::string Again(const ProbeResult& result) {
  return "haypile doctor --probe " + result.served.base_url + " --checkpoint CHECKPOINT";
}

void FillLoaded(const ProbeResult& result, Finding& finding) {
  finding.id = "probe.scales_loaded";
  finding.severity = Severity::kGood;
  finding.what = fmt::format(
      "The checkpoint's KV scales are loaded: token by token the server's log-probabilities move as those of {} do, "
      "and not "
      "as those at 1.0.",
      RunName(result, result.judgement.nearest));
  finding.why = "Logs read the same with scales loaded and at 1.0; the answers do not.";
  finding.check = "the same after each change of engine, version or checkpoint: " + Again(result);
}

void FillUnit(const ProbeResult& result, Finding& finding) {
  const ProbeScales& scales = result.scales;
  const std::string run = RunName(result, result.judgement.nearest);
  if (!scales.dtype_has_scale) {
    finding.id = "probe.quantized";
    finding.severity = Severity::kGood;
    finding.what = "The server's log-probabilities move as those of a cache of " + run +
                   " do, not as those of an unquantized one.";
    finding.why = "This dtype makes its scales at run time: there is nothing to load.";
    finding.check = Again(result);
    return;
  }
  finding.id = "probe.runs_at_one";
  finding.why =
      "At scale 1.0 values beyond the format's range (448 for E4M3) are cut off and small ones lose bits; whether that "
      "costs anything is the model's matter.";
  if (scales.compared) {
    finding.severity = Severity::kProblem;
    finding.what = fmt::format(
        "The server runs at scale 1.0: its log-probabilities move as those of {} do; the checkpoint's {} KV scales are "
        "not in "
        "use.",
        run, scales.tensors);
    finding.type = {"haypile inspect CHECKPOINT   # what each engine and version does with these names",
                    "--kv-cache-dtype auto   # until then"};
    finding.check = "after the next start this says that they are loaded: " + Again(result);
    return;
  }
  finding.severity = scales.tensors == 0 ? Severity::kNote : Severity::kWarning;
  finding.what = "The server's cache is quantized and runs at scale 1.0: its log-probabilities move as those of " +
                 run + " do" +
                 (scales.tensors == 0 ? "; the checkpoint holds no KV scales that could be loaded."
                                      : "; the checkpoint's are not for such a cache: " + scales.unused + ".");
  finding.type = {"haypile calibrate CHECKPOINT   # makes scales"};
  finding.check = "with a checkpoint that holds scales: " + Again(result);
}

void FillUnquantized(const ProbeResult& result, Finding& finding) {
  // Its default backends attend to a prompt before they store it.
  const bool open = result.served.engine == "sglang";
  finding.id = "probe.not_quantized";
  finding.severity = result.dtype.said_unquantized ? Severity::kGood : open ? Severity::kUnknown : Severity::kWarning;
  finding.what = "The server computes the prompt as with an unquantized cache, not as with " +
                 RunName(result, ProbeCache::kUnitScales) +
                 (result.scales.compared ? " or at the file's scales." : ".");
  finding.why =
      "Either its cache is not quantized, or it attends to a prompt's keys and values before they are stored (SGLang's "
      "Triton backend and FlashInfer's ragged prefill do): then a prompt says nothing of the cache.";
  finding.type = {"haypile doctor --log LOG --checkpoint CHECKPOINT   # the dtype and backend that the server names"};
  if (open)
    finding.type.push_back("--attention-backend fa3   # SGLang: reads a prompt's keys and values from the cache");
  finding.check = Again(result);
}

double LeastSquare(const ProbeJudgement& judgement) {
  return std::ranges::min_element(judgement.distances, {}, &ProbeDistance::mean_square)->mean_square;
}

std::string NoiseText(const ProbeResult& result) {
  std::string text;
  for (const ProbePair& pair : result.judgement.pairs) {
    if (pair.to != result.judgement.nearest && pair.from != result.judgement.nearest) continue;
    text += fmt::format("{}{} and {} differ by {:.3g} square nats", text.empty() ? "" : "; ",
                        RunName(result, pair.from), RunName(result, pair.to), pair.separation);
  }
  return text + fmt::format("; the server from the nearest by {:.3g}.", LeastSquare(result.judgement));
}

void FillDoubt(const ProbeResult& result, Finding& finding) {
  const ProbeJudgement& judgement = result.judgement;
  finding.id = "probe.cannot_tell";
  finding.severity = Severity::kUnknown;
  finding.check = Again(result);
  switch (judgement.doubt) {
    case ProbeDoubt::kSameRuns:
      finding.what =
          "The probe cannot tell whether the scales are loaded: on this text they give the very same log-probabilities "
          "as 1.0.";
      finding.why = "So it makes no difference here either.";
      break;
    case ProbeDoubt::kNoise:
      finding.what = "The probe cannot tell: the caches differ by too little against the noise. " + NoiseText(result);
      finding.why = "More tokens tell smaller differences; a difference that 8,192 tokens do not show is a small one.";
      finding.type = {Again(result) + " --probe-tokens " + std::to_string(4 * result.tokens)};
      break;
    case ProbeDoubt::kOtherModel:
      finding.what = fmt::format(
          "The probe cannot tell: the server is {:.2g} nats a token away from every run of this checkpoint (root mean "
          "square), as another model would be.",
          std::sqrt(LeastSquare(judgement)));
      finding.why = "Scales move log-probabilities by hundredths of a nat, other weights by whole ones.";
      finding.type = {"--checkpoint FOLDER   # the folder that the server was started with"};
      break;
    case ProbeDoubt::kNoneFits:
    case ProbeDoubt::kNone:
      finding.what =
          "The probe cannot tell: the server fits none of the runs. Of the quantized ones it lies nearest to " +
          RunName(result, judgement.nearest) + ".";
      finding.why =
          "Other scales or another cache than those compared do this: scales made at the start "
          "(--calculate-kv-scales), another dtype, layers left out.";
      finding.type = {Again(result) + " --kv-cache-dtype DTYPE   # as the server was started"};
      break;
  }
  if (judgement.ruled_out.empty()) return;
  std::vector<std::string> names;
  for (const ProbeCache cache : judgement.ruled_out) names.push_back(RunName(result, cache));
  if (judgement.doubt == ProbeDoubt::kNoise || judgement.doubt == ProbeDoubt::kSameRuns) {
    finding.what += fmt::format(" Ruled out: {}.", fmt::join(names, "; "));
  }
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json RunsJson(const ProbeResult& result) {
  Json runs = Json::array();
  for (const ProbeDistance& run : result.judgement.distances) {
    const bool quantized = run.cache != ProbeCache::kUnquantized;
    runs.push_back({{"cache", NameOf(run.cache)},
                    {"kv_cache_dtype", quantized ? DtypeName(result) : "bf16"},
                    {"nll", Number(run.nll)},
                    {"mean_square", Number(run.mean_square)},
                    {"low", Number(run.interval.low)},
                    {"high", Number(run.interval.high)}});
  }
  return runs;
}

Json PairsJson(const ProbeJudgement& judgement) {
  Json pairs = Json::array();
  for (const ProbePair& pair : judgement.pairs) {
    pairs.push_back({{"from", NameOf(pair.from)},
                     {"to", NameOf(pair.to)},
                     {"separation", Number(pair.separation)},
                     {"gap", Number(pair.gap)},
                     {"gap_low", Number(pair.gap_interval.low)},
                     {"gap_high", Number(pair.gap_interval.high)},
                     {"share", Number(pair.share)},
                     {"share_low", Number(pair.share_interval.low)},
                     {"share_high", Number(pair.share_interval.high)}});
  }
  return pairs;
}

Json ScalesJson(const ProbeScales& scales) {
  const auto range = [&](double least, double most) -> Json {
    return scales.compared ? Json{{"least", least}, {"most", most}} : Json(nullptr);
  };
  return {{"compared", scales.compared},
          {"tensors", scales.tensors},
          {"example", scales.example},
          {"made_as", scales.words},
          {"k", range(scales.k_least, scales.k_most)},
          {"v", range(scales.v_least, scales.v_most)},
          {"layers_without", scales.layers_without},
          {"dtype_has_scale", scales.dtype_has_scale},
          {"unused", scales.unused}};
}

}  // namespace

Finding ProbeFinding(const ProbeResult& result) {
  Finding finding;
  finding.evidence = Evidence(result);
  switch (result.judgement.verdict) {
    case ProbeVerdict::kScalesLoaded:
      FillLoaded(result, finding);
      break;
    case ProbeVerdict::kUnitScales:
      FillUnit(result, finding);
      break;
    case ProbeVerdict::kNotQuantized:
      FillUnquantized(result, finding);
      break;
    case ProbeVerdict::kCannotTell:
      FillDoubt(result, finding);
      break;
  }
  return finding;
}

std::vector<std::string> ProbeHead(const ProbeResult& result) {
  const ServedModel& served = result.served;
  return {fmt::format("probe: {}, {}, model {}; {} tokens of the built-in text '{}' in one request to {}",
                      served.base_url, served.engine.empty() ? "engine not said" : served.engine, served.model,
                      Grouped(result.tokens), kProbeText, result.endpoint),
          "  KV dtype " + DtypeName(result) + ", " + SourceText(result.dtype),
          "  scales: " + ScalesText(result.scales)};
}

TextTable ProbeTable(const ProbeResult& result) {
  TextTable table({{"log-probabilities of"},
                   {"NLL", Align::kRight},
                   {"distance", Align::kRight},
                   {fmt::format("{:g}% interval", 100 * kProbeConfidence), Align::kRight},
                   {"step", Align::kRight},
                   {"server's share", Align::kRight},
                   {"interval", Align::kRight}});
  const ProbeJudgement& judgement = result.judgement;
  table.AddRow({"the server", fmt::format("{:.5f}", judgement.server_nll), "", "", "", "", ""});
  for (const ProbeDistance& run : judgement.distances) {
    std::vector<TableCell> cells{RunName(result, run.cache), fmt::format("{:.5f}", run.nll),
                                 fmt::format("{:.3g}", run.mean_square), IntervalText(run.interval)};
    if (run.cache == ProbeCache::kUnquantized) {
      cells.insert(cells.end(), {"", "", ""});
    } else {
      const ProbePair& step = judgement.Pair(ProbeCache::kUnquantized, run.cache);
      cells.insert(cells.end(), {fmt::format("{:.3g}", step.separation), fmt::format("{:.2f}", step.share),
                                 IntervalText(step.share_interval)});
    }
    table.AddRow(std::move(cells));
  }
  return table;
}

std::vector<std::string> ProbeNotMeasured(const ProbeResult& result) {
  std::vector<std::string> open{"generated tokens: a prompt was asked alone, in one request",
                                "batches of requests, and prompts longer than " + Grouped(result.tokens) + " tokens",
                                "the attention backend, and scales of queries and probabilities, which some use"};
  if (!result.ids_confirmed) open.push_back("whether the server saw the same token ids: it returned none");
  return open;
}

Json ProbeJson(const ProbeResult& result) {
  const ProbeJudgement& judgement = result.judgement;
  Json ruled_out = Json::array();
  for (const ProbeCache cache : judgement.ruled_out) ruled_out.push_back(NameOf(cache));
  return {{"url", result.served.base_url},
          {"engine", result.served.engine},
          {"model", result.served.model},
          {"max_model_len", result.served.max_model_len ? Json(*result.served.max_model_len) : Json(nullptr)},
          {"endpoint", result.endpoint},
          {"token_ids_confirmed", result.ids_confirmed},
          {"checkpoint", result.checkpoint},
          {"text", kProbeText},
          {"tokens", result.tokens},
          {"kv_cache_dtype",
           {{"compared", DtypeName(result)},
            {"source", NameOf(result.dtype.source)},
            {"said", result.dtype.said},
            {"said_unquantized", result.dtype.said_unquantized}}},
          {"scales", ScalesJson(result.scales)},
          {"verdict", NameOf(judgement.verdict)},
          {"doubt", NameOf(judgement.doubt)},
          {"ruled_out", ruled_out},
          {"server_nll", Number(judgement.server_nll)},
          {"runs", RunsJson(result)},
          {"pairs", PairsJson(judgement)},
          {"own_noise", Number(judgement.own_noise)},
          {"confidence", kProbeConfidence},
          {"blocks", judgement.blocks},
          {"block_tokens", judgement.block_rows},
          {"not_measured", ProbeNotMeasured(result)}};
}

}  // namespace haypile
