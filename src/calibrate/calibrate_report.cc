#include "calibrate/calibrate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "report/number_text.h"
#include "report/text_table.h"

namespace haypile {
namespace {

constexpr int kBarWidth = 12;
constexpr double kBarDecades = 3;

std::string ScaleText(const std::vector<float>& scales) {
  const auto [low, high] = std::ranges::minmax_element(scales);
  if (*low == *high) return SignificantText(*low, 4);
  return SignificantText(*low, 3) + ".." + SignificantText(*high, 3);
}

float Amax(const SideCalibration& side) { return *std::ranges::max_element(side.head_amax); }

// What the bars show: the output's divergence where it was measured, else the error of K or V, whichever is larger.
double BarValue(const LayerCalibration& layer) {
  if (layer.k.mean_kl && layer.v.mean_kl) return std::max(*layer.k.mean_kl, *layer.v.mean_kl);
  return std::max(layer.k.error, layer.v.error);
}

// Full for the largest, shorter by a third for each power of ten below it.
std::string Bar(double value, double largest) {
  if (!(value > 0) || !(largest > 0)) return "";
  const double share = 1 + std::log10(value / largest) / kBarDecades;
  return std::string(static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarWidth)), '#');
}

TextTable LayerTable(const CalibrateResult& result) {
  std::vector<TableColumn> columns{{"layer", Align::kRight}};
  for (const char* title : {"K amax", "K scale", "K error", "K at 1.0", "V amax", "V scale", "V error", "V at 1.0"}) {
    columns.push_back({title, Align::kRight});
  }
  const bool output = result.output && !result.request.output_whole_only;
  if (output) {
    columns.push_back({"KL of K alone", Align::kRight});
    columns.push_back({"KL of V alone", Align::kRight});
  }
  columns.push_back({output ? "KL (log)" : "error (log)"});
  TextTable table(std::move(columns));
  double largest = 0;
  for (const LayerCalibration& layer : result.layers) largest = std::max(largest, BarValue(layer));
  for (size_t i = 0; i < result.layers.size(); ++i) {
    const LayerCalibration& layer = result.layers[i];
    std::vector<TableCell> cells{std::to_string(i)};
    for (const SideCalibration* side : {&layer.k, &layer.v}) {
      cells.emplace_back(SignificantText(Amax(*side), 4));
      cells.emplace_back(ScaleText(side->scales));
      cells.emplace_back(SignificantText(side->error, 2));
      cells.emplace_back(SignificantText(side->error_at_one, 2));
    }
    if (output) {
      cells.emplace_back(KlText(layer.k.mean_kl.value_or(0)));
      cells.emplace_back(KlText(layer.v.mean_kl.value_or(0)));
    }
    cells.emplace_back(Bar(BarValue(layer), largest));
    table.AddRow(std::move(cells));
  }
  return table;
}

TextTable MethodTable(const OutputCheck& output) {
  TextTable table({{"scales by"},
                   {"mean KL", Align::kRight},
                   {"less at 1.0", Align::kRight},
                   {"+-", Align::kRight},
                   {"NLL", Align::kRight}});
  table.AddRow({"bf16 cache", "", "", "", fmt::format("{:.5f}", output.mean_nll_bf16)});
  table.AddRow({"1.0", KlText(output.mean_kl_at_one), "", "", fmt::format("{:.5f}", output.mean_nll_at_one)});
  for (const MethodCheck& check : output.methods) {
    table.AddRow({NameOf(check.method), KlText(check.mean_kl), SignificantText(check.less_at_one, 2),
                  SignificantText(check.less_stderr, 2), fmt::format("{:.5f}", check.mean_nll)});
  }
  return table;
}

// Where amax last grew, of all layers: late means that more text would find larger values still.
int64_t LatestGrowth(const CalibrateResult& result) {
  int64_t latest = 0;
  for (const LayerCalibration& layer : result.layers) {
    latest = std::max({latest, layer.k.amax_token, layer.v.amax_token});
  }
  return latest;
}

int LayersGrowingLate(const CalibrateResult& result) {
  return static_cast<int>(std::ranges::count_if(result.layers, [](const LayerCalibration& layer) {
    return std::max(layer.k.amax_token, layer.v.amax_token) * 10 > layer.tokens * 9;
  }));
}

std::string SkipText(const CalibrateResult& result) {
  const std::vector<int> layers = result.LayersThatStandOut();
  if (layers.empty()) {
    return fmt::format("No layer is above {} times the median: none asks to be kept in bf16.\n", kOutlierFactor);
  }
  std::string list;
  for (const int layer : layers) list += fmt::format("{}{}", list.empty() ? "" : ",", layer);
  return fmt::format("Above {} times the median, worst first: --kv-cache-dtype-skip-layers {}\n", kOutlierFactor, list);
}

Json SideJson(const SideCalibration& side) {
  Json json{{"head_amax", side.head_amax},       {"scales", side.scales},
            {"amax_token", side.amax_token},     {"error", side.error},
            {"error_at_one", side.error_at_one}, {"error_shared", side.error_shared}};
  if (side.mean_kl) json["mean_kl"] = *side.mean_kl;
  return json;
}

}  // namespace

const char* NameOf(ScaleMethod method) {
  switch (method) {
    case ScaleMethod::kPercentile:
      return "percentile";
    case ScaleMethod::kMse:
      return "mse";
    case ScaleMethod::kPow2:
      return "pow2";
    case ScaleMethod::kAmax:
      break;
  }
  return "amax";
}

const char* NameOf(ScaleStrategy strategy) { return strategy == ScaleStrategy::kHead ? "head" : "tensor"; }

std::string CalibrateText(const CalibrateResult& result, int width, bool colour) {
  const ScaleRule& rule = result.request.rule;
  std::string text =
      fmt::format("Scales of {} for {}: {}{}, one a {}\n", InfoOf(rule.format).name, result.model, NameOf(rule.method),
                  rule.method == ScaleMethod::kPercentile ? fmt::format(" {}", rule.percentile) : "",
                  result.request.strategy == ScaleStrategy::kHead ? "KV head" : "layer");
  text += fmt::format("Seen in every layer: {} tokens of {} in {} sequences of up to {}{}\n", CountText(result.tokens),
                      result.text, result.segments, result.longest_segment,
                      result.tokens_left_out > 0 ? "; left out: " + CountText(result.tokens_left_out) : "");
  text += fmt::format("The largest magnitude grew last at token {}; in {} of {} layers it grew in the last tenth{}\n\n",
                      CountText(LatestGrowth(result)), LayersGrowingLate(result), result.layers.size(),
                      LayersGrowingLate(result) > 0 ? ": more text may find larger ones" : "");
  text += LayerTable(result).Render(width, colour);
  text += "\nerror: sum (x - x')^2 / sum x^2 of K or V with the scale, and with 1.0\n";
  text += SkipText(result);
  if (result.output) {
    const OutputCheck& output = *result.output;
    text += fmt::format("Whole cache, {} tokens{}, mean KL from bf16: {} with these scales, {} at 1.0 (noise {})\n",
                        output.tokens, output.held_out ? " that were not calibrated on" : "",
                        KlText(output.mean_kl_calibrated), KlText(output.mean_kl_at_one), KlText(output.mean_kl_noise));
    text += "\n" + MethodTable(output).Render(width, colour);
    text += "\nless at 1.0: mean KL minus that at 1.0, +- its standard error over tokens; below 0 is better than 1.0\n";
  }
  return text;
}

std::string SharedScaleLossText(const CalibrateResult& result) {
  double worst = 0;
  size_t layer = 0;
  for (size_t i = 0; i < result.layers.size(); ++i) {
    for (const SideCalibration* side : {&result.layers[i].k, &result.layers[i].v}) {
      const double ratio = side->error > 0 ? side->error_shared / side->error : 0;
      if (ratio <= worst) continue;
      worst = ratio;
      layer = i;
    }
  }
  if (result.layers.empty()) return "";
  const LayerCalibration& hurt = result.layers[layer];
  return fmt::format(
      "one scale for K and V of a layer, the larger: most is lost in layer {}, K error {} -> {}, V error {} -> {}",
      layer, SignificantText(hurt.k.error, 2), SignificantText(hurt.k.error_shared, 2),
      SignificantText(hurt.v.error, 2), SignificantText(hurt.v.error_shared, 2));
}

std::string CalibrateJsonText(const CalibrateResult& result) {
  const CalibrateRequest& request = result.request;
  Json json{{"schema", "haypile.calibrate/1"},
            {"tool_version", result.tool_version},
            {"model", result.model},
            {"format", InfoOf(request.rule.format).name},
            {"method", NameOf(request.rule.method)},
            {"strategy", NameOf(request.strategy)}};
  if (request.rule.method == ScaleMethod::kPercentile) json["percentile"] = request.rule.percentile;
  json["text"] = result.text;
  json["tokens"] = result.tokens;
  json["tokens_left_out"] = result.tokens_left_out;
  json["sequences"] = result.segments;
  json["longest_sequence"] = result.longest_segment;
  json["layers"] = Json::array();
  for (const LayerCalibration& layer : result.layers) {
    json["layers"].push_back({{"tokens", layer.tokens}, {"k", SideJson(layer.k)}, {"v", SideJson(layer.v)}});
  }
  json["layers_that_stand_out"] = result.LayersThatStandOut();
  if (result.output) {
    json["output"] = {{"tokens", result.output->tokens},
                      {"mean_kl_calibrated", result.output->mean_kl_calibrated},
                      {"mean_kl_at_one", result.output->mean_kl_at_one},
                      {"mean_kl_noise", result.output->mean_kl_noise},
                      {"mean_nll_bf16", result.output->mean_nll_bf16},
                      {"mean_nll_at_one", result.output->mean_nll_at_one},
                      {"held_out", result.output->held_out},
                      {"methods", Json::array()}};
    for (const MethodCheck& check : result.output->methods) {
      json["output"]["methods"].push_back({{"method", NameOf(check.method)},
                                           {"mean_kl", check.mean_kl},
                                           {"mean_nll", check.mean_nll},
                                           {"less_at_one", check.less_at_one},
                                           {"less_stderr", check.less_stderr}});
    }
  }
  return DumpJson(json) + "\n";
}

}  // namespace haypile
