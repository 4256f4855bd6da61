#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engines/checkpoint_scales.h"
#include "engines/finding.h"
#include "engines/log_record.h"
#include "engines/metrics_text.h"
#include "engines/metrics_window.h"
#include "engines/plan_file.h"

namespace haypile {

struct LaunchPrediction;

// What a doctor looks at. Every part may be missing; fewer parts tell less, never something else.
struct DoctorInput {
  const LogRecord* log = nullptr;
  const LogRecord* baseline = nullptr;  // another start of the same model, to compare with
  const CheckpointScales* checkpoint = nullptr;
  std::optional<int64_t> planned_tokens = {};  // of a plan made apart
  const PlanFile* plan = nullptr;              // the same with its terms
  const MetricsWindow* metrics = nullptr;
  const LaunchPrediction* launch = nullptr;
  std::string log_name = {}, metrics_name = {};  // as the user gave them, for commands
  std::string server_url = {};                   // http://HOST:PORT of a running server, where one was named
};

// The command that asks a running server which scales its cache uses, with placeholders for NameCommands.
inline constexpr const char* kProbeCommand = "haypile doctor --probe http://HOST:PORT --checkpoint CHECKPOINT";

// All findings on a start-up log, the worst first.
Findings DiagnoseLog(const DoctorInput& input);
// The answer to "is the pool the limit?" first, then what else the metrics tell: of one look, or of a while.
Findings DiagnoseMetrics(const PoolMetrics& metrics);
Findings DiagnoseWindow(const MetricsWindow& window);

// Parts of DiagnoseLog, one file each; they append.
void FindScales(const DoctorInput& input, Findings& findings);
void FindBackends(const DoctorInput& input, Findings& findings);
void FindPool(const DoctorInput& input, Findings& findings);
void FindIdleMemory(const DoctorInput& input, Findings& findings);
void FindPlanGap(const DoctorInput& input, Findings& findings);
void FindErrors(const DoctorInput& input, Findings& findings);
void FindLoad(const DoctorInput& input, Findings& findings);

// The dtype of the cache as far as the log tells: what a line names, else what was asked for, else "".
std::string CacheDtype(const LogRecord& log);
// FP8, FP4, INT and llama.cpp's block types; nothing when the name is empty or "auto".
std::optional<bool> IsQuantizedDtype(std::string_view dtype);
// Scales are per tensor and come from the checkpoint (FP8, NVFP4), unlike those made at run time beside the values.
bool NeedsCheckpointScales(LogEngine engine, std::string_view dtype);
// The flag that sets the dtype, in the engine's spelling: "--kv-cache-dtype fp8_e4m3".
std::string DtypeFlag(LogEngine engine, const std::string& dtype);
// "auto", or llama.cpp's f16: the model's own.
std::string ModelDtypeFlag(LogEngine engine);

}  // namespace haypile
