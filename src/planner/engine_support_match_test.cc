#include "planner/engine_support_match.h"

#include <gtest/gtest.h>

#include "planner/engine_support_case.h"
#include "planner/vllm_backends.h"

namespace haypile {
namespace {

std::optional<GpuSpec> Gpu(const char* name) { return GpuCatalogue().Find(name).value(); }
Match On(const char* words, const char* gpu) { return DeviceMatches(words, DeviceKind::kGpu, Gpu(gpu)); }

TEST(EngineSupportMatch, Devices) {
  EXPECT_EQ(On("sm80+", "H100"), Match::kYes);
  EXPECT_EQ(On("sm89+", "A100"), Match::kNo);
  EXPECT_EQ(On("sm10x", "B200"), Match::kYes);
  EXPECT_EQ(On("sm10x", "RTX-5090"), Match::kNo);
  EXPECT_EQ(On("sm80-88", "A10"), Match::kYes);
  EXPECT_EQ(On("sm80-88", "L4"), Match::kNo);
  EXPECT_EQ(On("sm100 sm103", "B300"), Match::kYes);
  EXPECT_EQ(On("sm70+ amd", "MI300X"), Match::kYes);
  EXPECT_EQ(On("sm70+", "MI300X"), Match::kNo);
  EXPECT_EQ(On("gfx942", "MI300X"), Match::kYes);
  EXPECT_EQ(On("gfx942", "MI350X"), Match::kNo);
  EXPECT_EQ(On("cpu", "H100"), Match::kNo);
  EXPECT_EQ(DeviceMatches("cpu sm80+", DeviceKind::kCpu, {}), Match::kYes);
  EXPECT_EQ(DeviceMatches("gpu", DeviceKind::kCpu, {}), Match::kNo);
  EXPECT_EQ(DeviceMatches("sm80+", DeviceKind::kGpu, {}), Match::kUnknown);
  EXPECT_EQ(DeviceMatches("any", DeviceKind::kGpu, {}), Match::kYes);
  EXPECT_EQ(DeviceMatches("cpu", DeviceKind::kGpu, {}), Match::kNo);
}

TEST(EngineSupportMatch, Versions) {
  const auto matches = [](const char* words, const char* version) {
    return VersionMatches(words, ParseEngineVersion(version).value());
  };
  EXPECT_TRUE(matches("", "0.1.0"));
  EXPECT_TRUE(matches("0.20+", "0.20.0"));
  EXPECT_FALSE(matches("0.20+", "0.19.9"));
  EXPECT_TRUE(matches("..0.18", "0.18.3"));
  EXPECT_FALSE(matches("..0.18", "0.19.0"));
  EXPECT_TRUE(matches("0.19..0.22", "0.22.1"));
  EXPECT_FALSE(matches("0.19..0.22", "0.23.0"));
  EXPECT_TRUE(matches("0.27.1", "0.27.1"));
  EXPECT_FALSE(matches("0.27.1", "0.27.2"));
  EXPECT_TRUE(matches("..0.10 0.25.1+", "1.0"));
}

TEST(EngineSupportMatch, Heads) {
  EXPECT_TRUE(HeadsMatch("%8 <=256", {64, 256}));
  EXPECT_FALSE(HeadsMatch("%8 <=256", {64, 512}));
  EXPECT_FALSE(HeadsMatch("64,128", {64, 96}));
  EXPECT_TRUE(HeadsMatch(">=32 pow2", {128}));
  EXPECT_FALSE(HeadsMatch("pow2", {96}));
  EXPECT_EQ(HeadWith("!pow2", {64, 80}), 80);
  EXPECT_EQ(HeadWith("!%32", {64, 80}), 80);
  EXPECT_EQ(HeadWith("256", {64, 128}), std::nullopt);
}

TEST(EngineSupportRows, CanBeReadAndHaveASource) {
  for (const SupportRow& row : SupportRows()) {
    SCOPED_TRACE(std::string(row.backend) + " " + std::string(row.dtypes));
    EXPECT_TRUE(DeviceWordsAreKnown(row.devices));
    EXPECT_TRUE(VersionWordsAreKnown(row.versions));
    EXPECT_TRUE(HeadWordsAreKnown(row.heads));
    EXPECT_FALSE(row.dtypes.empty());
    EXPECT_FALSE(row.source.empty());
    for (const std::string_view column : {row.windows, row.sinks, row.drafts}) {
      EXPECT_TRUE(column == "yes" || column == "no" || column == "?") << column;
    }
    for (const std::string_view layout : WordsOf(row.layouts)) {
      EXPECT_TRUE(layout == "heads" || layout == "mla" || layout == "sparse") << layout;
    }
  }
  EXPECT_FALSE(DeviceWordsAreKnown("sm"));
  EXPECT_FALSE(DeviceWordsAreKnown("h100"));
  EXPECT_FALSE(VersionWordsAreKnown("v0.1"));
  EXPECT_FALSE(HeadWordsAreKnown("even"));
}

ModelGeometry Model(const char* layout, int head_dim) {
  ModelGeometry model;
  LayerGeometry layer;
  layer.kv_heads = 8;
  layer.head_dim_k = layer.head_dim_v = head_dim;
  if (std::string(layout) != "heads") {
    layer.cache = CacheKind::kMla;
    layer.kv_lora_rank = 512;
    layer.rope_dim = 64;
    layer.index_head_dim = std::string(layout) == "sparse" ? 128 : 0;
  }
  model.layers = {layer};
  model.query_heads = 32;
  return model;
}

// Backends of the matrix that take `dtype` there.
std::set<std::string> BackendsFor(const ModelGeometry& model, const char* gpu, const char* dtype,
                                  const EngineVersion& version) {
  const SupportCase start{EngineKind::kVllm, version, DeviceKind::kGpu, Gpu(gpu), dtype, TraitsOf(model)};
  std::set<std::string> backends;
  for (const SupportRow& row : VllmSupportRows()) {
    if (row.named_only || !HasWord(row.dtypes, dtype) || AnswerOf(row, start).match == Match::kNo) continue;
    backends.insert(std::string(row.backend));
  }
  return backends;
}

void HoldToThePlanner(const ModelGeometry& model, const char* gpu, const char* dtype) {
  PlanRequest request;
  request.gpu_sm = Gpu(gpu)->sm;
  request.version = NewestKnownVersion(EngineKind::kVllm);
  const VllmBackendChoice choice =
      ChooseVllmBackend(model, request, ParseVllmKvDtype(dtype).value(), VllmRulesOf(request.version));
  const std::set<std::string> backends = BackendsFor(model, gpu, dtype, request.version);
  EXPECT_EQ(choice.refusal.empty(), !backends.empty()) << choice.refusal;
  if (choice.refusal.empty()) {
    EXPECT_TRUE(backends.contains(choice.backend.name)) << choice.backend.name;
  }
}

// The matrix and the planner's choice of a backend (vllm_backends.cc) are two readings of the same source.
TEST(EngineSupportRows, AgreeWithThePlannersChoice) {
  for (const char* gpu : {"T4", "A100", "A10", "L4", "H100", "B200", "RTX-5090"}) {
    for (const char* dtype : {"fp8", "fp8_e5m2", "nvfp4", "int8_per_token_head", "turboquant_4bit_nc"}) {
      for (const int head_dim : {64, 96, 128, 256}) {
        SCOPED_TRACE(std::string(gpu) + " " + dtype + " " + std::to_string(head_dim));
        HoldToThePlanner(Model("heads", head_dim), gpu, dtype);
      }
    }
    for (const char* layout : {"mla", "sparse"}) {
      for (const char* dtype : {"fp8", "nvfp4", "turboquant_4bit_nc"}) {
        // Selection takes TRITON_MLA on any device; below 8.9 its kernels cannot convert E4M3, and the first request
        // ends.
        if (Gpu(gpu)->sm < 89 && std::string(dtype) == "fp8" && std::string(layout) == "mla") continue;
        SCOPED_TRACE(std::string(gpu) + " " + dtype + " " + layout);
        HoldToThePlanner(Model(layout, 128), gpu, dtype);
      }
    }
  }
}

}  // namespace
}  // namespace haypile
