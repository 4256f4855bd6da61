#include <fmt/format.h>

#include <algorithm>

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
    for (const LayerGeometry& layer : report.geometry->layers) {
      const std::string text = LayerText(layer);
      auto found = std::find_if(kinds.begin(), kinds.end(), [&text](const auto& kind) { return kind.first == text; });
      if (found == kinds.end()) found = kinds.insert(kinds.end(), {text, {}});
      found->second.push_back(layer.index);
    }
    for (const auto& [text, layers] : kinds) page->Line("layers " + RangesText(layers) + ": " + text);
  }
  std::vector<int> kv;
  for (const KvLayerNeed& need : report.kv_layers) kv.push_back(need.layer);
  page->Line(fmt::format("layers with a KV cache: {}{}", kv.size(), kv.empty() ? "" : " (" + RangesText(kv) + ")"));
  for (const DtypeShare& share : report.dtypes) {
    page->Line(
        fmt::format("{}: {} tensors, {:.3f} GB", share.dtype, share.tensors, static_cast<double>(share.bytes) / 1e9));
  }
  if (!report.headers.files.empty()) {
    page->Line(fmt::format("{} files, {} tensors; {} bytes read", report.headers.files.size(),
                           report.headers.tensors.size(), report.read.bytes));
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
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void WriteScales(const InspectReport& report, Page* page) {
  page->Heading("KV scales");
  if (report.scales.empty()) {
    page->Line("none found");
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
  if (!report.convention.empty()) page->Line("written by " + report.exporter + ", as " + report.convention);
}

void WriteSlices(const FamilySummary& family, Page* page) {
  if (family.granularity != ScaleGranularity::kHead) return;
  page->Heading("Heads that each tensor-parallel rank takes");
  for (int ranks = 2; ranks <= std::min(2 * family.heads, 16); ranks *= 2) {
    std::string line = fmt::format("TP {}:", ranks);
    const std::vector<RankSlice> slices = SlicesOf(family.heads, ranks);
    for (const RankSlice& slice : slices) {
      const int last = slice.first_head + slice.heads - 1;
      line += fmt::format(" {}:{}", slice.rank,
                          slice.heads == 1 ? std::to_string(last) : fmt::format("{}-{}", slice.first_head, last));
    }
    if (slices.empty()) line += " the heads do not divide";
    if (ranks > family.heads && !slices.empty()) line += " (each head on several ranks)";
    page->Line(line);
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
  for (const FamilySummary& family : report.scales) WriteSlices(family, &page);
  WriteFindings(report, &page);
  WriteEngines(report, &page);
  return std::move(page).Take();
}

}  // namespace haypile
