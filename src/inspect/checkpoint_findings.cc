#include "inspect/checkpoint_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "checkpoint/config_quantization.h"
#include "checkpoint/kv_scale_name.h"
#include "inspect/scale_convention.h"
#include "inspect/scale_findings.h"

namespace haypile {
namespace {

// Of the formats that keep scales beside weights: FP8 (also by blocks), NVFP4, MXFP4, AWQ, GPTQ, Quark, bitsandbytes.
bool IsScaleOfWeights(std::string_view name) {
  for (const std::string_view suffix :
       {".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale", ".input_scale",
        ".input_global_scale", ".scales", "_proj_scales", ".weight.absmax", ".scale_weight", ".weight_scales"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

// A projection that quantizers take: in the decoder, and no part of sparse attention's indexer, which stays at 16 bits.
bool IsProjectionWeight(std::string_view name) {
  return name.ends_with("_proj.weight") && name.find("indexer.") == name.npos && !name.ends_with("eh_proj.weight") &&
         PlaceOfTensor(name).stack == LayerStack::kDecoder;
}

bool IsSixteenBits(std::string_view dtype) { return dtype == "BF16" || dtype == "F16" || dtype == "F32"; }

bool AnyScaleFamily(const InspectReport& report) {
  return std::any_of(report.scales.begin(), report.scales.end(),
                     [](const FamilySummary& family) { return family.kind == KvScaleKind::kScale; });
}

void AddAbsentScales(const InspectReport& report, CheckpointFindings* out) {
  const bool no_cache = report.geometry && report.kv_layers.empty();  // recurrent layers only
  if (AnyScaleFamily(report) || report.headers.files.empty() || no_cache) return;
  const auto weight_scales =
      static_cast<size_t>(std::count_if(report.headers.tensors.begin(), report.headers.tensors.end(),
                                        [](const HeaderTensor& tensor) { return IsScaleOfWeights(tensor.name); }));
  const std::string kv = report.declaration.KvDtype();
  std::string text = "no KV scales in the checkpoint: a cache with scales by layer runs at 1.0";
  if (!kv.empty()) {
    text += "; it declares a cache of " + kv +
            (report.declaration.producer == "modelopt"
                 ? ", as ModelOpt's cast formats do (its default since 0.43), which write no scales"
                 : ", so scales were to be expected");
  }
  out->push_back(
      {kv.empty() ? FindingLevel::kNote : FindingLevel::kWarning, "kv_scales_absent", text,
       "compare the FP8 cache with 16 bits on your text before you ship it (haypile compare), or calibrate"});
  if (weight_scales == 0) return;
  out->push_back({FindingLevel::kWarning, "weight_scales_only",
                  fmt::format("weight scales do not imply KV scales: {} scale tensors of weights and activations are "
                              "here, and none of the KV cache",
                              weight_scales),
                  ""});
}

// KV scales and declaration, where one is there without the other.
void AddOrphans(const InspectReport& report, CheckpointFindings* out) {
  if (!AnyScaleFamily(report)) return;
  const QuantizationDeclaration& declaration = report.declaration;
  if (!declaration.in_config && !declaration.in_hf_config) {
    out->push_back(
        {FindingLevel::kWarning, "kv_scales_without_config",
         "KV scales are in the files, but config.json has no quantization_config: engines do not look for them",
         "restore quantization_config (older exporters lost it when only the cache was quantized)"});
  } else if (declaration.KvDtype().empty()) {
    out->push_back({FindingLevel::kWarning, "kv_scales_undeclared",
                    "KV scales are in the files, but neither config.json nor hf_quant_config.json declares a quantized "
                    "cache",
                    "ask for it by --kv-cache-dtype fp8"});
  }
}

void AddAgreement(const InspectReport& report, CheckpointFindings* out) {
  const ScaleAgreement& agreement = report.agreement;
  const std::string text = "declared: " + agreement.declared + "; found: " + agreement.found + "; they " +
                           (agreement.disagreements.empty() ? "agree" : "do not agree");
  if (report.declaration.KvDtype().empty() || report.headers.files.empty()) return;
  if (agreement.disagreements.empty()) {
    out->push_back({FindingLevel::kNote, "kv_scales_as_declared", text, ""});
    return;
  }
  std::string why;
  for (const std::string& disagreement : agreement.disagreements) why += (why.empty() ? "" : "; ") + disagreement;
  out->push_back({FindingLevel::kWarning, "kv_scales_not_as_declared", text + " (" + why + ")", ""});
  for (const std::string& disagreement : agreement.disagreements) {
    if (!disagreement.starts_with("kv_cache_scheme says strategy")) continue;
    out->push_back(
        {FindingLevel::kError, "kv_scales_strategy_mismatch", disagreement, "make strategy and shapes agree"});
  }
}

void AddExcluded(const InspectReport& report, CheckpointFindings* out) {
  if (!report.declaration.excluded.empty() || (!report.declaration.in_config && !report.declaration.in_hf_config)) {
    return;
  }
  size_t plain = 0, quantized = 0;
  std::string example;
  for (const HeaderTensor& tensor : report.headers.tensors) {
    if (!IsProjectionWeight(tensor.name) || tensor.shape.size() != 2) continue;
    const bool is_plain = IsSixteenBits(tensor.dtype);
    if (is_plain && example.empty()) example = tensor.name;
    (is_plain ? plain : quantized) += 1;
  }
  if (plain == 0 || quantized == 0) return;
  out->push_back(
      {FindingLevel::kWarning, "excluded_modules_unknown",
       fmt::format("{} projections are not quantized ('{}' is one), but neither 'exclude_modules' nor 'ignore' "
                   "lists them: a loader may take them for quantized",
                   plain, example),
       "add the list to quantization_config ('ignore') and to hf_quant_config.json ('exclude_modules')"});
}

void AddSharedV(const InspectReport& report, CheckpointFindings* out) {
  std::vector<int> layers;
  for (const KvLayerNeed& need : report.kv_layers) {
    if (need.v_is_k) layers.push_back(need.layer);
  }
  if (layers.empty()) return;
  out->push_back(
      {FindingLevel::kNote, "v_shares_k",
       "V shares K in layers " + RangesText(layers) +
           " (attention_k_eq_v): they have no v_proj and need no scale of V; engines still store K and V both, "
           "unless they share them",
       "", layers});
}

void AddFnuz(const InspectReport& report, CheckpointFindings* out) {
  const bool fnuz = std::any_of(report.dtypes.begin(), report.dtypes.end(),
                                [](const DtypeShare& share) { return share.dtype.find("FNUZ") != std::string::npos; });
  if (fnuz) {
    out->push_back({FindingLevel::kWarning, "fnuz_weights",
                    "tensors are FP8 FNUZ (AMD gfx94x; at most 240): their codes are worth half of E4M3FN's", ""});
  }
  if (!AnyScaleFamily(report)) return;
  if (report.divisor_of_values == "amax/240") {
    out->push_back(
        {FindingLevel::kWarning, "fnuz_scales",
         "the values are amax / 240: scales for FP8 FNUZ. Engines take checkpoint scales for those of E4M3FN: "
         "elsewhere they leave half of the range unused, and on gfx94x they double them",
         "write amax / 448, from which every engine makes what its hardware needs"});
    return;
  }
  out->push_back(
      {FindingLevel::kNote, "fnuz_scales",
       std::string("scales are for E4M3FN (at most 448); on gfx94x, whose FP8 is FNUZ, engines double scales "
                   "that they load, and do not double the 1.0 of absent ones") +
           (report.declaration.method == "compressed-tensors" ? "; vLLM's compressed-tensors path does not double"
                                                              : ""),
       ""});
}

std::string Nvfp4Convention(const InspectReport& report) {
  const QuantizationDeclaration& declaration = report.declaration;
  const bool modelopt = declaration.method.starts_with("modelopt");
  const bool attention_names =
      modelopt && std::any_of(report.scales.begin(), report.scales.end(), [](const FamilySummary& family) {
        return family.family == KvScaleFamily::kAttention && family.kind == KvScaleKind::kScale;
      });
  const std::string method = modelopt ? "modelopt" : declaration.method;
  const auto divisor = Nvfp4ScaleDivisor(declaration.producer.empty() ? method : declaration.producer,
                                         declaration.producer_version, attention_names);
  return divisor ? "amax/" + std::to_string(*divisor) : "amax/448 or amax/2688";
}

void AddConvention(InspectReport* report, CheckpointFindings* out) {
  if (!AnyScaleFamily(*report)) return;
  const QuantizationDeclaration& declaration = report->declaration;
  const std::string producer = declaration.producer.empty() ? declaration.method : declaration.producer;
  report->exporter = producer.empty() ? "unknown" : producer;
  if (!declaration.producer_version.empty()) report->exporter += " " + declaration.producer_version;
  const std::string& told = report->divisor_of_values;
  if (!declaration.KvDtype().starts_with("nvfp4")) {
    report->convention = told.empty() ? "amax/448" : told;
    if (told.empty() || told == "amax/448" || told == "amax/240") return;
    const bool sixfold = told == "amax/2688";
    out->push_back(
        {FindingLevel::kWarning, "scale_convention_unexpected",
         "the values are " + told + ", but the cache is " +
             (declaration.KvDtype().empty() ? "FP8 where one is asked for" : declaration.KvDtype()) +
             ", whose scales are amax/448" +
             (sixfold ? ": a factor of 6 too small, so that values above a sixth of the range are cut off" : ""),
         "calibrate for the cache that you serve"});
    return;
  }
  report->convention = Nvfp4Convention(*report);
  const bool by_values = told == "amax/448" || told == "amax/2688";
  const bool contradicted = by_values && report->convention.find(told) == std::string::npos;
  const std::string from_producer = report->convention;
  if (by_values) report->convention = told;
  out->push_back(
      {FindingLevel::kWarning, "nvfp4_convention",
       "NVFP4 scales by " + report->convention + " (written by " + report->exporter +
           "): exporters differ by a factor of 6, and so do engines; " +
           (contradicted ? "the values tell so, against what is known of the producer (" + from_producer + ")"
            : by_values  ? "the values tell so"
                         : "the values do not tell which it is"),
       "with the wrong one, block scales sink into E4M3's subnormals or saturate: compare before you ship"});
}

// "4 of 4 layers": how many of the layers that keep it have a scale.
std::string CountText(size_t missing, size_t keepers) {
  return fmt::format("{} of {} layers", keepers - missing, keepers);
}

std::string FoundText(const InspectReport& report, const MissingScales& missing) {
  std::string names;
  for (const FamilySummary& family : report.scales) {
    if (family.kind != KvScaleKind::kScale) continue;
    names += (names.empty() ? "" : ", ") + std::string(KvScaleFamilyName(family.family)) + " " +
             std::string(GranularityName(family.granularity));
  }
  if (names.empty()) return "no KV scales";
  const auto keep_v = static_cast<size_t>(
      std::count_if(report.kv_layers.begin(), report.kv_layers.end(), [](const KvLayerNeed& need) { return need.v; }));
  return names + fmt::format(" for K of {}, V of {}", CountText(missing.k.size(), report.kv_layers.size()),
                             CountText(missing.v.size(), keep_v));
}

// What loaders do with an index that does not say where tensors are.
std::string StaleIndexOutcomes(const CheckpointHeaders& headers) {
  const std::string whole = "llama.cpp's converter compares names of tensors alone, and works";
  if (headers.missing_files.empty()) {
    return "All files that it names are here, so loaders that take whole files (transformers, vLLM, SGLang, "
           "TensorRT-LLM) "
           "find every tensor; those that look a tensor up in the index (Haypile, safetensors by name) fail; " +
           whole;
  }
  const bool none_left = headers.missing_files.size() == headers.indexed_files.size();
  return std::string(
             "transformers stops at the first file that is not there; vLLM and SGLang keep only the files that the "
             "index names") +
         (none_left ? ", find none and stop ('Cannot find any model weights')" : ", and load a part of the model") +
         "; Haypile refuses; TensorRT-LLM and what else takes *.safetensors load it all; " + whole;
}

}  // namespace

CheckpointFindings FileFindings(const CheckpointHeaders& headers) {
  CheckpointFindings findings;
  const std::string rebuild = "rebuild model.safetensors.index.json from the headers: haypile inspect --write-index";
  if (headers.stale_index) {
    const size_t present = headers.indexed_files.size() - headers.missing_files.size();
    findings.push_back(
        {FindingLevel::kWarning, "stale_index",
         fmt::format("the index is stale: {} of the {} files that it names exist, {} tensors lie elsewhere "
                     "than it says; {} files that it does not name are here, and the files cover all {} "
                     "tensors. {}",
                     present, headers.indexed_files.size(), headers.misplaced_tensors, headers.unindexed_files.size(),
                     headers.indexed_tensors, StaleIndexOutcomes(headers)),
         rebuild});
  }
  if (!headers.has_index && headers.files.size() > 1) {
    findings.push_back(
        {FindingLevel::kWarning, "no_index",
         fmt::format("{} files and no model.safetensors.index.json: transformers and Haypile do not find "
                     "the weights; engines that take *.safetensors load them",
                     headers.files.size()),
         rebuild});
  }
  if (!headers.superseded.empty()) {
    const SupersededTensor& first = headers.superseded.front();
    findings.push_back(
        {FindingLevel::kWarning, "superseded_tensors",
         fmt::format("{} tensors are in more than one file; the index decides ('{}' is taken from {}, not "
                     "from {})",
                     headers.superseded.size(), first.name, first.used, first.ignored.front()),
         "loaders that take every file refuse such a folder or load either copy: remove the stale copies"});
  }
  if (!headers.unindexed_tensors.empty()) {
    findings.push_back(
        {FindingLevel::kWarning, "unindexed_tensors",
         fmt::format("{} tensors are in no entry of the index ('{}' is one): loaders that follow it do not "
                     "see them",
                     headers.unindexed_tensors.size(), headers.unindexed_tensors.front()),
         rebuild});
  }
  if (!headers.unread_files.empty()) {
    findings.push_back(
        {FindingLevel::kNote, "files_not_read",
         fmt::format("{} files ('{}' is one) are the weights once more in another layout, and are not read",
                     headers.unread_files.size(), headers.unread_files.front()),
         ""});
  }
  for (const auto& [file, what] : headers.unreadable_files) {
    findings.push_back({FindingLevel::kWarning, "unreadable_file", "not in the index, and broken: " + what, ""});
  }
  return findings;
}

ScaleAgreement AgreementOf(const InspectReport& report) {
  ScaleAgreement agreement;
  const QuantizationDeclaration& declaration = report.declaration;
  const std::string dtype = declaration.KvDtype();
  agreement.declared = dtype.empty() ? "no quantized cache" : "a cache of " + dtype;
  if (!declaration.strategy.empty()) agreement.declared += ", strategy " + declaration.strategy;
  std::vector<FamilySummary> scales;
  std::copy_if(report.scales.begin(), report.scales.end(), std::back_inserter(scales),
               [](const FamilySummary& family) { return family.kind == KvScaleKind::kScale; });
  const MissingScales missing = MissingOf(scales, report.kv_layers);
  agreement.found = FoundText(report, missing);
  const auto add = [&agreement](const std::string& text) { agreement.disagreements.push_back(text); };
  if (dtype.empty()) {
    if (!scales.empty()) add("KV scales are there without a declaration");
    return agreement;
  }
  if (scales.empty()) {
    add("none of the scales are there");
    return agreement;
  }
  if (!missing.k.empty() || !missing.v.empty()) {
    std::set<int> layers(missing.k.begin(), missing.k.end());
    layers.insert(missing.v.begin(), missing.v.end());
    add("scales are missing in layers " + RangesText({layers.begin(), layers.end()}));
  }
  if (!declaration.scheme_faults.empty()) add("the declared cache is not one that engines run");
  for (const FamilySummary& family : scales) {
    if (family.unread > 0) add(fmt::format("{} scales cannot be read", family.unread));
    const bool odd = family.granularity == ScaleGranularity::kOther || family.granularity == ScaleGranularity::kMixed;
    if (odd) add("the scales are neither per tensor nor per head");
  }
  for (const FamilySummary& family : scales) {
    const bool heads = family.granularity == ScaleGranularity::kHead;
    const bool single = heads && family.heads == 1;  // [1, 1, 1]: both
    if (declaration.strategy.empty() || single || (declaration.strategy == "attn_head") == heads) continue;
    if (!heads && family.granularity != ScaleGranularity::kTensor) continue;
    add("kv_cache_scheme says strategy " + declaration.strategy + ", but the scales are " +
        std::string(GranularityName(family.granularity)));
    break;
  }
  return agreement;
}

CheckpointFindings WholeFindings(InspectReport* report) {
  CheckpointFindings findings;
  std::vector<const FamilySummary*> scales;
  for (const FamilySummary& family : report->scales) {
    if (family.kind == KvScaleKind::kScale) scales.push_back(&family);
  }
  report->divisor_of_values = DivisorOfValues(scales);
  report->agreement = AgreementOf(*report);
  AddAbsentScales(*report, &findings);
  AddOrphans(*report, &findings);
  AddAgreement(*report, &findings);
  AddExcluded(*report, &findings);
  AddSharedV(*report, &findings);
  AddFnuz(*report, &findings);
  AddConvention(report, &findings);
  return findings;
}

}  // namespace haypile
