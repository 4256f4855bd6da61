#include "inspect/rebuilt_index.h"

#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace haypile {
namespace {

std::string IndexPath(const CheckpointHeaders& headers) { return headers.folder + "/model.safetensors.index.json"; }

}  // namespace

bool IndexNeedsRebuilding(const CheckpointHeaders& headers) {
  if (!headers.has_index) return headers.files.size() > 1;
  return headers.stale_index || !headers.unindexed_tensors.empty();
}

Result<std::string> RebuiltIndex(const CheckpointHeaders& headers, std::string_view old_index) {
  if (headers.files.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + headers.folder + "': an index needs safetensors files; there is none");
  }
  Json metadata = Json::object();
  if (!old_index.empty()) {
    HAYPILE_TRY_ASSIGN(const Json old, ParseJson(old_index));
    const auto found = old.is_object() ? old.find("metadata") : old.end();
    if (old.is_object() && found != old.end() && found->is_object()) metadata = *found;
  }
  uint64_t bytes = 0;
  // Written by hand: an object of the JSON library finds a key by looking at all before it.
  std::string map;
  for (const HeaderTensor& tensor : headers.tensors) {
    map += map.empty() ? "\n    " : ",\n    ";
    map += DumpJson(Json(tensor.name), -1) + ": " + DumpJson(Json(headers.files[tensor.file]), -1);
    bytes += tensor.bytes;
  }
  metadata["total_size"] = bytes;
  return "{\n  \"metadata\": " + DumpJson(metadata, -1) + ",\n  \"weight_map\": {" + map + "\n  }\n}\n";
}

Result<std::string> WriteRebuiltIndex(const CheckpointHeaders& headers, const std::string& path) {
  std::string old;
  if (headers.has_index) {
    HAYPILE_TRY_ASSIGN(old, ReadFile(IndexPath(headers)));
  }
  HAYPILE_TRY_ASSIGN(const std::string text, RebuiltIndex(headers, old));
  const std::string target = path.empty() ? IndexPath(headers) : path;
  HAYPILE_TRY(CheckWritable(target));
  HAYPILE_TRY(WriteFileAtomic(target, text));
  return target;
}

}  // namespace haypile
