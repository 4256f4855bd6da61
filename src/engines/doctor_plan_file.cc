#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "engines/doctor_plan.h"
#include "engines/log_scan.h"
#include "planner/number_text.h"

namespace haypile {
namespace {

constexpr double kClose = 0.01;

bool Close(double a, double b) { return std::abs(a - b) <= kClose * std::max(std::abs(a), std::abs(b)); }

std::optional<double> MostGib(const LogRecord& log, MemoryLine::Kind kind, std::vector<LogLine>& evidence) {
  const MemoryLine* most = nullptr;
  for (const MemoryLine& memory : log.memory) {
    if (memory.kind == kind && (most == nullptr || memory.gib > most->gib)) most = &memory;
  }
  if (most == nullptr) return std::nullopt;
  evidence.push_back(most->line);
  return most->gib;
}

// Which of the plan's terms the log contradicts, in words; "" where it names none.
std::string TermsThatDiffer(const DoctorInput& input, std::vector<LogLine>& evidence) {
  std::string text;
  const auto compare = [&](MemoryLine::Kind kind, const char* name) {
    const auto planned = input.plan->Term(name);
    std::vector<LogLine> line;
    const auto printed = MostGib(*input.log, kind, line);
    if (!planned || !printed) return;
    const double planned_gib = std::abs(static_cast<double>(*planned)) / kGib;
    if (std::abs(planned_gib - *printed) < std::max(0.1, 0.02 * planned_gib)) return;
    text += fmt::format("{} took {:.2f} GiB, {:.2f} planned ({:+.2f}); ", name, *printed, planned_gib,
                        *printed - planned_gib);
    evidence.insert(evidence.end(), line.begin(), line.end());
  };
  compare(MemoryLine::Kind::kWeights, "weights");
  compare(MemoryLine::Kind::kGraphs, "CUDA graphs");
  return text;
}

void ExplainByBytes(const DoctorInput& input, const PlannedRow& row, const PoolLine& pool, Finding& finding) {
  const auto bytes = PoolBytesOf(*input.log);
  const double planned_bytes = static_cast<double>(row.pool_bytes);
  const double gap =
      static_cast<double>(row.pool_tokens - *pool.tokens) * static_cast<double>(row.bytes_per_token) / kGib;
  if (bytes && !Close(bytes->bytes, planned_bytes)) {
    finding.id = "plan.differs_by_memory";
    std::vector<LogLine> evidence;
    const std::string terms = TermsThatDiffer(input, evidence);
    finding.what += fmt::format(" The memory differs: {:.2f} GiB for the pool, {:.2f} planned ({:+.2f}). {}",
                                bytes->bytes / kGib, planned_bytes / kGib, (bytes->bytes - planned_bytes) / kGib,
                                terms.empty() ? "The log does not say which term took it." : "By term: " + terms);
    while (finding.what.ends_with(' ') || finding.what.ends_with(';')) finding.what.pop_back();
    if (!terms.empty()) finding.what += ".";
    finding.evidence.insert(finding.evidence.end(), evidence.begin(), evidence.end());
    return;
  }
  const SaidCount& block = input.log->attention_block;
  if (block && block->value != row.block_size) {
    finding.id = "plan.differs_by_block_size";
    finding.what += fmt::format(" The block size differs: {} tokens in the log, {} planned.", Grouped(block->value),
                                Grouped(row.block_size));
    finding.evidence.push_back(block->line);
    return;
  }
  finding.what += bytes ? fmt::format(
                              " The memory is as planned ({:.2f} GiB), so a token costs another number of bytes than "
                              "the planned {}: another dtype, other layers or another length.",
                              bytes->bytes / kGib, Grouped(row.bytes_per_token))
                        : fmt::format(" At the planned {} bytes a token that is {:.2f} GiB.",
                                      Grouped(row.bytes_per_token), std::abs(gap));
}

// The row of the plan whose tokens are the printed ones, though another was asked for.
const PlannedRow* RowThatFits(const PlanFile& plan, const PlannedRow* not_this, int64_t tokens) {
  for (const PlannedRow& row : plan.rows) {
    const bool same = not_this != nullptr && row.bytes_per_token == not_this->bytes_per_token;
    if (!row.refused && !same && Close(static_cast<double>(row.pool_tokens), static_cast<double>(tokens))) return &row;
  }
  return nullptr;
}

}  // namespace

void FindPlanFileGap(const DoctorInput& input, const PoolLine& pool, Findings& findings) {
  const PlanFile& plan = *input.plan;
  const LogRecord& log = *input.log;
  const std::string asked = log.kv_dtype_requested ? log.kv_dtype_requested->value : CacheDtype(log);
  const PlannedRow* row = plan.Find(asked);
  if (row == nullptr && plan.rows.size() == 1) row = &plan.rows.front();
  const std::string explain = "haypile plan " + (plan.model.empty() ? std::string("MODEL") : plan.model) +
                              " --explain   # every term of the number";
  if (row == nullptr) {
    findings.push_back(
        {"plan.no_such_dtype",
         Severity::kUnknown,
         "The plan '" + plan.path + "' has no row for the dtype of the log (" + (asked.empty() ? "not said" : asked) +
             "), so the pool was not compared.",
         {pool.line},
         "Pools of different dtypes cannot be compared.",
         {"haypile plan MODEL --kv-cache-dtype " + (asked.empty() ? "auto" : asked) + " --json > plan.json"},
         "this command compares the numbers"});
    return;
  }
  const double planned = static_cast<double>(row->pool_tokens), printed = static_cast<double>(*pool.tokens);
  Finding finding{"plan.agrees", Severity::kGood, "", {pool.line}, "", {explain}, "the plan and the log agree"};
  finding.what = fmt::format("{} tokens printed, {} planned for {} in '{}' ({:+.1f}%).", Grouped(*pool.tokens),
                             Grouped(row->pool_tokens), row->kv_cache_dtype, plan.path,
                             planned > 0 ? 100.0 * (printed / planned - 1.0) : 0.0);
  finding.why = "The engine allocates what was planned.";
  if (!Close(planned, printed)) {
    finding.id = "plan.differs";
    finding.severity = Severity::kWarning;
    finding.why = "A pool that is not as planned holds another dtype, other layers or less memory than believed.";
    if (const PlannedRow* other = RowThatFits(plan, row, *pool.tokens)) {
      finding.id = "plan.differs_by_dtype";
      finding.what += fmt::format(" It is the number planned for {}: the dtype is not the one asked for ({}).",
                                  other->kv_cache_dtype, row->kv_cache_dtype);
    } else {
      ExplainByBytes(input, *row, pool, finding);
    }
  }
  findings.push_back(std::move(finding));
}

}  // namespace haypile
