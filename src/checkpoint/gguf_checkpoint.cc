#include <set>
#include <string>
#include <utility>

#include "checkpoint/gguf_spec.h"
#include "checkpoint/tensor_checkpoint.h"

namespace haypile {
namespace {

// Tensors that carry no weights of the plan: RoPE factors are part of the spec.
bool IsKnownExtra(const std::string& name) { return name == "rope_freqs.weight"; }

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenGgufCheckpoint(const std::string& path) {
  HAYPILE_TRY_ASSIGN(std::shared_ptr<const GgufFile> file, GgufFile::Open(path));
  HAYPILE_TRY_ASSIGN(const ModelSpec spec, ModelSpecFromGguf(*file));
  std::unordered_map<std::string, const StoredTensor*> stored;
  for (const StoredTensor& tensor : file->tensors()) stored.emplace(tensor.name, &tensor);

  auto checkpoint = std::make_unique<TensorCheckpoint>();
  for (const PlannedTensor& planned : PlanTensors(spec)) {
    const std::string name = GgufTensorName(planned.name, spec.family);
    const auto found = stored.find(name);
    if (found == stored.end()) {
      return Error(ErrorCode::kMalformed, "'" + path + "': tensor '" + name +
                                              "' is absent; the model needs it with shape " + ShapeText(planned.shape));
    }
    TensorSource source{*found->second, path};
    // Only the llama architecture's converter interleaves the rows; norm weights already carry gemma3's +1.
    if (spec.family == ModelFamily::kLlama) source.interleaved_heads = planned.rope_heads;
    HAYPILE_TRY(checkpoint->Add(planned, std::move(source)));
    stored.erase(found);
  }
  for (const auto& [name, tensor] : stored) {
    if (IsKnownExtra(name)) continue;
    return Error(ErrorCode::kUnsupported, "'" + path + "': byte " + std::to_string(tensor->file_offset) + ": tensor " +
                                              QuotedName(name) + " has no place in architecture '" + spec.architecture +
                                              "' as it is supported");
  }
  checkpoint->set_spec(spec);
  checkpoint->Keep(file);
  checkpoint->set_gguf(std::move(file));
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

}  // namespace haypile
