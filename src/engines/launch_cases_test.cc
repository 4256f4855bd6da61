#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "engines/launch.h"
#include "engines/launch_rows.h"
#include "planner/model_catalogue.h"
#include "planner/model_config.h"

namespace haypile {
namespace {

std::string TextOr(const Json& row, const char* key, const char* otherwise) {
  return row.contains(key) ? row[key].get<std::string>() : std::string(otherwise);
}

// {"layers", "kv_heads", "head_dim"}, optionally "head_dim_v", "window", "states", "model_type": a model of one shape.
ModelGeometry ShapeOf(const Json& row) {
  ModelGeometry model;
  const int layers = row.value("layers", 4);
  for (int i = 0; i < layers; ++i) {
    LayerGeometry layer;
    layer.index = i;
    layer.kv_heads = row["kv_heads"];
    layer.head_dim_k = row["head_dim"];
    layer.head_dim_v = row.value("head_dim_v", layer.head_dim_k);
    if (row.contains("window") && i % 2 == 0) {
      layer.cache = CacheKind::kSlidingWindow;
      layer.window = row["window"];
    }
    if (row.contains("mla")) {
      layer.cache = CacheKind::kMla;
      layer.kv_lora_rank = 512;
      layer.rope_dim = 64;
    }
    if (row.contains("states") && i % 2 == 0) layer.cache = CacheKind::kStateSpace;
    model.layers.push_back(layer);
  }
  model.name = TextOr(row, "name", "MODEL");
  model.model_type = TextOr(row, "model_type", "llama");
  model.architecture = TextOr(row, "architecture", "");
  model.quantization_method = TextOr(row, "quantization", "");
  model.checkpoint_kv_dtype = TextOr(row, "checkpoint_kv", "");
  model.weights.name = TextOr(row, "weights", "bfloat16");
  model.attention_sinks = row.value("sinks", false);
  model.query_heads = row.value("query_heads", 32);
  return model;
}

struct LaunchCase {
  LaunchInput input;
  CheckpointScales checkpoint;
};

void SetScales(const Json& scales, LaunchCase& made) {
  made.checkpoint.files_read = true;
  made.checkpoint.folder = "folder";
  for (const Json& name : scales) {
    const auto parsed = ParseKvScaleName(name.get<std::string>());
    ASSERT_TRUE(parsed.has_value()) << name;
    made.checkpoint.families.insert(parsed->family);
    made.checkpoint.layers_with_scales.insert(parsed->place.layer);
    ++made.checkpoint.tensors;
  }
}

void MakeCase(const Json& row, LaunchCase& made) {
  LaunchInput& input = made.input;
  const Json& start = row["start"];
  input.engine = TextOr(start, "engine", "vllm");
  if (start.contains("version")) input.version = ParseEngineVersion(start["version"].get<std::string>()).value();
  if (start.contains("gpu")) input.gpu = LaunchGpu(start["gpu"].get<std::string>(), GpuCatalogue()).value();
  if (TextOr(start, "device", "gpu") == "cpu") input.device = DeviceKind::kCpu;
  input.kv_cache_dtype = TextOr(start, "dtype", "auto");
  input.backend = TextOr(start, "backend", "");
  input.flash_attention = TextOr(start, "flash_attention", "");
  input.tensor_parallel = start.value("tp", 1);
  input.speculative_method = TextOr(start, "speculative", "");
  input.speculative_tokens = start.value("speculative_tokens", 0);
  if (start.contains("prefix_caching")) input.prefix_caching = start["prefix_caching"].get<bool>();
  input.calculate_scales = start.value("calculate_scales", false);
  input.model_dtype = TextOr(start, "model_dtype", "");
  input.model =
      start.contains("model") ? CatalogueModel(start["model"].get<std::string>()).value() : ShapeOf(start["shape"]);
  if (start.contains("scales")) {
    SetScales(start["scales"], made);
    made.checkpoint.per_head = start.value("per_head", false);
    input.checkpoint = &made.checkpoint;
  }
  if (start.contains("key_bias")) {
    input.key_bias = KeyBias{static_cast<int>(input.model.layers.size()), start["key_bias"]["median"], {}};
    for (const Json& layer : start["key_bias"]["outliers"]) input.key_bias->outliers.push_back({layer[0], layer[1]});
  }
}

std::string AllText(const Finding& finding) {
  std::string text = finding.id + " " + SeverityName(finding.severity) + ": " + finding.what + " | " + finding.why;
  for (const LogLine& line : finding.evidence) text += " | " + line.text;
  for (const std::string& line : finding.type) text += " | " + line;
  return text + " | " + finding.check;
}

std::string AllText(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) text += AllText(finding) + "\n";
  return text;
}

void CheckCase(const Json& row) {
  SCOPED_TRACE(row["id"].get<std::string>());
  LaunchCase made;
  MakeCase(row, made);
  const LaunchPrediction prediction = PredictLaunch(made.input);
  const std::string all = AllText(prediction.findings);
  EXPECT_EQ(LaunchVerdictName(prediction.verdict), row["verdict"].get<std::string>()) << all;
  for (const Json& expected : row["expect"]) {  // [id, severity, a part of its text, ...]
    const bool found = std::any_of(prediction.findings.begin(), prediction.findings.end(), [&](const Finding& finding) {
      if (finding.id != expected[0].get<std::string>()) return false;
      if (SeverityName(finding.severity) != expected[1].get<std::string>()) return false;
      const std::string text = AllText(finding);
      return std::all_of(expected.begin() + 2, expected.end(),
                         [&](const Json& part) { return text.find(part.get<std::string>()) != std::string::npos; });
    });
    EXPECT_TRUE(found) << expected.dump() << "\n" << all;
  }
  for (const Json& absent : row.value("absent", Json::array())) {
    for (const Finding& finding : prediction.findings) EXPECT_NE(finding.id, absent.get<std::string>()) << all;
  }
  for (const auto& [key, value] : {std::pair("backend", prediction.backend), std::pair("storage", prediction.storage),
                                   std::pair("arithmetic", prediction.arithmetic)}) {
    if (row.contains(key)) {
      EXPECT_EQ(value, row[key].get<std::string>()) << key << "\n" << all;
    }
  }
  for (const Finding& finding : prediction.findings) {
    EXPECT_NE(AllText(finding).find("source: "), std::string::npos) << finding.id;
    EXPECT_EQ(AllText(finding).find('{'), AllText(finding).find("{dtype: ")) << AllText(finding);
    if (finding.severity >= Severity::kUnknown) {
      EXPECT_FALSE(finding.type.empty()) << finding.id;
    }
  }
}

TEST(LaunchCases, EachStartGivesTheDescribedOutcome) {
  const auto text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/launch_cases.jsonl");
  ASSERT_TRUE(text.ok());
  std::stringstream lines(*text);
  std::string line;
  int cases = 0;
  while (std::getline(lines, line)) {
    const auto row = ParseJson(line);
    ASSERT_TRUE(row.ok()) << line << ": " << row.error().message();
    CheckCase(*row);
    ++cases;
  }
  EXPECT_GE(cases, 60);
}

void CheckRows(std::span<const LaunchRow> rows) {
  for (const LaunchRow& row : rows) {
    SCOPED_TRACE(std::string(row.id) + ": " + std::string(row.what));
    EXPECT_TRUE(row.id.starts_with("launch."));
    EXPECT_TRUE(DeviceWordsAreKnown(row.devices));
    EXPECT_TRUE(VersionWordsAreKnown(row.versions));
    EXPECT_TRUE(HeadWordsAreKnown(row.heads));
    EXPECT_FALSE(row.what.empty() || row.why.empty() || row.type.empty() || row.check.empty() || row.source.empty());
    for (const std::string_view word : WordsOf(row.features)) {
      for (const std::string_view feature : FeaturesOf(word)) EXPECT_TRUE(IsLaunchFeature(feature)) << feature;
    }
    const auto engines = LaunchEngines();
    for (const std::string_view engine : WordsOf(row.engines)) {
      EXPECT_NE(std::find(engines.begin(), engines.end(), engine), engines.end()) << engine;
    }
  }
}

TEST(LaunchRows, CanBeReadAndHaveASource) {
  CheckRows(VllmLaunchRows());
  CheckRows(OtherLaunchRows());
  EXPECT_FALSE(IsLaunchFeature("window"));
}

// Nothing is called served without a row: what no row speaks of is not known.
TEST(LaunchCases, WithoutARowNothingIsServed) {
  LaunchInput input;
  input.model = CatalogueModel("llama-3.1-8b").value();
  input.gpu = GpuCatalogue().Find("H100").value();
  input.kv_cache_dtype = "fp6";
  for (const std::string& engine : LaunchEngines()) {
    input.engine = engine;
    const LaunchPrediction prediction = PredictLaunch(input);
    EXPECT_EQ(prediction.verdict, LaunchVerdict::kNotKnown) << engine;
    EXPECT_FALSE(prediction.findings.front().type.empty()) << engine;
  }
}

TEST(LaunchInput, DevicesByCapability) {
  const GpuCatalogue catalogue;
  EXPECT_EQ(LaunchGpu("sm90", catalogue)->sm, 90);
  EXPECT_EQ(LaunchGpu("sm_120", catalogue)->sm, 120);
  EXPECT_EQ(LaunchGpu("8.6", catalogue)->sm, 86);
  EXPECT_EQ(LaunchGpu("h100", catalogue)->name, "H100");
  for (const char* name : {"sm", "sm9000", "90", "gpu", "sm9x", ""}) {
    EXPECT_EQ(LaunchGpu(name, catalogue).error().code(), ErrorCode::kNotFound) << name;
  }
}

}  // namespace
}  // namespace haypile
