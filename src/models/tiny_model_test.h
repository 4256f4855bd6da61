#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace haypile {

// A small model of random weights held in memory, and a forward pass over it written from the architecture's
// definition with plain loops: the oracle of decoder_test.cc.
class TinyModel : public Checkpoint {
 public:
  explicit TinyModel(ModelFamily family, unsigned seed = 1);

  const ModelSpec& spec() const override { return spec_; }
  bool Has(const std::string& name) const override { return tensors_.contains(name); }
  Result<std::vector<int64_t>> Shape(const std::string& name) const override { return tensors_.at(name).shape; }
  Status ReadBf16(const std::string& name, std::span<uint16_t> out) const override;
  Status ReadF32(const std::string& name, std::span<float> out) const override;
  std::shared_ptr<const GgufFile> gguf() const override { return nullptr; }
  std::string folder() const override { return ""; }

  // For tests of what Load rejects.
  void Remove(const std::string& name) { tensors_.erase(name); }
  void Reshape(const std::string& name, std::vector<int64_t> shape) { tensors_.at(name).shape = std::move(shape); }

  // Final-normed hidden states [tokens][H] of one sequence from its beginning. K and V are rounded to BF16, as a bf16
  // cache does.
  std::vector<double> ReferenceHidden(const std::vector<int32_t>& tokens) const;
  // Logits [V] of one hidden state.
  std::vector<double> ReferenceLogits(const double* hidden) const;

 private:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;  // representable in BF16 for matrices
  };
  using Rows = std::vector<std::vector<double>>;

  void AddMatrix(const std::string& name, int64_t rows, int64_t columns, double spread);
  void AddVector(const std::string& name, int64_t n, double centre, double spread);
  void AddLayer(const std::string& prefix);

  Rows Linear(const Rows& x, const std::string& name) const;
  Rows Normed(const Rows& x, const std::string& name) const;
  void NormHeads(Rows& x, const std::string& name) const;
  void Rotate(Rows& x, const RopeSpec& rope) const;
  Rows Attend(const Rows& x, int layer) const;
  Rows FeedForward(const Rows& x, const std::string& prefix) const;

  ModelSpec spec_;
  std::map<std::string, Tensor> tensors_;
  unsigned seed_;
};

}  // namespace haypile
