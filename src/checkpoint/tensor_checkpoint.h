#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_plan.h"
#include "checkpoint/weight_type.h"

namespace haypile {

// How a stored tensor differs from what checkpoint.h promises.
struct TensorSource {
  StoredTensor tensor;
  std::string file;           // for messages
  int interleaved_heads = 0;  // > 0: within each head, rows 2i and 2i+1 are the halves' rows i; put back at read
  float addend = 0.0f;        // added to every element
};

// The one implementation of Checkpoint: named tensors with their sources, whichever file they lie in.
class TensorCheckpoint final : public Checkpoint {
 public:
  // Checks that `source` has the planned shape and a type that can be read, and takes it.
  Status Add(const PlannedTensor& planned, TensorSource source);

  void set_spec(ModelSpec spec) { spec_ = std::move(spec); }
  void set_gguf(std::shared_ptr<const GgufFile> gguf) { gguf_ = std::move(gguf); }
  void set_folder(std::string folder) { folder_ = std::move(folder); }
  void set_kv_scales(CheckpointKvScales scales) { kv_scales_ = std::move(scales); }
  // Whatever the tensors' bytes live in.
  void Keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

  const ModelSpec& spec() const override { return spec_; }
  bool Has(const std::string& name) const override { return sources_.contains(name); }
  Result<std::vector<int64_t>> Shape(const std::string& name) const override;
  Status ReadBf16(const std::string& name, std::span<uint16_t> out) const override;
  Status ReadF32(const std::string& name, std::span<float> out) const override;
  const CheckpointKvScales& kv_scales() const override { return kv_scales_; }
  std::shared_ptr<const GgufFile> gguf() const override { return gguf_; }
  std::string folder() const override { return folder_; }

 private:
  Result<const TensorSource*> Find(const std::string& name) const;

  ModelSpec spec_;
  std::unordered_map<std::string, TensorSource> sources_;
  std::shared_ptr<const GgufFile> gguf_;
  std::string folder_;
  CheckpointKvScales kv_scales_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Both opened by Checkpoint::Open.
Result<std::unique_ptr<Checkpoint>> OpenGgufCheckpoint(const std::string& path);
Result<std::unique_ptr<Checkpoint>> OpenFolderCheckpoint(const std::string& folder);

}  // namespace haypile
