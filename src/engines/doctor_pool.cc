#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "engines/doctor.h"
#include "engines/log_scan.h"
#include "planner/number_text.h"

namespace haypile {
namespace {

// The pool that requests are scheduled into: the last that gives tokens and a concurrency, else the last with tokens.
const PoolLine* MainPool(const LogRecord& log) {
  const PoolLine* best = nullptr;
  for (const PoolLine& pool : log.pools) {
    if (!pool.tokens || pool.what == "sliding window" || pool.what == "state") continue;
    if (best == nullptr || pool.concurrency || !best->concurrency) best = &pool;
  }
  return best;
}

void AddPoolNote(const LogRecord& log, Findings& findings) {
  if (log.pools.empty()) return;
  std::string text;
  std::vector<LogLine> evidence;
  for (const PoolLine& pool : log.pools) {
    if (evidence.size() == 6) break;
    std::string part = pool.what == "scheduler" ? "requests share " : pool.what + ": ";
    if (pool.tokens) part += Grouped(*pool.tokens) + " tokens";
    if (pool.blocks) part += (pool.tokens ? ", " : "") + Grouped(*pool.blocks) + " blocks";
    if (pool.concurrency && pool.max_model_len) {
      part += fmt::format(", {:.2f} requests of {} tokens", *pool.concurrency, Grouped(*pool.max_model_len));
    }
    if (pool.bytes) part += fmt::format(", {:.2f} GiB", *pool.bytes / kGib);
    if (!pool.dtype.empty()) part += ", " + pool.dtype;
    text += (text.empty() ? "" : "; ") + part;
    if (evidence.empty() || evidence.back().number != pool.line.number) evidence.push_back(pool.line);
  }
  findings.push_back({"pool.size",
                      Severity::kNote,
                      "The pool: " + text + ".",
                      evidence,
                      "This is what the dtype buys; compare it with the plan.",
                      {"haypile plan MODEL   # the same number before the start, and what other dtypes give"},
                      "the plan and the log agree"});
}

// Up to vLLM 0.19 the token figure of hybrids counted every group's blocks apart; the concurrency did not.
void AddMismatch(const LogRecord& log, Findings& findings) {
  for (const PoolLine& pool : log.pools) {
    if (!pool.tokens || !pool.concurrency || !pool.max_model_len || log.engine != LogEngine::kVllm) continue;
    const double length = static_cast<double>(*pool.max_model_len), tokens = static_cast<double>(*pool.tokens);
    const double implied = *pool.concurrency * length;
    // The concurrency is printed with two places; the tokens are cut to a whole block.
    if (std::abs(implied - tokens) <= 0.006 * length + 0.01 * tokens) continue;
    findings.push_back(
        {"pool.figures_disagree",
         Severity::kWarning,
         fmt::format(
             "The two printed figures disagree: {} tokens, but {:.2f} requests of {} tokens are {} tokens ({:.1f} "
             "times that).",
             Grouped(*pool.tokens), *pool.concurrency, Grouped(*pool.max_model_len),
             Grouped(static_cast<int64_t>(std::llround(implied))), implied / tokens),
         {pool.line},
         "On hybrid models older versions divide the blocks by the number of groups although the groups share one "
         "pool. "
         "The concurrency times the length is the capacity at that length.",
         {"haypile plan MODEL --max-model-len N   # capacity at each length",
          fmt::format("plan with {} tokens at this length", Grouped(static_cast<int64_t>(std::llround(implied))))},
         "versions after April 2026 print one line whose figures agree"});
    return;
  }
}

void AddBlockSize(const LogRecord& log, Findings& findings) {
  if (!log.attention_block) return;
  const int64_t block = log.attention_block->value;
  Finding finding{"pool.block_size",
                  block >= 512 ? Severity::kWarning : Severity::kNote,
                  "",
                  {log.attention_block->line},
                  "",
                  {},
                  ""};
  finding.what =
      "One block holds " + Grouped(block) + " tokens, so that a page of attention is as large as a page of state";
  if (log.state_padding_percent) {
    finding.what += fmt::format(" (state pages padded by {:.2f}%)", log.state_padding_percent->value);
    finding.evidence.push_back(log.state_padding_percent->line);
  }
  finding.what += ".";
  const PoolLine* pool = MainPool(log);
  if (pool != nullptr && pool->max_model_len && pool->tokens) {
    const int64_t blocks = (*pool->max_model_len + block - 1) / block;
    finding.what += fmt::format(" A request of {} tokens takes {} blocks of attention, and the state's pages on top.",
                                Grouped(*pool->max_model_len), Grouped(blocks));
    finding.evidence.push_back(pool->line);
  }
  finding.why =
      "Every request takes whole blocks of every group, and only whole blocks are shared between prompts. A smaller "
      "KV dtype makes the block longer, not the page smaller: half the bytes of a token double the block.";
  finding.type = {
      "haypile plan MODEL --explain   # the block, the groups and the least bytes of a request",
      "--mamba-ssm-cache-dtype bfloat16   # a smaller state page, a shorter block, where the model allows it"};
  finding.check = "the line 'Setting attention block size' names the planned number";
  findings.push_back(std::move(finding));
}

// The pool is as large as the poorest rank allows.
void AddRankSpread(const LogRecord& log, Findings& findings) {
  const MemoryLine *least = nullptr, *most = nullptr;
  for (const MemoryLine& memory : log.memory) {
    if (memory.kind != MemoryLine::Kind::kForPool) continue;
    if (least == nullptr || memory.gib < least->gib) least = &memory;
    if (most == nullptr || memory.gib > most->gib) most = &memory;
  }
  if (least == nullptr || most->gib - least->gib <= std::max(0.5, 0.1 * std::abs(most->gib))) return;
  const std::string poor = least->rank.empty() ? fmt::format("the rank of line {}", least->line.number) : least->rank;
  const std::string rich = most->rank.empty() ? fmt::format("that of line {}", most->line.number) : most->rank;
  findings.push_back({"pool.ranks_differ",
                      Severity::kProblem,
                      fmt::format("{} has {:.2f} GiB for the pool, {} has {:.2f} GiB: {:.2f} GiB apart.", poor,
                                  least->gib, rich, most->gib, most->gib - least->gib),
                      {least->line, most->line},
                      "The pool is the minimum over ranks, so the poor rank decides for all. Raising "
                      "gpu_memory_utilization will not help: "
                      "something else lies on that device, or the ranks hold different weights.",
                      {"nvidia-smi   # what else uses the poor rank's device; stop it, or move this server",
                       "one device per stage and process"},
                      "all ranks print nearly the same 'Available KV cache memory'"});
}

// Two starts of the same model: what the dtype or a flag changed besides.
void AddBaseline(const DoctorInput& input, Findings& findings) {
  if (input.baseline == nullptr) return;
  const LogRecord &log = *input.log, &base = *input.baseline;
  const auto backends = [](const LogRecord& record) {
    std::string names;
    for (const BackendLine& backend : record.backends) {
      if (!Contains(names, backend.backend)) names += (names.empty() ? "" : ", ") + backend.backend;
    }
    return names.empty() ? record.backend_requested ? record.backend_requested->value : std::string("not said") : names;
  };
  const auto pool_gib = [](const LogRecord& record) -> std::optional<double> {
    std::optional<double> gib;
    for (const MemoryLine& memory : record.memory) {
      if (memory.kind == MemoryLine::Kind::kForPool) gib = std::min(gib.value_or(memory.gib), memory.gib);
    }
    return gib;
  };
  const std::string here = backends(log), there = backends(base);
  const auto gib = pool_gib(log), base_gib = pool_gib(base);
  Finding finding{"baseline.compared", Severity::kNote, "", {}, "", {}, ""};
  finding.what = "Against the baseline: KV dtype " + CacheDtype(base) + " -> " + CacheDtype(log) + "; backend " +
                 there + " -> " + here;
  if (gib && base_gib) {
    finding.what +=
        fmt::format("; memory for the pool {:.2f} -> {:.2f} GiB ({:+.2f} GiB)", *base_gib, *gib, *gib - *base_gib);
  }
  const PoolLine *pool = MainPool(log), *base_pool = MainPool(base);
  if (pool != nullptr && base_pool != nullptr) {
    finding.what += "; tokens " + Grouped(*base_pool->tokens) + " -> " + Grouped(*pool->tokens);
  }
  finding.what += ".";
  for (const BackendLine& backend : log.backends) {
    if (finding.evidence.size() < 3) finding.evidence.push_back(backend.line);
  }
  for (const BackendLine& backend : base.backends) {
    if (finding.evidence.size() < 6)
      finding.evidence.push_back({0, fmt::format("baseline line {}: {}", backend.line.number, backend.line.text)});
  }
  finding.why = "Only what is alike in both may be credited to the dtype.";
  finding.check = "both logs name the same backend";
  if (here != there) {
    finding.id = "baseline.backend_changed";
    finding.severity = Severity::kWarning;
    finding.why =
        "The backend changed with the dtype or a flag. Its workspace and block size come out of the same memory, and "
        "an error about the pool does not name it: it asks for a shorter context for no reason.";
    finding.type = {"--attention-backend " + (there == "not said" ? std::string("NAME") : there) +
                        "   # the same in both starts, where the dtype allows it",
                    "haypile plan MODEL   # what the pool would hold"};
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void FindPool(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  AddPoolNote(log, findings);
  AddMismatch(log, findings);
  AddBlockSize(log, findings);
  AddRankSpread(log, findings);
  AddBaseline(input, findings);
}

void FindLoad(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  if (log.load.empty()) return;
  double preemptions = 0.0, waiting = 0.0;
  const LoadLine* fullest = &log.load.front();
  double best_rate = 0.0, rate_when_full = -1.0;
  for (const LoadLine& load : log.load) {
    if (load.usage >= fullest->usage) fullest = &load;
    preemptions += load.preemptions.value_or(0.0);
    waiting = std::max(waiting, load.waiting.value_or(0.0));
    const double rate = load.generation_tokens_s.value_or(0.0);
    if (load.usage < 0.95) best_rate = std::max(best_rate, rate);
    if (load.usage >= 0.95) rate_when_full = rate_when_full < 0 ? rate : std::min(rate_when_full, rate);
  }
  const bool full = fullest->usage >= 0.95, waits = waiting > 0;
  if (preemptions == 0 && !full) {
    findings.push_back(
        {"load.room",
         Severity::kGood,
         fmt::format("The pool is not the limit: at most {:.1f}% of it was used, {:.0f} requests waited, none was "
                     "preempted.",
                     100 * fullest->usage, waiting),
         {fullest->line},
         "A smaller KV dtype would buy nothing here.",
         {ModelDtypeFlag(log.engine) + "   # keep the model's dtype"},
         "the usage stays below 90% at the peak of a day"});
    return;
  }
  Finding finding{"load.pool_is_limit", Severity::kProblem, "", {fullest->line}, "", {}, ""};
  finding.what =
      fmt::format("The pool is the limit: {:.1f}% of it in use, up to {:.0f} requests waiting, {:.0f} preemptions",
                  100 * fullest->usage, waiting, preemptions);
  if (rate_when_full >= 0 && best_rate > 0 && rate_when_full < 0.8 * best_rate) {
    finding.what +=
        fmt::format("; generation falls from {:.1f} to {:.1f} tokens/s once it is full", best_rate, rate_when_full);
  }
  finding.what += ".";
  if (!waits && preemptions == 0) finding.severity = Severity::kWarning;
  finding.why =
      "A preempted request loses what was computed and starts again: near 100% much of the work is done twice.";
  const int64_t running = static_cast<int64_t>(fullest->running.value_or(0.0));
  const int64_t fewer =
      std::max<int64_t>(1, static_cast<int64_t>(std::floor(running * 0.9 / std::max(fullest->usage, 0.9))));
  finding.type = {
      fmt::format(
          "--max-num-seqs {}   # so that prompts and what they will generate fit (SGLang: --max-running-requests)",
          fewer),
      "haypile plan MODEL --length-distribution FILE   # how many requests of your lengths each dtype holds",
      "haypile doctor --metrics http://HOST:PORT   # preemptions and recomputed tokens as counters"};
  finding.check = "no preemptions, and usage below 95%, under the same load";
  findings.push_back(std::move(finding));
}

}  // namespace haypile
