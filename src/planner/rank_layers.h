#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

// What of a model lies on one rank, where SGLang and TensorRT-LLM divide alike.

// kInvalidArgument when the pool's bytes are not known, or the model cannot be divided into so many ranks and stages.
Status CheckPoolAndRanks(std::string_view engine, const ModelGeometry& model, const PlanRequest& request);

// KV heads of a layer on one rank of `tensor_parallel`: an equal part, or one head that several ranks keep a copy of.
int KvHeadsOfRank(int kv_heads, int tensor_parallel);

// The entries of model.layers on each pipeline stage, in order: decoder layers in equal parts, the first stages one
// more where they do not divide.
std::vector<std::vector<LayerGeometry>> LayersOfStages(const ModelGeometry& model, int pipeline_parallel);

// Bytes of one request's state in one layer on one rank, at the model's widths.
struct StateBytes {
  int64_t convolution = 0;
  int64_t recurrence = 0;
};
StateBytes StateBytesOfRank(const StateShape& state, int tensor_parallel, int convolution_element_bytes,
                            int recurrence_element_bytes);

// Whether a layer keeps a row for every token: full attention, windows, chunks and latent rows.
bool KeepsTokens(const LayerGeometry& layer);
bool IsWindowed(const LayerGeometry& layer);  // of those, sliding or chunked

// The most ranks that keep a copy of one KV head of any attention layer; 1: no head is kept twice.
int CopiesOfKvHeads(const ModelGeometry& model, int tensor_parallel);

}  // namespace haypile
