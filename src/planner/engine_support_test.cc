#include "planner/engine_support.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

ModelGeometry Dense(int head_dim) {
  ModelGeometry model;
  LayerGeometry layer;
  layer.kv_heads = 8;
  layer.head_dim_k = layer.head_dim_v = head_dim;
  model.layers = {layer};
  return model;
}

ModelGeometry Mla() {
  ModelGeometry model;
  LayerGeometry layer;
  layer.cache = CacheKind::kMla;
  layer.kv_lora_rank = 512;
  layer.rope_dim = 64;
  model.layers = {layer};
  return model;
}

Served On(EngineKind engine, const char* dtype, const char* gpu, const ModelGeometry& model) {
  const DtypeSupport support = SupportOf(engine, dtype, DeviceKind::kGpu, *GpuCatalogue().Find(gpu), model);
  EXPECT_FALSE(support.why.empty());
  return support.served;
}

TEST(EngineSupport, VllmNvfp4OnlyOnSm10x) {
  for (const char* gpu : {"B200", "GB200", "B300"}) {
    EXPECT_EQ(On(EngineKind::kVllm, "nvfp4", gpu, Dense(128)), Served::kYes) << gpu;
  }
  for (const char* gpu : {"H200", "RTX 5090", "DGX Spark", "MI300X", "A100", "Thor"}) {
    EXPECT_EQ(On(EngineKind::kVllm, "nvfp4", gpu, Dense(128)), Served::kNo) << gpu;
  }
  EXPECT_EQ(On(EngineKind::kVllm, "nvfp4", "B200", Dense(96)), Served::kNo);
  EXPECT_EQ(On(EngineKind::kVllm, "nvfp4", "B200", Mla()), Served::kNo);
}

TEST(EngineSupport, VllmFp8) {
  EXPECT_EQ(On(EngineKind::kVllm, "fp8", "RTX 3090", Dense(128)), Served::kYes);  // FlashInfer
  EXPECT_EQ(On(EngineKind::kVllm, "fp8", "RTX 3090", Dense(96)), Served::kNo);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8", "L4", Dense(96)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8", "T4", Dense(128)), Served::kNo);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8", "MI300X", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8", "H100", Mla()), Served::kYes);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8_per_token_head", "A100", Dense(128)), Served::kNo);
  EXPECT_EQ(On(EngineKind::kVllm, "int8_per_token_head", "A100", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8_inc", "Gaudi3", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kVllm, "fp8_inc", "H100", Dense(128)), Served::kNo);
}

TEST(EngineSupport, CpuAndUnknownDevices) {
  EXPECT_EQ(SupportOf(EngineKind::kVllm, "fp8", DeviceKind::kCpu, {}, Dense(64)).served, Served::kYes);
  EXPECT_EQ(SupportOf(EngineKind::kVllm, "nvfp4", DeviceKind::kCpu, {}, Dense(64)).served, Served::kNo);
  EXPECT_EQ(SupportOf(EngineKind::kVllm, "nvfp4", DeviceKind::kGpu, {}, Dense(64)).served, Served::kUnknown);
  EXPECT_EQ(SupportOf(EngineKind::kVllm, "auto", DeviceKind::kGpu, {}, Dense(64)).served, Served::kYes);
  EXPECT_EQ(SupportOf(EngineKind::kHaypile, "nvfp4", DeviceKind::kCpu, {}, Dense(64)).served, Served::kYes);
}

TEST(EngineSupport, OtherEngines) {
  EXPECT_EQ(On(EngineKind::kSglang, "nvfp4", "B200", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kSglang, "nvfp4", "RTX PRO 6000", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kSglang, "nvfp4", "H100", Dense(128)), Served::kNo);
  EXPECT_EQ(On(EngineKind::kTrtllm, "nvfp4", "RTX 5090", Dense(128)), Served::kNo);
  EXPECT_EQ(On(EngineKind::kTrtllm, "fp8", "A100", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kLlamacpp, "q8_0/q4_0", "RTX 3090", Dense(128)), Served::kYes);
  EXPECT_EQ(On(EngineKind::kLlamacpp, "f16/nvfp4", "RTX 3090", Dense(128)), Served::kUnknown);
}

// Every default can be planned: it has a row, or is the engine's own.
TEST(EngineSupport, DefaultsAreKnown) {
  for (const EngineKind engine :
       {EngineKind::kVllm, EngineKind::kSglang, EngineKind::kTrtllm, EngineKind::kLlamacpp, EngineKind::kHaypile}) {
    const DeviceKind device = engine == EngineKind::kHaypile ? DeviceKind::kCpu : DeviceKind::kGpu;
    std::optional<GpuSpec> gpu;
    if (device == DeviceKind::kGpu) gpu = *GpuCatalogue().Find("B200");
    for (const std::string& dtype : DefaultDtypes(engine, device, Dense(128))) {
      const DtypeSupport support = SupportOf(engine, dtype, device, gpu, Dense(128));
      EXPECT_EQ(support.served, Served::kYes) << EngineName(engine) << " " << dtype;
      EXPECT_FALSE(support.source.empty());
    }
    EXPECT_EQ(SupportOf(engine, SixteenBitDtype(engine), device, gpu, Dense(128)).served, Served::kYes);
    EXPECT_EQ(SupportOf(engine, EightBitDtype(engine), device, gpu, Dense(128)).served, Served::kYes);
  }
}

}  // namespace
}  // namespace haypile
