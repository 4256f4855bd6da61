#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "engines/doctor.h"
#include "engines/doctor_plan.h"
#include "engines/log_scan.h"
#include "planner/number_text.h"

namespace haypile {
namespace {

// SGLang's own account of one rank: what lay free before and after the weights, what the pools took, what is left.
struct Account {
  const PoolLine* scheduler = nullptr;
  double free_gib = 0.0;      // after everything
  double before_gib = 0.0;    // before the weights; 0: not known
  double reserved_gib = 0.0;  // kept free on purpose: memory before the weights times (1 - fraction); 0: not known
  double pool_gib = 0.0;      // of tokens
  double state_gib = 0.0;     // of recurrent states, which cost the same whatever the tokens
  std::vector<LogLine> evidence;
};

std::optional<Account> AccountOf(const LogRecord& log) {
  Account account;
  for (const PoolLine& pool : log.pools) {
    if (pool.what == "scheduler") account.scheduler = &pool;
    if (pool.bytes && pool.what != "scheduler") {
      (pool.what == "state" ? account.state_gib : account.pool_gib) += *pool.bytes / kGib;
    }
  }
  if (account.scheduler == nullptr) return std::nullopt;
  bool known = false;
  std::optional<double> before;
  for (const MemoryLine& memory : log.memory) {
    if (memory.kind == MemoryLine::Kind::kFreeAtEnd && Contains(memory.line.text, "available_gpu_mem")) {
      account.free_gib = known ? std::min(account.free_gib, memory.gib) : memory.gib;
      known = true;
    }
    if (memory.kind == MemoryLine::Kind::kBeforeWeights && !before) before = memory.gib;
  }
  if (!known) return std::nullopt;
  account.before_gib = before.value_or(0.0);
  if (before && log.memory_fraction) account.reserved_gib = *before * (1.0 - log.memory_fraction->value);
  account.evidence.push_back(account.scheduler->line);
  for (const PoolLine& pool : log.pools) {
    if (pool.bytes && account.evidence.size() < 4) account.evidence.push_back(pool.line);
  }
  return account;
}

// Random copies of a drafter's embedding and head, held while free memory was measured.
std::optional<double> EmbeddingPairGib(const DoctorInput& input) {
  if (input.checkpoint == nullptr || !input.checkpoint->geometry_known) return std::nullopt;
  const ModelGeometry& model = input.checkpoint->geometry;
  const double one = static_cast<double>(model.vocabulary_size) * model.hidden_size * model.model_dtype_bytes;
  return one > 0 ? std::optional<double>(2.0 * one / kGib) : std::nullopt;
}

}  // namespace

std::string DrafterCause(const DoctorInput& input, double unused_gib) {
  const LogRecord& log = *input.log;
  const auto pair = EmbeddingPairGib(input);
  if (log.speculative && pair && std::abs(unused_gib - *pair) <= std::max(0.15, 0.1 * *pair)) {
    return fmt::format(
        " That is the size of one embedding and one output head ({:.2f} GiB together): the drafter's own copies "
        "were freed only after the pool had been sized.",
        *pair);
  }
  if (log.speculative) {
    return " With speculative decoding, copies of the drafter's embedding and head are held while free memory is "
           "measured in "
           "some versions.";
  }
  return "";
}

void FindIdleMemory(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  const auto account = AccountOf(log);
  if (!account) return;
  const int64_t tokens = *account->scheduler->tokens;
  const int64_t length = account->scheduler->max_model_len.value_or(0);
  const double unused = account->free_gib - account->reserved_gib;
  // What is kept free on purpose is not known without the fraction: by default it is up to a fifth of the device.
  const double floor_gib =
      account->reserved_gib > 0 ? std::max(2.0, 0.1 * account->free_gib) : std::max(8.0, 0.2 * account->before_gib);
  // Graphs and workspaces take a few GiB of what is kept free; a pool that is no larger than one context is no choice.
  const bool tiny = length > 0 && tokens < length / 4 && account->free_gib > 4.0;
  if (unused < floor_gib && !tiny) return;
  const bool capped = log.max_total_tokens_asked && tokens >= log.max_total_tokens_asked->value * 99 / 100;
  Finding finding{"pool.memory_unused", Severity::kWarning, "", account->evidence, "", {}, ""};
  const double per_token =
      account->pool_gib > 0 && tokens > 0 ? account->pool_gib * kGib / static_cast<double>(tokens) : 0.0;
  finding.what = fmt::format("{:.2f} GiB stay free after the start", account->free_gib);
  if (account->reserved_gib > 0) {
    finding.what += fmt::format(", {:.2f} GiB of them on purpose (--mem-fraction-static {:.2f})", account->reserved_gib,
                                log.memory_fraction->value);
  }
  finding.what += fmt::format(": {:.2f} GiB unused beside a pool of {} tokens", std::max(unused, 0.0), Grouped(tokens));
  if (per_token > 0) {
    const std::string states =
        account->state_gib > 0 ? fmt::format(" and {:.2f} GiB of states", account->state_gib) : std::string();
    finding.what +=
        fmt::format(" ({:.2f} GiB, {:.0f} bytes a token{}; the unused part would hold {} more)", account->pool_gib,
                    per_token, states, Grouped(static_cast<int64_t>(std::max(unused, 0.0) * kGib / per_token)));
  }
  finding.what += ".";
  finding.check = "max_total_num_tokens grows and available_gpu_mem falls at the next start";
  if (tiny && !capped) {
    finding.id = "pool.measurement_fault";
    finding.severity = Severity::kProblem;
    finding.what +=
        fmt::format(" The pool is below a {}th of one context of {} tokens: free memory was measured at a bad moment.",
                    std::max<int64_t>(length / std::max<int64_t>(tokens, 1), 1), Grouped(length)) +
        DrafterCause(input, unused);
    finding.why = "Every longer prompt is refused although the memory is there. Reducing the context would not help.";
    finding.type = {"update the engine, or start it again with nothing else on the devices",
                    "haypile plan MODEL --engine sglang   # the tokens to expect"};
  } else if (capped) {
    finding.id = "pool.limited_by_flag";
    finding.evidence.push_back(log.max_total_tokens_asked->line);
    finding.what +=
        " The limit is --max-total-tokens " + Grouped(log.max_total_tokens_asked->value) + ", not the memory.";
    finding.why = "A smaller KV dtype cannot make this pool hold more: the flag does not let it.";
    finding.type = {"leave --max-total-tokens out, or raise it"};
  } else {
    const std::string asked = log.max_total_tokens_asked
                                  ? " --max-total-tokens " + Grouped(log.max_total_tokens_asked->value) +
                                        " asked for more than the profile gave."
                                  : "";
    finding.what += DrafterCause(input, unused) + asked;
    if (log.max_total_tokens_asked) finding.evidence.push_back(log.max_total_tokens_asked->line);
    finding.why = "The pool is smaller than the memory allows; requests wait for room that exists.";
    finding.type = {log.memory_fraction
                        ? fmt::format("--mem-fraction-static {:.2f}   # limiting flag; leave 1-2 GiB free",
                                      std::min(0.95, log.memory_fraction->value + 0.05))
                        : "--mem-fraction-static   # raise it until 1-2 GiB stay free",
                    "update the engine where speculative decoding is on"};
  }
  findings.push_back(std::move(finding));
}

}  // namespace haypile
