#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "calibrate/calibration_text.h"
#include "calibrate/scale_search.h"
#include "kvcache/kv_cache.h"

namespace haypile {

enum class ScaleStrategy { kTensor, kHead };  // one scale a layer for K and one for V, or one for each KV head

struct CalibrateRequest {
  std::string model;  // as the user named it
  CalibrationTextRequest text;
  ScaleRule rule;
  ScaleStrategy strategy = ScaleStrategy::kTensor;
  // Tokens over which the output's KL divergence is measured with the whole cache quantized by every method, and,
  // unless output_whole_only, with each layer's K and V alone; 0: not.
  int64_t output_tokens = 0;
  bool output_whole_only = false;
};

// Where a calibration runs and what it tells while running.
struct CalibrateContext {
  std::string model_path;  // file or folder
  std::string state_path;  // where finished segments are kept for resuming; empty: nowhere
  std::string tool_version;
  int threads = 0;
  // Token passes done of the total, and what is being done now.
  std::function<void(double done, double total, const std::string& what)> on_progress;
};

// K, or V, of one layer. Errors are relative: sum (x - x')^2 / sum x^2, over all heads.
struct SideCalibration {
  std::vector<float> head_amax;   // [Hkv]
  std::vector<float> scales;      // [Hkv], all alike with kTensor
  int64_t amax_token = 0;         // tokens that had been seen when the layer's amax last grew
  double error = 0;               // with `scales`
  double error_at_one = 0;        // with 1.0, what an engine uses without scales
  double error_shared = 0;        // with one scale for K and V of the layer: the larger
  std::optional<double> mean_kl;  // of the output when this side of this layer alone is quantized
};

struct LayerCalibration {
  int64_t tokens = 0;
  SideCalibration k, v;
};

// The whole cache with one method's scales, against bf16.
struct MethodCheck {
  ScaleMethod method = ScaleMethod::kAmax;
  double mean_kl = 0;
  double mean_nll = 0;     // of the text's next tokens, nats
  double less_at_one = 0;  // mean_kl minus that at 1.0, over the same tokens: below 0 is better than 1.0
  double less_stderr = 0;  // of that mean difference
};

// The whole cache quantized, against bf16, over request.output_tokens.
struct OutputCheck {
  int64_t tokens = 0;
  bool held_out = false;  // on text that the scales were not made from
  double mean_kl_at_one = 0, mean_kl_calibrated = 0;
  double mean_kl_noise = 0;  // of the bf16 cache against itself in other chunks
  double mean_nll_bf16 = 0, mean_nll_at_one = 0;
  std::vector<MethodCheck> methods;
};

struct CalibrateResult {
  std::string model, tool_version;
  CalibrateRequest request;
  std::string text;  // what it ran on, for people
  int64_t tokens = 0, tokens_left_out = 0, segments = 0, longest_segment = 0;
  int head_dim = 0;
  std::vector<LayerCalibration> layers;
  std::optional<OutputCheck> output;

  KvScales Scales() const;
  // Layers that stand out: the output divergence (when measured), else K's or V's error, is more than kOutlierFactor
  // times the median layer's. Worst first.
  std::vector<int> LayersThatStandOut() const;
};
inline constexpr double kOutlierFactor = 4;

// What is wrong with the request, from the model's header alone: format, head size, lengths.
Status CheckCalibrateRequest(const std::string& model_path, const CalibrateRequest& request);

// Runs the text through the model with a bf16 cache, makes scales of every K and V it writes, and measures what they
// cost. kInterrupted when the user stops: finished segments are kept, and the same request resumes. kMalformed names
// layer and head of a range that is zero or not finite.
Result<CalibrateResult> RunCalibrate(const CalibrateRequest& request, const CalibrateContext& context);

}  // namespace haypile
