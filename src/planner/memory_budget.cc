#include "planner/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"

namespace haypile {
namespace {

struct WeightDtype {
  const char* name;
  double bits;     // per quantized weight, scales included
  bool quantized;  // embeddings stay in 16 bits
};

// Bits with scales: nvfp4 4 + 8/16; mxfp4 4 + 8/32; int4 (GPTQ, AWQ) 4 + 16/128 + 4/128 for scale and zero point in
// groups of 128; fp8 and int8 scales per tensor, channel or 128 x 128 block add less than 0.1 %.
constexpr WeightDtype kWeightDtypes[] = {
    {"float32", 32.0, false}, {"fp32", 32.0, false}, {"bfloat16", 16.0, false}, {"bf16", 16.0, false},
    {"float16", 16.0, false}, {"fp16", 16.0, false}, {"fp8", 8.0, true},        {"int8", 8.0, true},
    {"nvfp4", 4.5, true},     {"mxfp4", 4.25, true}, {"int4", 4.15625, true},   {"awq", 4.15625, true},
    {"gptq", 4.15625, true},
};

std::string Gigabytes(int64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

// Of a quantized model, what stays in 16 bits: what its own config leaves out, or both embeddings where the user asks
// for another format.
int64_t KeptParameters(const ModelGeometry& model, bool as_configured) {
  if (as_configured && model.unquantized_parameters > 0)
    return std::min(model.parameters, model.unquantized_parameters);
  const int64_t one = model.vocabulary_size * model.hidden_size;
  return std::min(model.parameters, model.tied_embeddings ? one : 2 * one);
}

WeightFigure FromParameters(const ModelGeometry& model, const std::string& format, double bits, int64_t kept,
                            bool assumed) {
  const double bytes = static_cast<double>(model.parameters - kept) * bits / 8.0 + 2.0 * static_cast<double>(kept);
  WeightFigure figure;
  figure.bytes = std::llround(bytes);
  figure.source = assumed ? TermSource::kAssumed : TermSource::kComputed;
  figure.note = fmt::format("{:.3f} billion parameters x {} bits ({})", static_cast<double>(model.parameters) / 1e9,
                            bits, format);
  if (kept > 0) figure.note += fmt::format(", {:.3f} billion of them in 16 bits", static_cast<double>(kept) / 1e9);
  return figure;
}

// Collects terms; the sum is the pool.
class Account {
 public:
  explicit Account(const BudgetRequest& request) : request_(request) {}

  void Add(std::string name, int64_t bytes, TermSource source, std::string note) {
    budget_.terms.push_back({std::move(name), bytes, source, std::move(note)});
    budget_.pool_bytes += bytes;
  }

  // Weights are split evenly over the ranks of tensor and pipeline parallelism; the draft's over tensor parallelism.
  void TakeWeights() {
    const int ranks = request_.tensor_parallel * request_.pipeline_parallel;
    const int64_t mine = (request_.weights.bytes + ranks - 1) / ranks;
    budget_.weight_bytes = mine;
    Add("weights", -mine, request_.weights.source,
        request_.weights.note + (ranks > 1 ? fmt::format(", / {} ranks", ranks) : ""));
    if (!request_.draft_weights) return;
    const int64_t draft = (request_.draft_weights->bytes + request_.tensor_parallel - 1) / request_.tensor_parallel;
    budget_.weight_bytes += draft;
    Add("draft weights", -draft, request_.draft_weights->source, request_.draft_weights->note);
  }

  MemoryBudget Take() && { return std::move(budget_); }

 private:
  const BudgetRequest& request_;
  MemoryBudget budget_;
};

// vLLM's default for the API server by device memory (its rule since 2025): 16,384 from 160 GiB, 8,192 from 70 GiB,
// 2,048 below.
int64_t BatchedTokens(const BudgetRequest& request) {
  if (request.max_num_batched_tokens > 0) return request.max_num_batched_tokens;
  if (request.device_bytes >= 160 * kGib) return 16384;
  return request.device_bytes >= 70 * kGib ? 8192 : 2048;
}

int64_t Sequences(const BudgetRequest& request) {
  if (request.max_num_seqs > 0) return request.max_num_seqs;
  return request.device_bytes >= 70 * kGib ? 1024 : 256;
}

// Peak of the profiling pass. The forward pass keeps about 14 hidden states of 2 bytes for each batched token (hidden,
// residual, gate, up and their product at 3.5 hidden sizes each): 1.88 GiB computed against 1.97 GiB printed by vLLM
// 0.10.2 for a 7B model and 16,384 tokens, 0.88 against 0.76 for Qwen3-235B and 8,192. Before 0.16 the sampler's
// dummy run outweighed that: 9.6 float32 copies of the logits of max_num_seqs requests fit seven start-up logs of
// vLLM 0.11 on an H100 (4.76 to 7.38 GiB) within 3 %.
int64_t Activations(const ModelGeometry& model, const BudgetRequest& request) {
  const double forward = 28.0 * static_cast<double>(BatchedTokens(request)) * model.hidden_size;
  double peak = forward;
  if (request.engine == EngineKind::kVllm && request.version < EngineVersion{0, 16, 0}) {
    const double logits = 4.0 * static_cast<double>(Sequences(request)) * static_cast<double>(model.vocabulary_size);
    peak = std::max(forward, 9.6 * logits);
  }
  return std::llround(peak);
}

std::string ActivationNote(const ModelGeometry& model, const BudgetRequest& request) {
  return fmt::format("about 28 bytes x {} batched tokens x hidden size {}", BatchedTokens(request), model.hidden_size);
}

// CUDA context and NCCL buffers outside the allocator: 0.07 to 0.14 GiB on one device, 0.55 GiB with tensor
// parallelism in public vLLM logs.
int64_t NonTorch(const BudgetRequest& request) {
  return request.tensor_parallel * request.pipeline_parallel > 1 ? 563 * kMib : 143 * kMib;
}

Result<double> Utilization(const BudgetRequest& request, double fallback, const char* flag) {
  const double value = request.utilization.value_or(fallback);
  if (!(value > 0.0) || value > 1.0) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} is not a share of the device; expected more than 0 and at most 1", flag, value));
  }
  return value;
}

TermSource UtilizationSource(const BudgetRequest& request) {
  return request.utilization ? TermSource::kGiven : TermSource::kDefault;
}

Result<MemoryBudget> VllmBudget(const ModelGeometry& model, const BudgetRequest& request) {
  HAYPILE_TRY_ASSIGN(const double share, Utilization(request, request.version < EngineVersion{0, 21, 0} ? 0.9 : 0.92,
                                                     "--gpu-memory-utilization"));
  Account account(request);
  // vllm/v1/worker/utils.py request_memory: ceil(total x utilization).
  const auto requested = static_cast<int64_t>(std::ceil(static_cast<double>(request.device_bytes) * share));
  account.Add("requested memory", requested, UtilizationSource(request),
              fmt::format("ceil({} x {})", Gigabytes(request.device_bytes), share));
  account.TakeWeights();
  if (request.overhead_bytes) {
    account.Add("overhead", -*request.overhead_bytes, TermSource::kGiven, "--overhead");
    return std::move(account).Take();
  }
  account.Add("activations", -Activations(model, request), TermSource::kAssumed, ActivationNote(model, request));
  account.Add("outside PyTorch", -NonTorch(request), TermSource::kAssumed, "CUDA context, NCCL");
  if (request.version >= EngineVersion{0, 21, 0}) {
    account.Add("CUDA graphs", request.enforce_eager ? 0 : -(kGib / 2),
                request.enforce_eager ? TermSource::kGiven : TermSource::kAssumed,
                request.enforce_eager ? "--enforce-eager" : "0.1 to 1.2 GiB in public logs");
  }
  return std::move(account).Take();
}

Result<MemoryBudget> SglangBudget(const BudgetRequest& request) {
  HAYPILE_TRY_ASSIGN(const double share, Utilization(request, 0.88, "--mem-fraction-static"));
  Account account(request);
  const int64_t context = request.overhead_bytes ? 0 : 410 * kMib;  // 79.2 GiB card: 78.8 GB free before loading
  const int64_t free_bytes = request.device_bytes - context;
  account.Add("device memory", request.device_bytes, TermSource::kComputed, "");
  if (!request.overhead_bytes) account.Add("CUDA context", -context, TermSource::kAssumed, "0.4 GiB");
  account.TakeWeights();
  if (request.overhead_bytes) {
    account.Add("overhead", -*request.overhead_bytes, TermSource::kGiven, "--overhead");
  } else {
    // slack = free before loading x (1 - mem_fraction_static): activations and CUDA graphs live there.
    const auto slack = static_cast<int64_t>(std::ceil(static_cast<double>(free_bytes) * (1.0 - share)));
    account.Add("slack", -slack, UtilizationSource(request),
                fmt::format("free before loading x (1 - {}): activations and CUDA graphs", share));
  }
  return std::move(account).Take();
}

Result<MemoryBudget> TrtllmBudget(const ModelGeometry& model, const BudgetRequest& request) {
  HAYPILE_TRY_ASSIGN(const double share, Utilization(request, 0.9, "--free_gpu_memory_fraction"));
  Account account(request);
  account.Add("device memory", request.device_bytes, TermSource::kComputed, "");
  account.TakeWeights();
  int64_t rest = request.device_bytes - (request.weights.bytes / (request.tensor_parallel * request.pipeline_parallel));
  if (request.overhead_bytes) {
    account.Add("overhead", -*request.overhead_bytes, TermSource::kGiven, "--overhead");
    rest -= *request.overhead_bytes;
  } else {
    account.Add("activations", -Activations(model, request), TermSource::kAssumed, ActivationNote(model, request));
    account.Add("CUDA context", -NonTorch(request), TermSource::kAssumed, "CUDA context, NCCL");
    rest -= Activations(model, request) + NonTorch(request);
  }
  const auto kept = static_cast<int64_t>(std::ceil(static_cast<double>(std::max<int64_t>(rest, 0)) * (1.0 - share)));
  account.Add("kept free", -kept, UtilizationSource(request),
              fmt::format("(1 - {}) of what is free after loading", share));
  return std::move(account).Take();
}

MemoryBudget PlainBudget(const BudgetRequest& request) {
  Account account(request);
  account.Add("device memory", request.device_bytes, TermSource::kComputed, "");
  account.TakeWeights();
  if (request.overhead_bytes) {
    account.Add("overhead", -*request.overhead_bytes, TermSource::kGiven, "--overhead");
  } else {
    account.Add("compute buffers", -kGib, TermSource::kAssumed, "context and graph buffers, about 1 GiB");
  }
  return std::move(account).Take();
}

}  // namespace

std::string TermSourceName(TermSource source) {
  switch (source) {
    case TermSource::kGiven:
      return "given";
    case TermSource::kComputed:
      return "computed";
    case TermSource::kDefault:
      return "default";
    case TermSource::kAssumed:
      return "assumed";
  }
  return "";
}

std::string WeightDtypeNames() {
  std::string names;
  for (const WeightDtype& dtype : kWeightDtypes) names += (names.empty() ? "" : ", ") + std::string(dtype.name);
  return names;
}

Result<WeightFigure> WeightBytes(const ModelGeometry& model, const std::string& weights_dtype,
                                 std::optional<int64_t> given) {
  if (given) return WeightFigure{*given, TermSource::kGiven, "--weights-bytes"};
  const WeightDtype* asked = nullptr;
  for (const WeightDtype& dtype : kWeightDtypes) {
    if (weights_dtype == dtype.name) asked = &dtype;
  }
  if (!weights_dtype.empty() && asked == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 "--weights-dtype: unknown dtype '" + weights_dtype + "'; known: " + WeightDtypeNames());
  }
  if (asked == nullptr && model.weight_bytes) {
    return WeightFigure{*model.weight_bytes, TermSource::kComputed, "measured in the model's files"};
  }
  if (model.parameters <= 0) {
    return Error(ErrorCode::kUnsupported, "'" + model.name +
                                              "': the config does not tell the number of parameters; give "
                                              "--weights-bytes, or --kv-cache-memory-bytes in place of --gpu");
  }
  if (asked != nullptr) {
    return FromParameters(model, asked->name, asked->bits, asked->quantized ? KeptParameters(model, false) : 0, false);
  }
  return FromParameters(model, model.weights.name.empty() ? "bfloat16" : model.weights.name, model.weights.bits,
                        model.weights.bits < 16.0 ? KeptParameters(model, true) : 0, model.weights.assumed);
}

Result<MemoryBudget> PlanBudget(const ModelGeometry& model, const BudgetRequest& request) {
  switch (request.engine) {
    case EngineKind::kVllm:
      return VllmBudget(model, request);
    case EngineKind::kSglang:
      return SglangBudget(request);
    case EngineKind::kTrtllm:
      return TrtllmBudget(model, request);
    case EngineKind::kLlamacpp:
    case EngineKind::kHaypile:
      break;
  }
  return PlainBudget(request);
}

}  // namespace haypile
