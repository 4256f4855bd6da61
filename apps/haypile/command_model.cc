#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/progress.h"
#include "command.h"
#include "modelstore/model_store.h"

namespace haypile {
namespace {

Status GetCommand(const std::string& name) {
  const KnownModel* model = FindKnownModel(name);
  if (model == nullptr) {
    return Error(ErrorCode::kNotFound, "unknown model '" + name + "'; known: " + KnownModelNames());
  }
  std::unique_ptr<Progress> progress;
  GetModelOptions options;
  options.on_progress = [&](double done_bytes, const std::string& what) {
    if (progress == nullptr) {
      progress = std::make_unique<Progress>("get " + name, static_cast<double>(model->size_bytes), "B");
    }
    progress->Update(done_bytes < 0 ? 0 : done_bytes, what);
  };
  options.show_license = [](const std::string& text) -> Status {
    fmt::print("{}\n", text);
    return {};
  };
  HAYPILE_TRY_ASSIGN(const GetModelResult got, GetModel(*model, options));
  progress.reset();
  fmt::print("{} {}\n", got.path, got.downloaded ? "(fetched and verified)" : "(already there)");
  return {};
}

Status ListCommand() {
  for (const KnownModel& model : KnownModels()) {
    fmt::print("{:<14} {:>6.1f} MB  {}  {}{}\n", model.name, static_cast<double>(model.size_bytes) / 1e6, model.license,
               model.description, IsCached(model) ? "  [fetched]" : "");
  }
  return {};
}

}  // namespace

void AddModelCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("model", "Fetch and list the models this program knows by name");
  command->require_subcommand(1);
  CLI::App* get = command->add_subcommand("get", "Fetch a known model into the cache folder");
  auto name = std::make_shared<std::string>();
  get->add_option("NAME", *name, "A known model: " + KnownModelNames())->required();
  get->callback([&chosen, name] { chosen = [name] { return GetCommand(*name); }; });
  CLI::App* list = command->add_subcommand("list", "List the known models");
  list->callback([&chosen] { chosen = ListCommand; });
}

}  // namespace haypile
