#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/json.h"
#include "command.h"
#include "output.h"
#include "plan_flags.h"
#include "plan_text.h"

namespace haypile {
namespace {

Status RunPlanCommand(const PlanFlags& flags) {
  HAYPILE_TRY_ASSIGN(const PlanJob job, MakeJob(flags));
  HAYPILE_TRY_ASSIGN(const PlanDocument document, RunPlan(job));
  if (flags.json) {
    fmt::print("{}\n", DumpJson(ToJson(document)));
  } else {
    fmt::print("{}", PlanText(document, flags.explain, OutputWidth(), OutputHasColour()));
  }
  return {};
}

}  // namespace

void AddPlanCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command =
      app.add_subcommand("plan", "Plan an engine's KV pool to the token: what each dtype holds, and why");
  auto flags = std::make_shared<PlanFlags>();
  AddPlanFlags(*command, *flags);
  command->callback([&chosen, flags, command] {
    flags->solve_given = command->get_option("--solve")->count() > 0;
    // A bare --solve before MODEL takes MODEL for its value.
    const auto questions = SolveQuestions();
    if (flags->model.empty() && !flags->solve.empty() &&
        std::find(questions.begin(), questions.end(), flags->solve.back()) == questions.end()) {
      flags->model = flags->solve.back();
      flags->solve.pop_back();
    }
    chosen = [flags] { return RunPlanCommand(*flags); };
  });
}

}  // namespace haypile
