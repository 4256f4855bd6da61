#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "inspect/report.h"
#include "report/text_table.h"

namespace haypile {
namespace {

class Page {
 public:
  Page(int width, bool colour) : width_(width), colour_(colour) {}

  void Heading(const std::string& title) { text_ += "\n" + Toned(title, CellTone::kStrong, colour_) + "\n"; }

  void Line(const std::string& line, CellTone tone = CellTone::kPlain, int indent = 2) {
    const auto room = static_cast<size_t>(std::max(width_ - indent - 2, 20));
    bool first = true;
    for (const std::string& part : WrapText(WithoutControls(line), room)) {
      text_ += std::string(static_cast<size_t>(indent + (first ? 0 : 2)), ' ') + Toned(part, tone, colour_) + "\n";
      first = false;
    }
  }

  void Table(const TextTable& table) { text_ += table.Render(width_, colour_, 2); }
  std::string Take() && { return std::move(text_); }

 private:
  int width_;
  bool colour_;
  std::string text_;
};

std::string LayerText(const LayerGeometry& layer) {
  switch (layer.cache) {
    case CacheKind::kNone:
      return layer.kv_shared_with >= 0 ? "reads another layer's cache" : "no cache";
    case CacheKind::kStateSpace:
      return CacheKindName(layer.cache) + ", no KV cache";
    case CacheKind::kMla:
      return fmt::format("{}, one row of {} + {}", CacheKindName(layer.cache), layer.kv_lora_rank, layer.rope_dim);
    default:
      break;
  }
  std::string text = fmt::format("{}, {} KV heads of {}", CacheKindName(layer.cache), layer.kv_heads, layer.head_dim_k);
  if (layer.head_dim_v != layer.head_dim_k) text += fmt::format(" (V {})", layer.head_dim_v);
  if (layer.window > 0) text += fmt::format(", window {}", layer.window);
  return text;
}

void WriteModel(const InspectReport& report, Page* page) {
  page->Heading("Checkpoint");
  page->Line(report.name + " (" + report.container + ")");
  if (!report.architecture.empty()) page->Line("architecture: " + report.architecture);
  if (report.geometry) {
    std::vector<std::pair<std::string, std::vector<int>>> kinds;
    std::map<std::string, size_t> position;
    for (const LayerGeometry& layer : report.geometry->layers) {
      const auto [found, fresh] = position.emplace(LayerText(layer), kinds.size());
      if (fresh) kinds.push_back({found->first, {}});
      kinds[found->second].second.push_back(layer.index);
    }
    for (const auto& [text, layers] : kinds) page->Line("layers " + RangesText(layers) + ": " + text);
  }
  std::vector<int> kv;
  for (const KvLayerNeed& need : report.kv_layers) kv.push_back(need.layer);
  page->Line(!report.geometry && kv.empty() ? "layers with a KV cache: not known"
                                            : fmt::format("layers with a KV cache: {}{}", kv.size(),
                                                          kv.empty() ? "" : " (" + RangesText(kv) + ")"));
  for (const DtypeShare& share : report.dtypes) {
    page->Line(
        fmt::format("{}: {} tensors, {:.3f} GB", share.dtype, share.tensors, static_cast<double>(share.bytes) / 1e9));
  }
  if (!report.headers.files.empty()) {
    page->Line(fmt::format("{} files, {} tensors; {} bytes read", report.headers.files.size(),
                           report.headers.tensors.size(), report.read.bytes));
  }
  if (!report.written_index.empty()) {
    page->Line(fmt::format("wrote {}: {} tensors in {} files", report.written_index, report.headers.tensors.size(),
                           report.headers.files.size()));
  }
}

void WriteDeclaration(const QuantizationDeclaration& declaration, Page* page) {
  page->Heading("Quantization as declared");
  if (!declaration.in_config && !declaration.in_hf_config) {
    page->Line("none: config.json has no quantization_config, and there is no hf_quant_config.json");
    return;
  }
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  page->Line("method: " + shown(declaration.method) +
             (declaration.algorithm.empty() ? "" : ", algorithm " + declaration.algorithm));
  if (!declaration.producer.empty())
    page->Line("producer: " + declaration.producer + " " + declaration.producer_version);
  if (declaration.in_config) page->Line("KV cache by config.json: " + shown(declaration.kv_in_config));
  if (declaration.in_hf_config) page->Line("KV cache by hf_quant_config.json: " + shown(declaration.kv_in_hf_config));
  if (!declaration.scheme.empty()) page->Line("kv_cache_scheme: " + declaration.scheme);
  if (!declaration.excluded.empty()) {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(declaration.excluded.size(), 4); ++i) {
      names += (i == 0 ? "" : ", ") + declaration.excluded[i];
    }
    if (declaration.excluded.size() > 4) names += ", ...";
    page->Line(fmt::format("left unquantized ('{}'): {}", declaration.excluded_key, names));
  }
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void WriteScales(const InspectReport& report, Page* page) {
  page->Heading("KV scales");
  if (report.scales.empty()) {
    page->Line(report.container == "config" ? "not known: no safetensors file was read" : "none found");
    return;
  }
  TextTable table({{"name"},
                   {"tensors", Align::kRight},
                   {"dtype"},
                   {"granularity"},
                   {"shapes"},
                   {"side"},
                   {"values", Align::kRight},
                   {"smallest", Align::kRight},
                   {"median", Align::kRight},
                   {"largest", Align::kRight}});
  for (const FamilySummary& family : report.scales) {
    for (const auto& [side, values] : {std::pair("K", family.k), std::pair("V", family.v)}) {
      if (values.values == 0) continue;
      table.AddRow({std::string(KvScaleFamilyName(family.family)), std::to_string(family.tensors),
                    Joined(family.dtypes), std::string(GranularityName(family.granularity)), Joined(family.shapes),
                    side, std::to_string(values.values), fmt::format("{:.6g}", values.smallest),
                    fmt::format("{:.6g}", values.median), fmt::format("{:.6g}", values.largest)});
    }
  }
  if (!table.empty()) page->Table(table);
  for (const FamilySummary& family : report.scales) page->Line("e.g. " + family.example);
  if (report.convention.empty()) return;
  page->Line("written by " + report.exporter + ", as " + report.convention +
             (report.divisor_of_values.empty() ? " (by what is known of the exporter; the values do not tell)"
                                               : " (told by the values)"));
}

// "0: 0.5 0.25, 1: 0.125 0.0625": the values of one layer that each rank takes.
std::string SliceValuesText(const std::vector<double>& values, const std::vector<RankSlice>& slices) {
  constexpr size_t kMostShown = 16;
  std::string text;
  for (size_t i = 0; i < std::min(slices.size(), kMostShown); ++i) {
    text += fmt::format("{}{}:", i == 0 ? "" : ", ", slices[i].rank);
    for (int head = slices[i].first_head; head < slices[i].first_head + slices[i].heads; ++head) {
      if (head < static_cast<int>(values.size())) text += fmt::format(" {:.6g}", values[static_cast<size_t>(head)]);
    }
  }
  return slices.size() > kMostShown ? text + " ..." : text;
}

void WriteSideSlices(const char* side, const ScalesByLayer& values, int layer, const std::vector<RankSlice>& slices,
                     Page* page) {
  const auto found = values.find(layer);
  if (found == values.end() || slices.empty()) return;
  const std::vector<double>& of_layer = found->second;
  page->Line(fmt::format("layer {}, {}: {}", layer, side, SliceValuesText(of_layer, slices)), CellTone::kPlain, 4);
  std::string blind;
  for (size_t rank = 0; rank < std::min<size_t>(slices.size(), 8); ++rank) {
    if (rank < of_layer.size()) blind += fmt::format("{}{}: {:.6g}", rank == 0 ? "" : ", ", rank, of_layer[rank]);
  }
  page->Line("a loader with one value a layer that slices by rank takes instead " + blind, CellTone::kFaint, 4);
}

void WriteSlices(const InspectReport& report, const FamilySummary& family, Page* page) {
  if (family.granularity != ScaleGranularity::kHead) return;
  page->Heading(fmt::format("Heads that each tensor-parallel rank takes of {}", KvScaleFamilyName(family.family)));
  const std::map<int, int> counts = FirstLayerByHeads(family);
  for (const auto& [heads, layer] : counts) {
    if (counts.size() > 1) page->Line(fmt::format("layers with scales for {} heads, such as {}", heads, layer));
    for (const int ranks : RanksToShow(report, heads)) {
      const std::vector<RankSlice> slices = SlicesOf(heads, ranks);
      std::string line =
          fmt::format("TP {}: {}", ranks, slices.empty() ? "the heads do not divide" : SlicesText(slices));
      if (ranks > heads && !slices.empty()) line += " (each head on several ranks)";
      page->Line(line);
      if (report.tensor_parallel == 0) continue;
      WriteSideSlices("K", family.k_values, layer, slices, page);
      WriteSideSlices("V", family.v_values, layer, slices, page);
    }
  }
}

std::string ShareText(const RankShare& share, int ranks) {
  switch (share.split) {
    case HeadSplit::kWhole:
      return fmt::format("the latent row of {} is kept whole on every rank", share.head_dim_k);
    case HeadSplit::kNone:
      return fmt::format("{} KV heads do not divide among {} ranks", share.kv_heads, ranks);
    case HeadSplit::kCopied:
      return fmt::format("{} KV heads, each on {} ranks; ranks and heads {}", share.kv_heads, ranks / share.kv_heads,
                         SlicesText(share.slices));
    case HeadSplit::kDivided:
      break;
  }
  return fmt::format("{} of {} KV heads a rank; ranks and heads {}", share.slices.front().heads, share.kv_heads,
                     SlicesText(share.slices));
}

void WriteRanks(const InspectReport& report, Page* page) {
  if (report.tensor_parallel == 0) return;
  page->Heading(fmt::format("What each of {} tensor-parallel ranks gets", report.tensor_parallel));
  if (!report.geometry) {
    page->Line("not known: the KV geometry is not understood");
    return;
  }
  for (const RankShare& share : report.rank_shares) {
    page->Line("layers " + RangesText(share.layers) + ": " + ShareText(share, report.tensor_parallel));
    if (share.split == HeadSplit::kNone) continue;
    page->Line(fmt::format("a token in one such layer: {} bytes in BF16, {} in FP8, on each rank",
                           share.bytes_per_token_bf16, share.bytes_per_token_fp8),
               CellTone::kPlain, 4);
  }
  const bool per_tensor = std::any_of(report.scales.begin(), report.scales.end(), [](const FamilySummary& family) {
    return family.kind == KvScaleKind::kScale && family.granularity == ScaleGranularity::kTensor;
  });
  if (per_tensor) page->Line("scales per tensor: every rank takes a layer's one value");
  for (const RankOutcome& outcome : report.rank_outcomes) {
    page->Line(fmt::format("{}: {}: {} [{}]", outcome.engine, outcome.outcome, outcome.why, outcome.source),
               outcome.outcome == "refused" ? CellTone::kBad : CellTone::kPlain);
  }
}

void WriteFindings(const InspectReport& report, Page* page) {
  page->Heading("Findings");
  if (report.findings.empty()) page->Line("nothing odd");
  for (const FindingLevel level : {FindingLevel::kError, FindingLevel::kWarning, FindingLevel::kNote}) {
    for (const CheckpointFinding& finding : report.findings) {
      if (finding.level != level) continue;
      const bool error = level == FindingLevel::kError;
      const bool note = level == FindingLevel::kNote;
      page->Line((error  ? "ERROR "
                  : note ? "note "
                         : "WARNING ") +
                     finding.text,
                 error  ? CellTone::kBad
                 : note ? CellTone::kPlain
                        : CellTone::kWarn);
      if (!finding.advice.empty()) page->Line("-> " + finding.advice, CellTone::kPlain, 4);
    }
  }
}

void WriteEngines(const InspectReport& report, Page* page) {
  page->Heading("What engines do with a quantized cache of it");
  for (const EngineOutcome& outcome : report.engines) {
    const EngineRule& rule = *outcome.rule;
    const bool bad = rule.outcome == ScaleOutcome::kDropped || rule.outcome == ScaleOutcome::kRefused ||
                     rule.outcome == ScaleOutcome::kWrong;
    page->Line(fmt::format("{} {}{}: {}", rule.engine, rule.versions,
                           outcome.family.empty() ? "" : ", " + outcome.family, ScaleOutcomeName(rule.outcome)),
               bad ? CellTone::kBad : CellTone::kPlain);
    page->Line(fmt::format("{} [{}]", rule.why, rule.source), CellTone::kFaint, 4);
  }
}

}  // namespace

std::string InspectText(const InspectReport& report, int width, bool colour) {
  Page page(width, colour);
  WriteModel(report, &page);
  WriteDeclaration(report.declaration, &page);
  WriteScales(report, &page);
  WriteRanks(report, &page);
  for (const FamilySummary& family : report.scales) WriteSlices(report, family, &page);
  WriteFindings(report, &page);
  WriteEngines(report, &page);
  return std::move(page).Take();
}

}  // namespace haypile
