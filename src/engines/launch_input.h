#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engines/checkpoint_scales.h"
#include "engines/key_bias.h"
#include "planner/engine_support_case.h"
#include "planner/gpu_catalogue.h"
#include "planner/model_geometry.h"

namespace haypile {

// A start that has not happened yet.
struct LaunchInput {
  std::string engine = "vllm";                // of LaunchEngines()
  std::optional<EngineVersion> version = {};  // empty: the newest known
  DeviceKind device = DeviceKind::kGpu;
  std::optional<GpuSpec> gpu = {};      // empty: the CPU, or not named
  std::string kv_cache_dtype = "auto";  // the engine's spelling; llama.cpp: one type or K/V
  std::string backend = {};             // empty or "auto": the engine's choice
  std::string flash_attention = {};     // llama.cpp: "on", "off", "auto" or empty
  int tensor_parallel = 1;
  int decode_context_parallel = 1;
  std::string speculative_method = {};  // empty: none
  int speculative_tokens = 0;           // 0: not said
  std::optional<bool> prefix_caching = {};
  bool eager = false;             // no CUDA graphs
  bool calculate_scales = false;  // vLLM: scales from the first batch
  ModelGeometry model = {};
  std::string model_dtype = {};                  // "bfloat16", "float16"; empty: not known
  const CheckpointScales* checkpoint = nullptr;  // null: the model's files are not here
  std::optional<KeyBias> key_bias = {};          // empty: the weights were not read
};

// The engines that rows speak of: those of plans, "transformers" and "mistralrs".
std::vector<std::string> LaunchEngines();
// Empty for an engine that plans do not know.
std::optional<EngineKind> PlannedEngine(const std::string& engine);
// The version that rows are held to: as asked, or the newest known.
EngineVersion LaunchVersion(const LaunchInput& input);
std::string LaunchVersionText(const LaunchInput& input);  // as the engine writes it: "0.32.0", "b9749"

// K and V types: one, or llama.cpp's two.
struct LaunchDtypes {
  std::string k, v;
};
// After the checkpoint's own wish, where "auto" follows it.
LaunchDtypes DtypesOf(const LaunchInput& input);
// A device by its catalogue name, or by its compute capability alone: "h100", "sm90", "sm_120", "8.6". kNotFound.
Result<GpuSpec> LaunchGpu(const std::string& name, const GpuCatalogue& catalogue);

// What rows may ask of a start, as words (launch_rows.h, column features).
std::set<std::string> LaunchFeatures(const LaunchInput& input, const std::string& predicted_backend);
// Every word that LaunchFeatures can say; "scales:*" stands for all that start so.
bool IsLaunchFeature(std::string_view word);
// The features of one word of a row: "x|y" -> x, y.
std::vector<std::string_view> FeaturesOf(std::string_view word);

}  // namespace haypile
