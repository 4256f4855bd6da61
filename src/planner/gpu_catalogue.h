#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace haypile {

// One accelerator as a plan needs it. Memory is the maker's figure in decimal bytes; what an engine sees differs a
// little (`visible_bytes`, where public start-up logs tell it).
struct GpuSpec {
  std::string name;                  // "H200"
  std::vector<std::string> aliases;  // "GB10" for "DGX Spark"
  std::string vendor;                // "nvidia", "amd", "intel"
  std::string architecture;          // "Hopper", "gfx942", "Gaudi 3"
  int sm = 0;                        // CUDA compute capability x 10; 0: not a CUDA device
  int64_t memory_bytes = 0;
  int64_t visible_bytes = 0;                // as engines print it; 0: not known
  double bandwidth_bytes_per_second = 0.0;  // peak of its memory
  bool fp8 = false;                         // FP8 matrix arithmetic
  bool fp4 = false;                         // FP4 matrix arithmetic
  bool unified_memory = false;              // shared with the processor
  std::string source;                       // where the figures stand
};

// The built-in devices and those the user added.
class GpuCatalogue {
 public:
  GpuCatalogue();  // the built-in ones

  // Adds the devices of a JSON text: {"gpus": [{"name", "memory_gb" or "memory_bytes", "bandwidth_gb_s", and
  // optionally "vendor", "architecture", "sm", "fp8", "fp4", "unified_memory", "aliases", "source"}]}. One of a known
  // name replaces it. `file` is for messages; kMalformed names the entry and the field.
  Status AddJson(std::string_view text, const std::string& file);

  // By name or alias; letter case, spaces, '-' and '_' ignored. kNotFound lists the known names.
  Result<GpuSpec> Find(std::string_view name) const;
  const std::vector<GpuSpec>& all() const { return gpus_; }

 private:
  std::vector<GpuSpec> gpus_;
};

}  // namespace haypile
