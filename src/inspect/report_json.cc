#include <algorithm>

#include "base/json.h"
#include "inspect/report.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

std::string LevelName(FindingLevel level) {
  return level == FindingLevel::kNote ? "note" : level == FindingLevel::kWarning ? "warning" : "error";
}

// Bytes of one token in one layer; MLA keeps one row and no V.
int64_t TokenBytes(const LayerGeometry& layer, KvFormat format) {
  if (layer.cache == CacheKind::kNone || layer.cache == CacheKind::kStateSpace) return 0;
  if (layer.cache == CacheKind::kMla) return RowBytes(format, layer.kv_lora_rank + layer.rope_dim);
  return layer.kv_heads * (RowBytes(format, layer.head_dim_k) + RowBytes(format, layer.head_dim_v));
}

Json LayerJson(const LayerGeometry& layer) {
  return Json{{"layer", layer.index},
              {"cache", CacheKindName(layer.cache)},
              {"kv_heads", layer.kv_heads},
              {"head_dim_k", layer.head_dim_k},
              {"head_dim_v", layer.head_dim_v},
              {"window", layer.window},
              {"kv_lora_rank", layer.kv_lora_rank},
              {"rope_dim", layer.rope_dim},
              {"kv_shared_with", layer.kv_shared_with},
              {"bytes_per_token_bf16", TokenBytes(layer, KvFormat::kBf16)},
              {"bytes_per_token_fp8", TokenBytes(layer, KvFormat::kFp8E4m3)}};
}

Json ModelJson(const InspectReport& report) {
  Json model = {
      {"name", report.name}, {"container", report.container}, {"geometry_known", report.geometry.has_value()}};
  model["architecture"] = report.architecture;
  model["model_type"] = report.model_type;
  model["layers"] = Json::array();
  if (report.geometry) {
    for (const LayerGeometry& layer : report.geometry->layers) model["layers"].push_back(LayerJson(layer));
  }
  model["kv_layers"] = Json::array();
  for (const KvLayerNeed& need : report.kv_layers) model["kv_layers"].push_back(need.layer);
  return model;
}

Json FilesJson(const InspectReport& report) {
  const CheckpointHeaders& headers = report.headers;
  Json superseded = Json::array();
  for (const SupersededTensor& tensor : headers.superseded) {
    superseded.push_back({{"tensor", tensor.name}, {"used", tensor.used}, {"ignored", tensor.ignored}});
  }
  return Json{{"read", headers.files.size()},
              {"tensors", headers.tensors.size()},
              {"index", headers.has_index},
              {"index_stale", headers.stale_index},
              {"indexed_files", headers.indexed_files.size()},
              {"indexed_tensors", headers.indexed_tensors},
              {"missing", headers.missing_files},
              {"unindexed", headers.unindexed_files},
              {"not_read", headers.unread_files},
              {"superseded", superseded},
              {"index_written", report.written_index},
              {"bytes_read", report.read.bytes}};
}

Json DeclarationJson(const QuantizationDeclaration& declaration) {
  Json faults = Json::array();
  for (const SchemeFault& fault : declaration.scheme_faults) {
    faults.push_back({{"field", fault.field}, {"value", fault.value}, {"expected", fault.expected}});
  }
  return Json{{"quantization_config", declaration.in_config},
              {"hf_quant_config", declaration.in_hf_config},
              {"method", declaration.method},
              {"algorithm", declaration.algorithm},
              {"producer", declaration.producer},
              {"producer_version", declaration.producer_version},
              {"kv_cache_dtype_config", declaration.kv_in_config},
              {"kv_cache_dtype_hf_quant_config", declaration.kv_in_hf_config},
              {"kv_cache_dtype_conflict", declaration.kv_conflict},
              {"kv_cache_scheme", declaration.scheme},
              {"kv_cache_scheme_faults", faults},
              {"kv_only", declaration.kv_only},
              {"excluded_key", declaration.excluded_key},
              {"excluded_modules", declaration.excluded},
              {"excluded_modules_conflict", declaration.excluded_conflict}};
}

Json StatisticsJson(const ScaleStatistics& values) {
  return Json{{"values", values.values},       {"smallest", values.smallest},     {"median", values.median},
              {"largest", values.largest},     {"distinct", values.distinct},     {"zeros", values.zeros},
              {"negatives", values.negatives}, {"not_finite", values.not_finite}, {"ones", values.ones}};
}

// The values that a slice takes of one layer's scales.
Json SliceValues(const ScalesByLayer& values, int layer, const RankSlice& slice) {
  Json taken = Json::array();
  const auto found = values.find(layer);
  if (found == values.end()) return taken;
  const std::vector<double>& of_layer = found->second;
  for (int head = slice.first_head; head < slice.first_head + slice.heads; ++head) {
    if (head < static_cast<int>(of_layer.size())) taken.push_back(of_layer[static_cast<size_t>(head)]);
  }
  return taken;
}

// Heads of each rank, and the values of the first layer with so many heads that go with them.
Json SlicesJson(const InspectReport& report, const FamilySummary& family) {
  Json result = Json::array();
  if (family.granularity != ScaleGranularity::kHead) return result;
  for (const auto& [heads, layer] : FirstLayerByHeads(family)) {
    for (const int ranks : RanksToShow(report, heads)) {
      Json slices = Json::array();
      for (const RankSlice& slice : SlicesOf(heads, ranks)) {
        slices.push_back({{"rank", slice.rank},
                          {"first_head", slice.first_head},
                          {"heads", slice.heads},
                          {"k", SliceValues(family.k_values, layer, slice)},
                          {"v", SliceValues(family.v_values, layer, slice)}});
      }
      result.push_back({{"tensor_parallel", ranks}, {"kv_heads", heads}, {"layer", layer}, {"slices", slices}});
    }
  }
  return result;
}

std::string KindName(KvScaleKind kind) {
  switch (kind) {
    case KvScaleKind::kScale:
      return "scale";
    case KvScaleKind::kAmax:
      return "amax";
    case KvScaleKind::kZeroPoint:
      return "zero_point";
    case KvScaleKind::kBias:
      break;
  }
  return "bias";
}

Json FamilyJson(const InspectReport& report, const FamilySummary& family) {
  return Json{{"family", KvScaleFamilyName(family.family)},
              {"kind", KindName(family.kind)},
              {"example", family.example},
              {"tensors", family.tensors},
              {"dtypes", family.dtypes},
              {"shapes", family.shapes},
              {"granularity", GranularityName(family.granularity)},
              {"k_layers", family.k_layers},
              {"v_layers", family.v_layers},
              {"missing_k_layers", family.missing_k_layers},
              {"missing_v_layers", family.missing_v_layers},
              {"k", StatisticsJson(family.k)},
              {"v", StatisticsJson(family.v)},
              {"slices", SlicesJson(report, family)}};
}

Json RanksJson(const InspectReport& report) {
  if (report.tensor_parallel == 0) return nullptr;
  Json shares = Json::array(), engines = Json::array();
  for (const RankShare& share : report.rank_shares) {
    Json slices = Json::array();
    for (const RankSlice& slice : share.slices) {
      slices.push_back({{"rank", slice.rank}, {"first_head", slice.first_head}, {"heads", slice.heads}});
    }
    shares.push_back({{"layers", share.layers},
                      {"kv_heads", share.kv_heads},
                      {"head_dim_k", share.head_dim_k},
                      {"head_dim_v", share.head_dim_v},
                      {"split", HeadSplitName(share.split)},
                      {"slices", slices},
                      {"bytes_per_token_bf16", share.bytes_per_token_bf16},
                      {"bytes_per_token_fp8", share.bytes_per_token_fp8}});
  }
  for (const RankOutcome& outcome : report.rank_outcomes) {
    engines.push_back(
        {{"engine", outcome.engine}, {"outcome", outcome.outcome}, {"why", outcome.why}, {"source", outcome.source}});
  }
  return Json{{"ranks", report.tensor_parallel}, {"shares", shares}, {"engines", engines}};
}

Json FindingJson(const CheckpointFinding& finding) {
  return Json{{"level", LevelName(finding.level)},
              {"code", finding.code},
              {"text", finding.text},
              {"advice", finding.advice},
              {"layers", finding.layers}};
}

}  // namespace

Json ToJson(const InspectReport& report, const std::string& tool_version) {
  Json json = {{"schema", "haypile.inspect/1"}, {"tool_version", tool_version}};
  json["model"] = ModelJson(report);
  json["files"] = FilesJson(report);
  json["dtypes"] = Json::array();
  for (const DtypeShare& share : report.dtypes) {
    json["dtypes"].push_back({{"dtype", share.dtype}, {"tensors", share.tensors}, {"bytes", share.bytes}});
  }
  json["quantization"] = DeclarationJson(report.declaration);
  json["kv_scales"] = Json::array();
  for (const FamilySummary& family : report.scales) json["kv_scales"].push_back(FamilyJson(report, family));
  json["exporter"] = report.exporter;
  json["convention"] = report.convention;
  json["convention_by_values"] = report.divisor_of_values;
  json["agreement"] = {{"declared", report.agreement.declared},
                       {"found", report.agreement.found},
                       {"agree", report.agreement.disagreements.empty()},
                       {"disagreements", report.agreement.disagreements}};
  json["findings"] = Json::array();
  for (const CheckpointFinding& finding : report.findings) json["findings"].push_back(FindingJson(finding));
  json["engines"] = Json::array();
  for (const EngineOutcome& outcome : report.engines) {
    json["engines"].push_back({{"engine", outcome.rule->engine},
                               {"versions", outcome.rule->versions},
                               {"family", outcome.family},
                               {"outcome", ScaleOutcomeName(outcome.rule->outcome)},
                               {"why", outcome.rule->why},
                               {"source", outcome.rule->source}});
  }
  json["tensor_parallel"] = RanksJson(report);
  return json;
}

}  // namespace haypile
