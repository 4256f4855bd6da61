#include "plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/number_text.h"
#include "report/text_table.h"

namespace haypile {
namespace {

std::string Gigabytes(int64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

// Blocks of wrapped lines under a heading.
class Writer {
 public:
  Writer(int width, bool colour) : width_(width), colour_(colour) {}

  void Heading(const std::string& title) { text_ += "\n" + Toned(title, CellTone::kStrong, colour_) + "\n"; }

  // A line broken at spaces; what follows the first line is indented two more.
  void Line(const std::string& line, int indent = 2, CellTone tone = CellTone::kPlain) {
    const auto room = static_cast<size_t>(std::max(width_ - indent - 2, 20));
    bool first = true;
    for (const std::string& part : WrapText(WithoutControls(line), room)) {
      text_ += std::string(static_cast<size_t>(indent + (first ? 0 : 2)), ' ') + Toned(part, tone, colour_) + "\n";
      first = false;
    }
  }

  // To be copied: never broken.
  void Verbatim(const std::string& line, int indent) {
    text_ += std::string(static_cast<size_t>(indent), ' ') + WithoutControls(line) + "\n";
  }

  void Table(const TextTable& table) { text_ += table.Render(width_, colour_, 2); }

  std::string Take() && { return std::move(text_); }

 private:
  int width_;
  bool colour_;
  std::string text_;
};

void WriteModel(const PlanDocument& document, Writer* out) {
  const ModelGeometry& model = document.model;
  const PlanRequest& request = document.request;
  out->Heading("Plan");
  out->Line(fmt::format("{} ({})", model.name, model.architecture));
  std::string layers;
  for (const std::string& line : LayerSummary(model)) layers += (layers.empty() ? "" : ", ") + line;
  out->Line("layers: " + layers);
  std::string engine = fmt::format("{} {}", EngineName(request.engine), request.version.Text());
  if (document.gpu) {
    engine += fmt::format(" on {} x {} ({}, {:.0f} GB/s)", document.gpu_count, document.gpu->name,
                          Gigabytes(document.gpu->memory_bytes), document.gpu->bandwidth_bytes_per_second / 1e9);
  } else if (request.device == DeviceKind::kCpu) {
    engine += " on the CPU";
  }
  engine += fmt::format(", tensor parallel {}", request.tensor_parallel);
  if (request.pipeline_parallel > 1) engine += fmt::format(", pipeline parallel {}", request.pipeline_parallel);
  if (request.decode_context_parallel > 1) {
    engine += fmt::format(", decode context parallel {}", request.decode_context_parallel);
  }
  if (request.data_parallel > 1)
    engine += fmt::format(", {} data parallel ranks with a pool each", request.data_parallel);
  out->Line(engine);
}

void WriteMemory(const PlanDocument& document, Writer* out) {
  out->Heading("Memory of one rank");
  if (!document.budget) {
    if (document.request.pool_bytes_per_rank.empty()) {
      out->Line("the context size decides");
    } else {
      out->Line(fmt::format("pool: {} (given)", Gigabytes(document.request.pool_bytes_per_rank.front())));
    }
    return;
  }
  TextTable table({{"", Align::kLeft}, {"GB", Align::kRight}, {"known", Align::kLeft}, {"rule", Align::kLeft, true}});
  for (const BudgetTerm& term : document.budget->terms) {
    const bool assumed = term.source == TermSource::kAssumed;
    table.AddRow({term.name, fmt::format("{:+.2f}", static_cast<double>(term.bytes) / 1e9),
                  TableCell(TermSourceName(term.source), assumed ? CellTone::kWarn : CellTone::kPlain), term.note});
  }
  table.AddRule();
  table.AddRow(
      {"KV cache",
       TableCell(fmt::format("{:.2f}", static_cast<double>(document.budget->pool_bytes) / 1e9), CellTone::kStrong), "",
       ""});
  out->Table(table);
}

std::string Times(const std::optional<PoolRatio>& ratio) { return ratio ? fmt::format("{:.2f}", ratio->tokens) : "-"; }

std::string Theory(const std::optional<PoolRatio>& ratio) {
  return ratio && ratio->theory ? fmt::format("{:.2f}", *ratio->theory) : "-";
}

std::string TokensPerGb(const PoolPlan& pool) {
  if (pool.pool_bytes <= 0) return "-";
  return Grouped(std::llround(static_cast<double>(pool.pool_tokens) / static_cast<double>(pool.pool_bytes) * 1e9));
}

void WriteTable(const PlanDocument& document, Writer* out) {
  out->Heading("What each KV cache dtype holds");
  std::vector<TableColumn> columns{{"dtype", Align::kLeft},
                                   {"bytes/token", Align::kRight},
                                   {"pool tokens", Align::kRight},
                                   {"tokens/GB", Align::kRight},
                                   {"requests, full", Align::kRight}};
  if (document.lengths) columns.push_back({"at lengths", Align::kRight});
  for (const char* title : {"x 16-bit", "theory", "x 8-bit", "theory"}) columns.push_back({title, Align::kRight});
  TextTable table(columns);
  for (const PlanRow& row : document.rows) {
    const PoolPlan& pool = row.pool;
    std::vector<TableCell> cells{pool.kv_cache_dtype, pool.bytes_per_token > 0 ? Grouped(pool.bytes_per_token) : "-"};
    if (pool.refused) {
      cells.emplace_back("refused", CellTone::kBad);
      while (cells.size() < columns.size()) cells.emplace_back("-");
    } else {
      cells.emplace_back(Grouped(pool.pool_tokens), CellTone::kStrong);
      cells.emplace_back(TokensPerGb(pool));
      cells.emplace_back(fmt::format("{:.2f}", pool.max_concurrency));
      if (document.lengths)
        cells.emplace_back(row.requests_at_lengths ? fmt::format("{:.2f}", *row.requests_at_lengths) : "-");
      for (const std::string& text :
           {Times(row.to_16_bit), Theory(row.to_16_bit), Times(row.to_8_bit), Theory(row.to_8_bit)}) {
        cells.emplace_back(text);
      }
    }
    table.AddRow(std::move(cells));
  }
  out->Table(table);
  for (const PlanRow& row : document.rows) {
    if (row.pool.refused) continue;
    out->Line(fmt::format(
        "requests, full: of {} tokens{}", Grouped(row.pool.max_model_len),
        document.lengths ? fmt::format("; at lengths: mean {:.0f} tokens", document.lengths->MeanTokens()) : ""));
    break;
  }
}

void WriteRefusal(const Refusal& refusal, Writer* out) {
  out->Line("The engine refuses to start: " + refusal.reason, 2, CellTone::kBad);
  if (refusal.estimated_max_model_len) {
    out->Line(fmt::format("It estimates --max-model-len {} to fit.", *refusal.estimated_max_model_len));
  }
}

void WriteShares(const PoolPlan& pool, Writer* out) {
  if (pool.shares.empty()) return;
  int64_t total = 0;
  for (const ByteShare& share : pool.shares) total += share.bytes;
  TextTable table(
      {{"where the pool's bytes go", Align::kLeft, true}, {"bytes", Align::kRight}, {"share", Align::kRight}});
  for (const ByteShare& share : pool.shares) {
    table.AddRow(
        {share.what, Grouped(share.bytes),
         fmt::format("{:.2f} %",
                     total > 0 ? 100.0 * static_cast<double>(share.bytes) / static_cast<double>(total) : 0.0)});
  }
  out->Table(table);
}

std::string ContextText(const std::optional<double>& tokens) {
  if (!tokens) return "at no context";
  return *tokens < 1.0 ? "at every context" : fmt::format("from {} tokens", Grouped(std::llround(*tokens)));
}

void WriteRoofline(const PlanDocument& document, const RowRoofline& roofline, Writer* out) {
  const auto line = [&](const char* what, const PassTime& pass) {
    out->Line(
        fmt::format("{}: {:.2f} ms a pass (weights {:.2f}, KV {:.2f}, quantization {:.2f}, drafter {:.2f}), {:.1f} "
                    "tokens/s a request, {:.0f} in all",
                    what, pass.total_seconds * 1e3, pass.weight_seconds * 1e3, pass.kv_seconds * 1e3,
                    pass.quantization_seconds * 1e3, pass.drafter_seconds * 1e3, pass.tokens_per_second_per_request,
                    pass.tokens_per_second));
  };
  line("decode roofline, one request", roofline.one_request);
  line(fmt::format("decode roofline, {:.0f} requests", roofline.full_pool_requests).c_str(), roofline.full_pool);
  if (document.drafter) {
    out->Line(fmt::format(
        "{:.2f} tokens a pass of {} proposed and one{}", document.drafter->accepted_tokens,
        document.drafter->proposed_tokens,
        document.accepted_tokens_assumed ? " (assumed: 60 % of proposals are taken; --acceptance-length)" : ""));
  }
}

void WriteRow(const PlanDocument& document, const PlanRow& row, Writer* out) {
  const PoolPlan& pool = row.pool;
  out->Heading(pool.kv_cache_dtype +
               (pool.resolved_kv_cache_dtype.empty() || pool.resolved_kv_cache_dtype == pool.kv_cache_dtype
                    ? ""
                    : " = " + pool.resolved_kv_cache_dtype));
  if (pool.refused) {
    WriteRefusal(*pool.refused, out);
  } else {
    if (!row.bytes_from.empty()) {
      out->Line(fmt::format("{} bytes a token: {}", Grouped(pool.bytes_per_token), row.bytes_from));
    }
    if (pool.bytes_per_request > 0) {
      out->Line(fmt::format("{} bytes a request besides: states and full windows", Grouped(pool.bytes_per_request)));
    }
    WriteShares(pool, out);
    const auto reason = [&](const char* than, const std::optional<PoolRatio>& ratio) {
      if (ratio && !ratio->reason.empty())
        out->Line(fmt::format("{:.2f} x the {} pool: {}", ratio->tokens, than, ratio->reason));
    };
    reason("16-bit", row.to_16_bit);
    reason("8-bit", row.to_8_bit);
    if (row.roofline) {
      WriteRoofline(document, *row.roofline, out);
      if (row.element_bits.value_or(16.0) < 16.0) {
        out->Line(fmt::format("decodes faster than the 16-bit cache {} with one request, {} with its full pool",
                              ContextText(row.roofline->pays_from_one_request),
                              ContextText(row.roofline->pays_from_full_pool)));
      }
    }
  }
  if (!pool.log_lines.empty()) out->Line("expect in the log:");
  for (const std::string& line : pool.log_lines) out->Verbatim(line, 4);
  out->Line("type:");
  for (const std::string& line : row.flags.start) out->Verbatim(line, 4);
  out->Line("roll back:");
  for (const std::string& line : row.flags.roll_back) out->Verbatim(line, 4);
  for (const std::string& warning : pool.warnings) out->Line("warning: " + warning, 2, CellTone::kWarn);
}

void WriteDerivation(const PoolPlan& pool, Writer* out) {
  if (pool.derivation.empty()) return;
  out->Heading("Derivation, " + pool.kv_cache_dtype);
  for (const DerivationStep& step : pool.derivation) {
    out->Line(step.what + (step.formula.empty() ? "" : " = " + step.formula));
    std::string numbers = step.substituted;
    if (!step.value.empty() && step.value != numbers) numbers += (numbers.empty() ? "" : " = ") + step.value;
    if (!numbers.empty()) out->Line("= " + numbers, 6);
  }
}

}  // namespace

std::string PlanText(const PlanDocument& document, bool explain, int width, bool colour) {
  Writer out(width, colour);
  WriteModel(document, &out);
  WriteMemory(document, &out);
  WriteTable(document, &out);
  if (!document.solutions.empty()) out.Heading("Solved");
  for (const PlanSolution& solution : document.solutions) {
    out.Line(fmt::format("{}, {}: {}", solution.question, solution.kv_cache_dtype, solution.text));
  }
  for (const PlanRow& row : document.rows) {
    WriteRow(document, row, &out);
    if (explain) WriteDerivation(row.pool, &out);
  }
  if (!document.warnings.empty()) out.Heading("Warnings");
  for (const std::string& warning : document.warnings) out.Line(warning, 2, CellTone::kWarn);
  return std::move(out).Take().substr(1);
}

}  // namespace haypile
