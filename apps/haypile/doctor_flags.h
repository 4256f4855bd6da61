#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/launch_input.h"

namespace CLI {
class App;
}

namespace haypile {

// The flags of `haypile doctor` as typed.
struct DoctorFlags {
  std::string log, baseline, checkpoint, plan, metrics;
  // A running server to be asked.
  std::string probe, api_key, served_model;
  int64_t probe_tokens = 0;
  std::optional<double> probe_timeout;
  int threads = 0;
  int64_t planned_tokens = 0;
  std::optional<double> duration, interval;
  bool checklist = false, json = false, quiet = false;
  // Before a start, under the engines' own names.
  std::string engine, engine_version, device, gpu, gpu_file, model, kv_cache_dtype, model_dtype, backend;
  std::string speculative_method, speculative_config, flash_attention, cache_type_k, cache_type_v;
  int tensor_parallel = 1, context_parallel = 1, speculative_tokens = 0;
  bool prefix_caching = false, no_prefix_caching = false, eager = false, calculate_scales = false;
  std::vector<std::string> unused;  // of flags that no row asks for
  bool ignored = false;             // the same

  bool AsksForLaunch() const;  // some flag of a start was given
};

void AddDoctorFlags(CLI::App& command, DoctorFlags& flags);

// A start as the flags describe it, with what its model's files say; `checkpoint` keeps what was read, and is pointed
// to. kInvalidArgument names the flag.
Result<LaunchInput> MakeLaunchInput(const DoctorFlags& flags, CheckpointScales& checkpoint);

}  // namespace haypile
