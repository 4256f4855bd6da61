#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "checkpoint/header_checkpoint.h"
#include "inspect/declaration.h"
#include "inspect/engine_rule.h"
#include "inspect/finding.h"
#include "inspect/layer_needs.h"
#include "inspect/rank_share.h"
#include "inspect/scale_summary.h"
#include "planner/model_geometry.h"

namespace haypile {

struct DtypeShare {
  std::string dtype;
  size_t tensors = 0;
  uint64_t bytes = 0;
};

// What one engine does with one family's scales (or with none).
struct EngineOutcome {
  std::string family;  // empty: the checkpoint has no KV scales
  const EngineRule* rule = nullptr;
};

// What is declared of the KV cache and what is found, in words.
struct ScaleAgreement {
  std::string declared;                    // "a cache of fp8, strategy tensor"
  std::string found;                       // "k_scale per tensor for K of 4 of 4 layers, V of 4 of 4 layers"
  std::vector<std::string> disagreements;  // empty: they agree
};

// All that `haypile inspect` says of a checkpoint.
struct InspectReport {
  std::string name;
  std::string container;                  // "safetensors", "gguf" or "config"
  std::optional<ModelGeometry> geometry;  // nothing: config.json describes a model that is not understood
  std::string architecture;
  std::string model_type;
  QuantizationDeclaration declaration;
  CheckpointHeaders headers;  // safetensors
  std::vector<DtypeShare> dtypes;
  std::vector<KvLayerNeed> kv_layers;
  std::vector<FamilySummary> scales;
  std::string exporter;           // what wrote the scales, and by which convention
  std::string convention;         // "amax/448", "amax/2688", "amax/448 or amax/2688"; empty: no scales
  std::string divisor_of_values;  // the same as the values tell it (DivisorOfValues); empty: they do not
  ScaleAgreement agreement;
  CheckpointFindings findings;
  std::vector<EngineOutcome> engines;
  ReadCount read;
  int tensor_parallel = 0;             // ranks that the user asks about; 0: none
  std::vector<RankShare> rank_shares;  // of them
  std::vector<RankOutcome> rank_outcomes;
  std::string written_index;  // the index that was written; empty: none
};

// A folder with config.json (and safetensors files), or a config.json. Errors are those of the parts; an architecture
// that is not understood is a finding, not an error.
Result<InspectReport> InspectCheckpoint(const std::string& path);

// From a GGUF file's geometry (an error of it becomes a finding) and tensor types; it holds no KV scales.
InspectReport InspectGguf(const std::string& path, Result<ModelGeometry> geometry, std::vector<DtypeShare> dtypes,
                          uint64_t header_bytes);

// What each of `ranks` ranks gets, in the report. Reads nothing.
void AddRanks(int ranks, InspectReport* report);

// Tensor-parallel sizes whose slices of scales for `heads` heads are worth showing: the one that is asked for, or 1, 2,
// 4
// ... to two ranks a head.
std::vector<int> RanksToShow(const InspectReport& report, int heads);

// The rows of the table that hold: of each engine and version the first that matches, for each family.
std::vector<EngineOutcome> OutcomesOf(const InspectReport& report);

Json ToJson(const InspectReport& report, const std::string& tool_version);
std::string InspectText(const InspectReport& report, int width, bool colour);

}  // namespace haypile
