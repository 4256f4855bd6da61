#include <fmt/format.h>

#include <algorithm>

#include "planner/number_text.h"
#include "planner/pool_plan.h"
#include "planner/vllm_groups.h"
#include "planner/vllm_layers.h"
#include "planner/vllm_report.h"
#include "planner/vllm_setup.h"

namespace haypile {
namespace {

// One worker's pool. Ranks of one pipeline stage hold alike layers, so the one with the fewest bytes stands for them.
struct Worker {
  int64_t memory = 0;
  int64_t bytes_per_block = 0;
  std::vector<bool> on_rank;
};

// GiB as Python prints round(x, 2): "8.0", "7.97".
std::string PythonGib(int64_t bytes) {
  const std::string text = GibText(bytes);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Result<std::vector<Worker>> MakeWorkers(const PlanRequest& request, const std::vector<VllmLayer>& layers,
                                        const VllmGrouping& grouping) {
  const size_t stages = request.pipeline_parallel;
  const size_t ranks = stages * request.tensor_parallel;
  const std::vector<int64_t>& bytes = request.pool_bytes_per_rank;
  if (bytes.size() != 1 && bytes.size() != stages && bytes.size() != ranks) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{} pool sizes for {} ranks; give one, one for each of {} stages, or one a rank",
                             bytes.size(), ranks, stages));
  }
  std::vector<Worker> workers(stages);
  for (size_t stage = 0; stage < stages; ++stage) {
    const size_t per_stage = std::max<size_t>(bytes.size() / stages, 1);
    const size_t first = bytes.size() == 1 ? 0 : stage * per_stage;
    workers[stage].memory = *std::min_element(bytes.begin() + static_cast<int64_t>(first),
                                              bytes.begin() + static_cast<int64_t>(first + per_stage));
    for (const VllmLayer& layer : layers) workers[stage].on_rank.push_back(layer.stage == static_cast<int>(stage));
    workers[stage].bytes_per_block = VllmBytesPerBlock(grouping, workers[stage].on_rank);
  }
  return workers;
}

// Whether one request of the shape's length fits `memory` bytes on the worker.
bool Fits(const VllmGrouping& grouping, const VllmRequestShape& shape, const Worker& worker, int64_t memory) {
  return VllmBlocksPerRequest(grouping, shape) * worker.bytes_per_block <= memory;
}

// vLLM's own binary search; 0 when not even one token fits.
int64_t LongestThatFits(const VllmGrouping& grouping, VllmRequestShape shape, const Worker& worker, int64_t memory) {
  int64_t left = 1;
  int64_t right = shape.max_model_len;
  shape.max_model_len = left;
  if (!Fits(grouping, shape, worker, memory)) return 0;
  int64_t longest = 1;
  while (left <= right) {
    const int64_t middle = (left + right) / 2;
    shape.max_model_len = middle;
    if (Fits(grouping, shape, worker, memory)) {
      longest = middle;
      left = middle + 1;
    } else {
      right = middle - 1;
    }
  }
  return longest;
}

int64_t CheckedMemory(const VllmSetup& setup, const Worker& worker) {
  return worker.memory - (setup.rules.reserves_null_block ? worker.bytes_per_block : 0);
}

void AutoFit(const VllmGrouping& grouping, const std::vector<Worker>& workers, const PlanRequest& request,
             VllmSetup& setup, PoolPlan& plan) {
  const int64_t original = setup.shape.max_model_len;
  int64_t longest = original;
  int64_t limiting = CheckedMemory(setup, workers.front());
  for (const Worker& worker : workers) {
    if (worker.bytes_per_block == 0) continue;
    const int64_t memory = CheckedMemory(setup, worker);
    const int64_t fits = LongestThatFits(grouping, setup.shape, worker, memory);
    if (fits >= longest) continue;
    longest = fits;
    limiting = memory;
  }
  if (longest <= 0) {
    plan.refused = Refusal{
        "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single "
        "token. Try increasing `gpu_memory_utilization`.",
        std::nullopt};
    return;
  }
  const std::string device = request.device == DeviceKind::kCpu ? "CPU" : "GPU";
  const std::string memory =
      setup.rules.names_pool_in_auto_fit
          ? fmt::format("available KV cache memory ({} GiB {})", PythonGib(limiting), device)
          : fmt::format("available GPU memory ({} GiB available for KV cache)", PythonGib(limiting));
  if (longest >= original) {
    plan.log_lines.push_back(
        fmt::format("Auto-fit max_model_len: full model context length {} fits in {}", original, memory));
  } else {
    plan.log_lines.push_back(
        fmt::format("Auto-fit max_model_len: reduced from {} to {} to fit in {}", original, longest, memory));
  }
  setup.shape.max_model_len = longest;
  plan.max_model_len = longest;
}

void CheckAdmission(const VllmGrouping& grouping, const std::vector<Worker>& workers, const VllmSetup& setup,
                    PoolPlan& plan) {
  for (const Worker& worker : workers) {
    if (worker.bytes_per_block == 0 || plan.refused) continue;
    const int64_t memory = CheckedMemory(setup, worker);
    if (memory <= 0) {
      plan.refused = Refusal{
          "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
          "engine.",
          std::nullopt};
      return;
    }
    if (Fits(grouping, setup.shape, worker, memory)) continue;
    const int64_t needed = VllmBlocksPerRequest(grouping, setup.shape) * worker.bytes_per_block;
    const int64_t longest = LongestThatFits(grouping, setup.shape, worker, memory);
    const std::string estimate =
        longest > 0 ? fmt::format("Based on the available memory, the estimated maximum model length is {}. ", longest)
                    : "";
    plan.refused = Refusal{
        fmt::format(
            "To serve at least one request with the model's max seq len ({}), ({} GiB KV cache is needed, which "
            "is larger than the available KV cache memory ({} GiB). {}Try increasing "
            "`gpu_memory_utilization`{} or decreasing `max_model_len` when initializing the engine.",
            setup.shape.max_model_len, PythonGib(needed), PythonGib(memory), estimate,
            setup.rules.names_cpu_memory ? " (which also controls CPU memory on the CPU backend)" : ""),
        longest > 0 ? std::optional<int64_t>(longest) : std::nullopt};
    plan.derivation.push_back({"admission: bytes of one request", "R * bytes of one block <= pool - null block",
                               fmt::format("{} * {} > {}", Grouped(VllmBlocksPerRequest(grouping, setup.shape)),
                                           Grouped(worker.bytes_per_block), Grouped(memory)),
                               "refused"});
  }
}

void OverrideBlocks(const PlanRequest& request, std::vector<Worker>& workers, PoolPlan& plan) {
  if (!request.num_gpu_blocks_override) return;
  for (Worker& worker : workers) {
    if (worker.bytes_per_block == 0) continue;
    plan.log_lines.push_back(fmt::format("Overriding num_gpu_blocks={} with num_gpu_blocks_override={}",
                                         worker.memory / worker.bytes_per_block, *request.num_gpu_blocks_override));
    worker.memory = *request.num_gpu_blocks_override * worker.bytes_per_block;
  }
}

// The worker with the fewest blocks decides for all.
VllmPoolNumbers Decide(const std::vector<Worker>& workers, const VllmGrouping& grouping, const VllmSetup& setup) {
  VllmPoolNumbers numbers;
  numbers.num_blocks = -1;
  for (const Worker& worker : workers) {
    if (worker.bytes_per_block == 0) continue;
    const int64_t blocks = std::max<int64_t>(worker.memory, 0) / worker.bytes_per_block;
    if (numbers.num_blocks >= 0 && blocks >= numbers.num_blocks) continue;
    numbers.memory = worker.memory;
    numbers.bytes_per_block = worker.bytes_per_block;
    numbers.on_rank = worker.on_rank;
    numbers.num_blocks = blocks;
  }
  numbers.blocks_per_request = VllmBlocksPerRequest(grouping, setup.shape);
  return numbers;
}

// DCP shards positions over ranks, which a window cannot be.
void CheckContextParallel(const VllmGrouping& grouping, const PlanRequest& request, PoolPlan& plan) {
  if (request.decode_context_parallel == 1 || plan.refused) return;
  for (const VllmSpec& spec : grouping.specs) {
    if (spec.kind != VllmSpecKind::kSlidingWindow) continue;
    plan.refused = Refusal{"DCP not support sliding window.", std::nullopt};
    return;
  }
}

}  // namespace

Result<PoolPlan> PlanVllmPool(const ModelGeometry& model, const PlanRequest& request) {
  if (request.pool_bytes_per_rank.empty()) {
    return Error(ErrorCode::kInvalidArgument, "a vLLM pool needs the bytes of the KV cache of each rank");
  }
  PoolPlan plan;
  plan.engine = EngineKind::kVllm;
  plan.kv_cache_dtype = request.kv_cache_dtype;
  plan.pool_bytes = request.pool_bytes_per_rank.front();
  Result<VllmSetup> setup = ResolveVllmSetup(model, request, plan);
  if (!setup) return std::move(setup).error();
  Result<std::vector<VllmLayer>> layers = BuildVllmLayers(model, request, *setup, plan);
  if (!layers && plan.refused) return plan;  // vLLM had stopped before it would have built this layer
  if (!layers) return std::move(layers).error();
  if (layers->empty()) {
    return Error(ErrorCode::kUnsupported, "no layer of " + model.name + " keeps a cache between tokens");
  }
  std::vector<VllmSpec> specs;
  for (const VllmLayer& layer : *layers) specs.push_back(layer.spec);
  const VllmGrouping grouping = GroupVllmLayers(std::move(specs), setup->hybrid_manager, setup->rules);
  plan.log_lines.insert(plan.log_lines.end(), grouping.log_lines.begin(), grouping.log_lines.end());
  if (!grouping.refusal.empty() && !plan.refused) plan.refused = Refusal{grouping.refusal, std::nullopt};
  if (grouping.groups.empty()) return plan;
  CheckContextParallel(grouping, request, plan);
  Result<std::vector<Worker>> workers = MakeWorkers(request, *layers, grouping);
  if (!workers) return std::move(workers).error();
  OverrideBlocks(request, *workers, plan);
  if (setup->auto_fit && !plan.refused) AutoFit(grouping, *workers, request, *setup, plan);
  if (!plan.refused) CheckAdmission(grouping, *workers, *setup, plan);
  const VllmPoolNumbers numbers = Decide(*workers, grouping, *setup);
  if (!plan.refused) ReportVllmPool(*setup, grouping, numbers, request, plan);
  ShareVllmPool(*setup, grouping, *layers, numbers, plan);
  WarnOfVllmPool(model, *setup, grouping, numbers, request, plan);
  return plan;
}

}  // namespace haypile
