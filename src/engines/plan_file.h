#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace haypile {

// One KV dtype of a plan that was made apart.
struct PlannedRow {
  std::string kv_cache_dtype, resolved_kv_cache_dtype;
  int64_t bytes_per_token = 0, pool_bytes = 0, block_size = 0, pool_tokens = 0;
  bool refused = false;
};

struct PlannedTerm {
  std::string name;   // "weights", "activations", "CUDA graphs", ...
  int64_t bytes = 0;  // negative: taken off
};

// What `haypile plan --json` wrote (haypile.plan/1), as far as a log can be compared with it.
struct PlanFile {
  std::string path;
  std::string engine, engine_version, model;
  std::string device;  // empty: none was named
  int tensor_parallel = 1;
  std::vector<PlannedTerm> terms;  // empty: the pool's bytes were given
  std::vector<PlannedRow> rows;

  const PlannedRow* Find(const std::string& kv_cache_dtype) const;  // by the asked name, then by the resolved one
  std::optional<int64_t> Term(const std::string& name) const;
};

// kNotFound, kIo; kMalformed names the field.
Result<PlanFile> ReadPlanFile(const std::string& path);

}  // namespace haypile
