#include "planner/llamacpp_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace haypile {
namespace {

constexpr int64_t kDefaultSlots = 4;  // of llama-server without -np, which then shares one stream
constexpr int64_t kDefaultBatch = 2048;
constexpr int64_t kDefaultMicroBatch = 512;

bool AutomaticSlots(const PlanRequest& request) { return request.parallel_slots <= 0; }
int64_t Slots(const PlanRequest& request) { return AutomaticSlots(request) ? kDefaultSlots : request.parallel_slots; }
bool Unified(const PlanRequest& request) { return AutomaticSlots(request) || request.kv_unified; }

Status CheckFlags(const ModelGeometry& model, const PlanRequest& request) {
  const auto positive = [](const char* flag, const std::optional<int64_t>& value) -> Status {
    if (!value || *value > 0) return {};
    return Error(ErrorCode::kInvalidArgument, fmt::format("{} {}: expected at least 1", flag, *value));
  };
  if (request.context_size && *request.context_size < 0) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("-c {}: expected 0 (the model's context) or more", *request.context_size));
  }
  HAYPILE_TRY(positive("-b", request.batch));
  if (request.ubatch && *request.ubatch < 0) {
    return Error(ErrorCode::kInvalidArgument, fmt::format("-ub {}: expected 0 (as -b) or more", *request.ubatch));
  }
  const std::string& flash = request.flash_attention;
  if (!flash.empty() && flash != "on" && flash != "off" && flash != "auto") {
    return Error(ErrorCode::kInvalidArgument, "-fa '" + flash + "': expected on, off or auto");
  }
  const bool asked = request.context_size.value_or(0) > 0 || (!request.context_size && request.max_model_len > 0);
  if (model.max_positions <= 0 && !asked) {
    return Error(ErrorCode::kInvalidArgument, model.name + ": the model does not say its context length; give -c");
  }
  return {};
}

}  // namespace

std::vector<std::string> LlamacppContext::LogLines() const {
  std::vector<std::string> lines;
  // The engine says "down" whichever way it rounds.
  if (rounded) {
    lines.push_back(fmt::format("llama_context: n_ctx is not divisible by n_seq_max - rounding down to {}", n_ctx));
  }
  lines.push_back(fmt::format("llama_context: n_ctx         = {}", n_ctx));
  lines.push_back(fmt::format("llama_context: n_ctx_seq     = {}", n_ctx_seq));
  if (n_ctx_seq < n_ctx_train) {
    lines.push_back(
        fmt::format("llama_context: n_ctx_seq ({}) < n_ctx_train ({}) -- the full capacity of the model will not be "
                    "utilized",
                    n_ctx_seq, n_ctx_train));
  }
  if (n_ctx_train > 0 && n_ctx_seq > n_ctx_train) {
    lines.push_back(
        fmt::format("llama_context: n_ctx_seq ({}) > n_ctx_train ({}) -- possible training context overflow", n_ctx_seq,
                    n_ctx_train));
  }
  return lines;
}

int64_t AskedLlamacppContext(const ModelGeometry& model, const PlanRequest& request) {
  if (request.context_size && *request.context_size > 0) return *request.context_size;
  if (!request.context_size && request.max_model_len > 0) {
    return request.max_model_len * (Unified(request) ? 1 : Slots(request));
  }
  return model.max_positions;
}

Result<LlamacppContext> ResolveLlamacppContext(const ModelGeometry& model, const PlanRequest& request, int64_t asked) {
  HAYPILE_TRY(CheckFlags(model, request));
  if (asked > std::numeric_limits<uint32_t>::max()) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("a context of {} cells is more than llama.cpp counts", asked));
  }
  LlamacppContext context;
  context.n_ctx_train = model.max_positions;
  context.n_seq_max = Slots(request);
  context.unified = Unified(request);
  context.flash_attention = request.flash_attention != "off";
  context.n_ctx_asked = asked;
  // The batch is bounded by the context as it was asked for, before padding.
  context.n_batch = std::min(asked, request.batch.value_or(kDefaultBatch));
  const int64_t micro = request.ubatch.value_or(kDefaultMicroBatch);
  context.n_ubatch = micro == 0 ? context.n_batch : std::min(context.n_batch, micro);
  context.n_ctx = PaddedCells(asked);
  if (context.unified) {
    context.n_ctx_seq = context.n_ctx;
  } else {
    context.n_ctx_seq = PaddedCells(context.n_ctx / context.n_seq_max);
    context.rounded = context.n_ctx_seq * context.n_seq_max != context.n_ctx;
    context.n_ctx = context.n_ctx_seq * context.n_seq_max;
  }
  context.n_ctx_slot = context.n_ctx_train > 0 ? std::min(context.n_ctx_seq, context.n_ctx_train) : context.n_ctx_seq;
  return context;
}

}  // namespace haypile
