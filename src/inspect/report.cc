#include "inspect/report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/json.h"
#include "checkpoint/kv_scale_tensors.h"
#include "inspect/checkpoint_findings.h"
#include "inspect/scale_findings.h"
#include "planner/model_config.h"

namespace haypile {
namespace {

constexpr uint64_t kLargestConfigBytes = 16 << 20;

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

void Append(CheckpointFindings more, CheckpointFindings* all) {
  std::move(more.begin(), more.end(), std::back_inserter(*all));
}

std::vector<DtypeShare> DtypesOf(const CheckpointHeaders& headers) {
  std::map<std::string, DtypeShare> shares;
  for (const HeaderTensor& tensor : headers.tensors) {
    DtypeShare& share = shares[tensor.dtype];
    share.dtype = tensor.dtype;
    ++share.tensors;
    share.bytes += tensor.bytes;
  }
  std::vector<DtypeShare> result;
  for (auto& [name, share] : shares) result.push_back(std::move(share));
  std::sort(result.begin(), result.end(), [](const DtypeShare& a, const DtypeShare& b) { return a.bytes > b.bytes; });
  return result;
}

// The shape of the cache does not depend on how the model is quantized: what is said of that and is not understood, or
// odd, is a finding (ReadDeclaration) and no reason to know less of the shape.
Result<ModelGeometry> GeometryOf(const std::string& config, const std::string& name, const std::string& hf_quant) {
  Result<ModelGeometry> geometry = ParseModelConfig(config, name, hf_quant);
  if (geometry.ok()) return geometry;
  Result<Json> json = ParseJson(config);
  if (!json.ok() || !json->is_object()) return geometry;
  const auto strip = [](Json* object) {
    object->erase("quantization_config");
    object->erase("compression_config");
  };
  strip(&*json);
  for (auto& [key, part] : json->items()) {
    if (part.is_object()) strip(&part);
  }
  Result<ModelGeometry> plain = ParseModelConfig(DumpJson(*json), name);
  return plain.ok() ? std::move(plain) : std::move(geometry);
}

Status ReadConfigs(const std::string& folder, const std::string& config_path, InspectReport* report) {
  HAYPILE_TRY_ASSIGN(const std::string config, ReadSmallFile(config_path, kLargestConfigBytes, &report->read));
  std::string hf_quant;
  const std::string hf_path = folder + "/hf_quant_config.json";
  if (IsFile(hf_path)) {
    HAYPILE_TRY_ASSIGN(hf_quant, ReadSmallFile(hf_path, kLargestConfigBytes, &report->read));
    if (hf_quant.empty()) return Error(ErrorCode::kMalformed, "'" + hf_path + "': the file is empty; expected JSON");
  }
  HAYPILE_TRY_ASSIGN(report->declaration, ReadDeclaration(config, hf_quant, folder));
  report->architecture = report->declaration.architecture;
  report->model_type = report->declaration.model_type;
  Result<ModelGeometry> geometry = GeometryOf(config, report->name, hf_quant);
  if (geometry.ok()) {
    report->geometry = std::move(geometry).value();
  } else if (geometry.error().code() == ErrorCode::kUnsupported || !report->declaration.layers_by_known_name) {
    // A model with names of its own for its layers (OpenELM) is not understood; its file is not broken.
    report->findings.push_back(
        {FindingLevel::kWarning, "geometry_unknown",
         "the KV geometry is not known, layers are counted by their tensors: " + geometry.error().message(), ""});
  } else {
    return std::move(geometry).error();
  }
  return {};
}

Status ReadTensors(const std::string& folder, InspectReport* report) {
  Result<CheckpointHeaders> headers = ReadCheckpointHeaders(folder, &report->read);
  if (headers.ok()) {
    report->headers = std::move(headers).value();
    report->container = "safetensors";
    return {};
  }
  std::error_code ignored;
  const bool none = headers.error().code() == ErrorCode::kNotFound &&
                    !IsFile(folder + "/model.safetensors.index.json") &&
                    headers.error().message().find("holds no safetensors") != std::string::npos;
  if (!none) return std::move(headers).error();
  const bool pickled = IsFile(folder + "/pytorch_model.bin") || IsFile(folder + "/pytorch_model.bin.index.json");
  report->findings.push_back({FindingLevel::kWarning, "no_safetensors",
                              pickled
                                  ? "weights are pickled (pytorch_model.bin): their KV scales cannot be read"
                                  : "no safetensors file in the folder: weights and KV scales are not known; engines "
                                    "are told as for a checkpoint without KV scales",
                              pickled ? "convert them to safetensors" : ""});
  return {};
}

// The first GGUF file of a folder; empty: there is none.
std::string GgufIn(const std::string& folder) {
  std::string first;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string path = it->path().string();
    if (path.ends_with(".gguf") && (first.empty() || path < first)) first = path;
  }
  return first;
}

// A part of a checkpoint where the whole is wanted.
Error NotAFolder(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return Error(ErrorCode::kInvalidArgument, "'" + path + "': a part of a checkpoint; name its folder, '" + folder +
                                                "', its config.json, or a GGUF file");
}

}  // namespace

Result<InspectReport> InspectCheckpoint(const std::string& path) {
  InspectReport report;
  report.name = path;
  report.container = "config";
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (!is_folder && !IsFile(path)) {
    const bool exists = std::filesystem::exists(path, ignored);
    return Error(exists ? ErrorCode::kIo : ErrorCode::kNotFound,
                 "'" + path + "': " + (exists ? "neither a regular file nor a folder" : "no such file or folder"));
  }
  if (!is_folder && (path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json"))) {
    return NotAFolder(path);
  }
  const std::string folder = is_folder ? path : std::filesystem::path(path).parent_path().string();
  const std::string config = is_folder ? path + "/config.json" : path;
  if (!IsFile(config)) {
    const std::string gguf = GgufIn(path);
    return Error(ErrorCode::kNotFound,
                 "'" + path + "': holds no config.json" +
                     (gguf.empty() ? "; name the folder of a Hugging Face checkpoint, or a GGUF file"
                                   : "; to inspect '" + gguf + "', name that file"));
  }
  HAYPILE_TRY(ReadConfigs(folder.empty() ? "." : folder, config, &report));
  std::vector<KvScaleTensor> scales;
  if (is_folder) {
    HAYPILE_TRY(ReadTensors(path, &report));
    HAYPILE_TRY_ASSIGN(scales, ReadKvScales(report.headers, &report.read));
  } else {
    report.findings.push_back(
        {FindingLevel::kNote, "config_alone",
         "config.json alone was read: weights and KV scales are not known; engines are told as for a "
         "checkpoint without KV scales",
         "name the folder to look into its files"});
  }
  const ModelGeometry* geometry = report.geometry ? &*report.geometry : nullptr;
  report.dtypes = DtypesOf(report.headers);
  report.kv_layers = KvLayersOf(geometry, report.headers, report.declaration);
  report.scales = SummarizeScales(scales, report.kv_layers);
  Append(FileFindings(report.headers), &report.findings);
  Append(DeclarationFindings(report.declaration), &report.findings);
  for (const FamilySummary& family : report.scales) {
    Append(ScaleFindings(family, report.kv_layers, report.declaration), &report.findings);
  }
  Append(CoverageFindings(report.scales, report.kv_layers, geometry), &report.findings);
  Append(WholeFindings(&report), &report.findings);
  report.engines = OutcomesOf(report);
  return report;
}

InspectReport InspectGguf(const std::string& path, Result<ModelGeometry> geometry, std::vector<DtypeShare> dtypes,
                          uint64_t header_bytes) {
  InspectReport report;
  report.name = path;
  report.container = "gguf";
  report.read.bytes = header_bytes;
  if (geometry.ok()) {
    report.architecture = geometry->architecture;
    report.model_type = geometry->model_type;
    report.geometry = std::move(geometry).value();
  } else {
    report.findings.push_back({FindingLevel::kWarning, "geometry_unknown",
                               "the KV geometry is not known: " + geometry.error().message(), ""});
  }
  report.dtypes = std::move(dtypes);
  report.kv_layers = KvLayersOf(report.geometry ? &*report.geometry : nullptr, report.headers, report.declaration);
  report.findings.push_back({FindingLevel::kNote, "gguf_no_kv_scales",
                             "a GGUF file holds no KV scales: llama.cpp's quantized caches have a scale in each block",
                             ""});
  report.agreement = AgreementOf(report);
  report.engines = OutcomesOf(report);
  return report;
}

void AddRanks(int ranks, InspectReport* report) {
  report->tensor_parallel = ranks;
  if (!report->geometry) return;
  report->rank_shares = SharesOf(*report->geometry, ranks);
  report->rank_outcomes = RankOutcomes(*report->geometry, report->rank_shares, ranks);
}

std::vector<int> RanksToShow(const InspectReport& report, int heads) {
  if (report.tensor_parallel > 0) return {report.tensor_parallel};
  std::vector<int> ranks;
  for (int count = 1; count <= std::min(2 * heads, 64); count *= 2) ranks.push_back(count);
  return ranks;
}

}  // namespace haypile
