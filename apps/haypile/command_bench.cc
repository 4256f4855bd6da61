#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/json.h"
#include "base/machine.h"
#include "base/progress.h"
#include "cache_flags.h"
#include "checkpoint/checkpoint.h"
#include "command.h"
#include "compare/capacity.h"
#include "compare/depth_speed.h"
#include "kernels/isa/isa.h"
#include "modelstore/model_store.h"
#include "output.h"
#include "report/text_table.h"
#include "version.h"

namespace haypile {
namespace {

struct BenchFlags {
  CompareRequest request;
  std::string dtypes = "bf16,fp8";
  DepthSpeedOptions options;
  int threads = 0;
  bool json = false, quiet = false;
};

struct DtypeSpeed {
  std::string dtype;
  std::vector<DepthSpeed> depths;
};

Json SpeedJson(const SpeedSamples& speed) {
  if (speed.samples.empty()) return nullptr;
  const MedianSpread summary = speed.Summary();
  return {{"tokens_per_s", summary.median}, {"spread", summary.spread}, {"samples", speed.samples}};
}

Json BenchJson(const BenchFlags& flags, const Session& session, const std::vector<DtypeSpeed>& runs) {
  Json json = {
      {"schema", "haypile.bench/1"},
      {"tool_version", kVersion},
      {"commit", kCommit},
      {"model", session.source},
      {"machine", {{"cpu", CpuModel()}, {"isa", std::string(IsaName(ActiveIsa()))}, {"threads", session.pool->size()}}},
      {"prompt_tokens", flags.options.prompt_tokens},
      {"decode_tokens", flags.options.decode_tokens},
      {"repeats", flags.options.repeats},
      {"runs", Json::array()}};
  for (const DtypeSpeed& run : runs) {
    Json depths = Json::array();
    for (const DepthSpeed& speed : run.depths) {
      depths.push_back(
          {{"depth", speed.depth}, {"prefill", SpeedJson(speed.prefill)}, {"decode", SpeedJson(speed.decode)}});
    }
    json["runs"].push_back({{"kv_cache_dtype", run.dtype}, {"depths", std::move(depths)}});
  }
  return json;
}

std::string SpeedText(const SpeedSamples& speed) {
  if (speed.samples.empty()) return "-";
  const MedianSpread summary = speed.Summary();
  return fmt::format("{:.1f} +- {:.1f}", summary.median, summary.spread);
}

TextTable BenchTable(const BenchFlags& flags, const std::vector<DtypeSpeed>& runs) {
  TextTable table({{"KV cache"},
                   {"depth", Align::kRight},
                   {fmt::format("prefill of {}, tok/s", flags.options.prompt_tokens), Align::kRight},
                   {fmt::format("decode of {}, tok/s", flags.options.decode_tokens), Align::kRight}});
  for (const DtypeSpeed& run : runs) {
    for (const DepthSpeed& speed : run.depths) {
      table.AddRow({run.dtype, std::to_string(speed.depth), SpeedText(speed.prefill), SpeedText(speed.decode)});
    }
  }
  return table;
}

Status RunBench(BenchFlags& flags) {
  HAYPILE_TRY_ASSIGN(flags.request.dtypes, ParseDtypeList(flags.dtypes));
  HAYPILE_TRY_ASSIGN(const std::string path, ResolveModel(flags.request.model));
  std::vector<Lane> lanes;
  {
    HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(path));
    HAYPILE_TRY(CheckDepthSpeed(flags.options, checkpoint->spec().max_positions));
    HAYPILE_TRY_ASSIGN(lanes, MakeLanes(checkpoint->spec(), flags.request, checkpoint->kv_scales()));
  }
  HAYPILE_TRY_ASSIGN(const Session session, Session::Load(path, flags.threads));
  std::vector<DtypeSpeed> runs;
  const auto tokens_of_lane = static_cast<double>(flags.options.AllTokens());
  std::unique_ptr<Progress> progress;  // not before the first step: an error then stands alone
  const auto update = [&](double tokens, const std::string& what) {
    const double total = tokens_of_lane * static_cast<double>(lanes.size());
    if (progress == nullptr) progress = std::make_unique<Progress>("bench", total, "tok", flags.quiet);
    progress->Update(tokens, what);
  };
  for (const Lane& lane : lanes) {
    DtypeSpeed run{lane.dtype.Name(), {}};
    const double before = tokens_of_lane * static_cast<double>(runs.size());
    HAYPILE_TRY_ASSIGN(run.depths,
                       MeasureDepthSpeed(session, lane, flags.options, [&](int64_t tokens, const std::string& what) {
                         update(before + static_cast<double>(tokens), run.dtype + ": " + what);
                       }));
    runs.push_back(std::move(run));
  }
  if (progress != nullptr) progress->Finish();
  if (flags.json) {
    fmt::print("{}\n", DumpJson(BenchJson(flags, session, runs)));
  } else {
    fmt::print("{}", BenchTable(flags, runs).Render(OutputWidth(), OutputHasColour()));
  }
  return {};
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Time prefill and decode with so many tokens cached");
  auto flags = std::make_shared<BenchFlags>();
  const auto tokens = CLI::Range(int64_t{0}, int64_t{1} << 30);
  command->add_option("MODEL", flags->request.model, "A known name, a GGUF file or a Hugging Face folder")->required();
  command->add_option("--kv-cache-dtype", flags->dtypes, "Formats, by commas; one name, or K/V: " + KvFormatNames())
      ->capture_default_str();
  command->add_option("--depth", flags->options.depths, "Cached tokens before each measurement, by commas")
      ->delimiter(',')
      ->check(tokens)
      ->default_str("0");
  command->add_option("--prompt-tokens", flags->options.prompt_tokens, "Tokens of the prefill; 0: none is timed")
      ->check(tokens)
      ->capture_default_str();
  command->add_option("--decode-tokens", flags->options.decode_tokens, "Tokens decoded one by one; 0: none is timed")
      ->check(tokens)
      ->capture_default_str();
  command->add_option("--repeats", flags->options.repeats, "Samples of each figure, whose median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddCacheFlags(*command, flags->request.skip_layers, flags->request.scales_path, flags->request.page_tokens);
  AddThreadsFlag(*command, flags->threads);
  command->add_flag("-q,--quiet", flags->quiet, "No progress");
  command->add_flag("--json", flags->json, "Print JSON (haypile.bench/1)");
  command->callback([&chosen, flags] { chosen = [flags] { return RunBench(*flags); }; });
}

}  // namespace haypile
