#include "inspect/report.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "inspect/sample_checkpoint_test.h"
#include "report/schema_check_test.h"

namespace haypile {
namespace {

using inspect_samples::FileOf;
using inspect_samples::kCompressedTensorsFp8;
using inspect_samples::kModelOptFp8;
using inspect_samples::LlamaConfig;
using inspect_samples::SampleTensor;
using inspect_samples::ScalesOf;
using testing_files::Raw;
using testing_files::TemporaryFolder;

constexpr const char* kAttentionNames = "model.layers.{layer}.self_attn.{side}_scale";
constexpr const char* kProjectionNames = "model.layers.{layer}.self_attn.{side}_proj.{side}_scale";

// A checkpoint, and what its report must hold.
struct Kind {
  const char* name;
  std::string config;
  std::string hf_quant_config;
  std::vector<SampleTensor> tensors;
  size_t families;
  const char* finding;  // a code that must be among the findings; empty: none
};

std::string KvScheme(const std::string& scheme) {
  return R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": )" +
         scheme + "}";
}

const char* const kGemma4 = R"({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
  "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
  "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 1000, "max_position_embeddings": 4096,
  "torch_dtype": "bfloat16", "sliding_window": 512, "sliding_window_pattern": 2, "attention_k_eq_v": true})";

const char* const kJamba = R"({"architectures": ["JambaForCausalLM"], "model_type": "jamba", "num_hidden_layers": 8,
  "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
  "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "attn_layer_offset": 4, "attn_layer_period": 8,
  "expert_layer_offset": 1, "expert_layer_period": 2, "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 16,
  "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 32})";

std::vector<Kind> Kinds() {
  const std::vector<float> values = {0.031f, 0.042f, 0.027f};
  std::vector<SampleTensor> amax =
      ScalesOf("model.layers.{layer}.self_attn.{side}_bmm_quantizer._amax", 3, {12, 9, 14});
  std::vector<SampleTensor> fp8_weight = {{"model.layers.0.self_attn.k_proj.weight", "U8", {8, 8}},
                                          {"model.layers.0.self_attn.k_proj.weight_scale", "F32", {}, {0.5f}}};
  const std::string per_head =
      KvScheme(R"({"num_bits": 8, "type": "float", "strategy": "attn_head", "dynamic": false, "symmetric": true})");
  return {
      {"plain",
       LlamaConfig(3),
       "",
       {{"model.layers.0.self_attn.k_proj.weight", "BF16", {8, 8}}},
       0,
       "kv_scales_absent"},
      {"config alone", LlamaConfig(3), "", {}, 0, "no_safetensors"},
      {"compressed-tensors", LlamaConfig(3, kCompressedTensorsFp8), "", ScalesOf(kAttentionNames, 3, values, "BF16"), 1,
       "kv_scales_as_declared"},
      {"per head", LlamaConfig(3, per_head), "", ScalesOf(kAttentionNames, 3, values, "F32", {8, 1, 1}), 1,
       "kv_scales_per_head"},
      {"per head, other model", LlamaConfig(3, per_head), "", ScalesOf(kAttentionNames, 3, values, "F32", {16, 1, 1}),
       1, "kv_scale_heads_mismatch"},
      {"dynamic scheme", LlamaConfig(3, KvScheme(R"({"num_bits": 8, "type": "float", "dynamic": true})")), "",
       ScalesOf(kAttentionNames, 3, values), 1, "kv_cache_scheme_unsupported"},
      {"a named dtype", LlamaConfig(3, KvScheme("\"INT8\"")), "", ScalesOf(kAttentionNames, 3, values), 1,
       "kv_cache_scheme_unsupported"},
      {"ModelOpt", LlamaConfig(3, kModelOptFp8), "", ScalesOf(kProjectionNames, 3, values), 1, "kv_scales_as_declared"},
      {"two files disagree", LlamaConfig(3, kCompressedTensorsFp8),
       R"({"producer": {"name": "modelopt", "version": "0.44"}, "quantization": {"quant_algo": "FP8",
       "kv_cache_quant_algo": "NVFP4", "exclude_modules": ["lm_head", "x"]}})",
       ScalesOf(kProjectionNames, 3, values), 1, "kv_dtype_conflict"},
      {"scales without config", LlamaConfig(3), "", ScalesOf(kAttentionNames, 3, values), 1,
       "kv_scales_without_config"},
      {"weight scales", LlamaConfig(3, kModelOptFp8), "", fp8_weight, 0, "weight_scales_only"},
      {"ranges", LlamaConfig(3, kModelOptFp8), "", amax, 1, "kv_amax_not_scale"},
      {"not a number", LlamaConfig(2, kModelOptFp8), "", ScalesOf(kProjectionNames, 2, {NAN, INFINITY}), 1,
       "kv_scale_not_finite"},
      {"V is K", kGemma4, "", {{"model.layers.1.self_attn.k_proj.weight", "BF16", {8, 8}}}, 0, "v_shares_k"},
      {"hybrid", kJamba, "", ScalesOf(kAttentionNames, 8, values), 1, "kv_scales_of_layers_without_cache"},
      {"unknown architecture", R"({"architectures": ["NobodyKnowsForCausalLM"], "model_type": "nobody_knows"})", "",
       ScalesOf(kAttentionNames, 3, values), 1, "geometry_unknown"},
  };
}

void WriteKind(const TemporaryFolder& folder, const Kind& kind) {
  folder.Write("config.json", kind.config);
  if (!kind.hf_quant_config.empty()) folder.Write("hf_quant_config.json", kind.hf_quant_config);
  if (!kind.tensors.empty()) folder.Write("model.safetensors", FileOf(kind.tensors));
}

bool HasFinding(const InspectReport& report, const std::string& code) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&code](const CheckpointFinding& finding) { return finding.code == code; });
}

TEST(InspectReportTest, JsonOfEveryKindFitsTheSchema) {
  const Json schema = LoadSchema("haypile.inspect-1.schema.json");
  for (const Kind& kind : Kinds()) {
    const TemporaryFolder folder;
    WriteKind(folder, kind);
    auto report = InspectCheckpoint(folder.path());
    ASSERT_TRUE(report.ok()) << kind.name << ": " << report.error().message();
    for (const int ranks : {0, 1, 2, 3, 16}) {
      if (ranks > 0) AddRanks(ranks, &*report);
      const auto json = ParseJson(DumpJson(ToJson(*report, "0")));
      ASSERT_TRUE(json.ok()) << kind.name;
      EXPECT_EQ(SchemaErrors(schema, *json), std::vector<std::string>()) << kind.name << ", ranks " << ranks;
      EXPECT_EQ((*json)["kv_scales"].size(), kind.families) << kind.name;
      EXPECT_FALSE(InspectText(*report, 80, false).empty()) << kind.name;
    }
    EXPECT_TRUE(HasFinding(*report, kind.finding)) << kind.name << " lacks " << kind.finding;
  }
}

// What the process read by calls, by the kernel's own count; nothing where it is not told.
std::optional<uint64_t> BytesReadByProcess() {
  std::ifstream io("/proc/self/io");
  std::string key;
  uint64_t bytes = 0;
  if (!(io >> key >> bytes) || key != "rchar:") return std::nullopt;
  return bytes;
}

// A file of one large weight, a hole, and one scale behind it.
uint64_t WriteLargeShard(const TemporaryFolder& folder, int layer) {
  constexpr uint64_t kWeightBytes = uint64_t{1} << 30;
  const std::string prefix = "\"model.layers." + std::to_string(layer) + ".self_attn.";
  const std::string header = "{" + prefix + "k_proj.weight\":{\"dtype\":\"U8\",\"shape\":[" +
                             std::to_string(kWeightBytes) + "],\"data_offsets\":[0," + std::to_string(kWeightBytes) +
                             "]}," + prefix + "k_scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[" +
                             std::to_string(kWeightBytes) + "," + std::to_string(kWeightBytes + 4) + "]}}";
  const std::string path =
      folder.Write("s" + std::to_string(layer) + ".safetensors", Raw<uint64_t>(header.size()) + header);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(8 + header.size() + kWeightBytes));
  const std::string scale = Raw(0.25f);
  file.write(scale.data(), 4);
  return 8 + header.size() + 4;
}

// The count is held to the kernel's, so that a reader that does not count itself is found as well.
TEST(InspectReportTest, AThousandShardsOfOneTerabyteAreReadByHeadersAlone) {
  const TemporaryFolder folder;
  const std::string config = LlamaConfig(1000, kCompressedTensorsFp8);
  folder.Write("config.json", config);
  uint64_t expected = config.size();
  for (int layer = 0; layer < 1000; ++layer) expected += WriteLargeShard(folder, layer);
  const std::optional<uint64_t> before = BytesReadByProcess();
  const std::clock_t start = std::clock();
  auto report = InspectCheckpoint(folder.path());
  ASSERT_TRUE(report.ok()) << report.error().message();
  AddRanks(8, &*report);
  const std::string json = DumpJson(ToJson(*report, "0"));
  const std::string text = InspectText(*report, 120, false);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
  const std::optional<uint64_t> after = BytesReadByProcess();
  EXPECT_EQ(report->headers.files.size(), 1000u);
  EXPECT_EQ(report->read.bytes, expected);
  if (before && after) {
    EXPECT_GE(*after - *before, expected);
    EXPECT_LE(*after - *before, expected + 65536) << "read without being counted";
  }
  EXPECT_NE(json.find("\"bytes_read\": " + std::to_string(expected)), std::string::npos);
  EXPECT_NE(text.find("What each of 8 tensor-parallel ranks gets"), std::string::npos);
  for (const char* heading : {"Checkpoint", "KV scales", "Findings", "What engines do with a quantized cache of it"}) {
    EXPECT_NE(text.find(std::string("\n") + heading + "\n"), std::string::npos) << heading;
  }
}

TEST(InspectReportTest, AHundredThousandLayersEndInTime) {
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig(100000));
  std::string header = "{";
  for (int layer = 0; layer < 100000; layer += 2) {
    header += std::string(layer == 0 ? "" : ",") + "\"model.layers." + std::to_string(layer) +
              ".self_attn.k_scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}";
  }
  folder.Write("model.safetensors", testing_files::SafetensorsFile(header + "}", Raw(0.5f)));
  const std::clock_t start = std::clock();
  const auto report = InspectCheckpoint(folder.path());
  if (report.ok()) {
    EXPECT_LT(InspectText(*report, 120, false).size(), 100000u);
    EXPECT_FALSE(DumpJson(ToJson(*report, "0")).empty());
  } else {
    EXPECT_NE(report.error().message().find("num_hidden_layers"), std::string::npos) << report.error().message();
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5.0);
}

std::string ErrorOf(const TemporaryFolder& folder) {
  const auto report = InspectCheckpoint(folder.path());
  return report.ok() ? "" : report.error().message();
}

TEST(InspectReportTest, RefusesNamesThatAreNoUtf8) {
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig(1));
  folder.Write("model.safetensors", FileOf({{"model.\xff\xfe.weight", "U8", {1}}}));
  EXPECT_NE(ErrorOf(folder).find("UTF-8"), std::string::npos) << ErrorOf(folder);
  folder.Write("model.safetensors", FileOf({{"model.\xc3\xbc.weight", "U8", {1}}}));
  EXPECT_EQ(ErrorOf(folder), "");
  folder.Write("model.safetensors.index.json", "{\"weight_map\": {\"\xc3\": \"model.safetensors\"}}");
  EXPECT_NE(ErrorOf(folder).find("UTF-8"), std::string::npos) << ErrorOf(folder);
}

TEST(InspectReportTest, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig(1));
  ASSERT_EQ(mkfifo((folder.path() + "/model.safetensors").c_str(), 0600), 0);
  EXPECT_NE(ErrorOf(folder).find("not a regular file"), std::string::npos) << ErrorOf(folder);
}

TEST(InspectReportTest, PythonsInfinityInAConfigIsRead) {
  const TemporaryFolder folder;
  folder.Write("config.json", LlamaConfig(2, std::string(kModelOptFp8) + R"(, "time_step_limit": [0.0, Infinity],
    "note": "Infinity stays", "x": NaN)"));
  const auto report = InspectCheckpoint(folder.path());
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->declaration.KvDtype(), "fp8");
}

// Bytes that are changed, cut and doubled in each of the files: an error or a report, never a crash.
TEST(InspectReportTest, BrokenFilesEndInAnErrorOrAReport) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::string, std::string>> files = {
      {"config.json", LlamaConfig(3, kModelOptFp8)},
      {"hf_quant_config.json", R"({"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "FP8"}})"},
      {"model.safetensors.index.json",
       R"({"weight_map": {"model.layers.0.self_attn.k_proj.k_scale": "model.safetensors"}})"},
      {"model.safetensors", FileOf(ScalesOf(kProjectionNames, 3, {0.031f, 0.042f}))}};
  uint32_t random = 1;
  const auto next = [&random](size_t below) {
    random = random * 1664525u + 1013904223u;
    return static_cast<size_t>(random >> 8) % below;
  };
  size_t errors = 0;
  for (int round = 0; round < 400; ++round) {
    for (const auto& [name, content] : files) folder.Write(name, content);
    const auto& [name, content] = files[static_cast<size_t>(round) % files.size()];
    std::string broken = content;
    const size_t at = next(broken.size());
    switch (next(4)) {
      case 0:
        broken[at] = static_cast<char>(next(256));
        break;
      case 1:
        broken.resize(at);
        break;
      case 2:
        broken.insert(at, broken.substr(next(broken.size()), 1 + next(20)));
        break;
      default:
        broken.erase(at, 1 + next(8));
    }
    folder.Write(name, broken);
    const auto report = InspectCheckpoint(folder.path());
    errors += !report.ok();
    if (report.ok()) {
      EXPECT_FALSE(InspectText(*report, 80, false).empty());
    } else {
      EXPECT_NE(report.error().code(), ErrorCode::kInternal) << report.error().message();
    }
  }
  EXPECT_GT(errors, 50u);
  EXPECT_LT(errors, 400u);
}

}  // namespace
}  // namespace haypile
