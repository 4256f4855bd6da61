#include "kernels/matmul/onednn_gemm.h"

namespace haypile {

bool HasOnednn() { return false; }

void RunOnAllOpenMpPlaces() {}

bool SgemmOnThisThread(const GemmShape&, const float*, int64_t, const float*, int64_t, float*, int64_t) {
  return false;
}

struct PackedGemm::State {};

PackedGemm::PackedGemm() = default;
PackedGemm::~PackedGemm() = default;
PackedGemm::PackedGemm(PackedGemm&&) noexcept = default;

int64_t PackedGemm::Block(const GemmShape&, GemmOutput) { return 0; }
bool PackedGemm::Run(const GemmShape&, const float*, const float*, GemmOutput, float*) { return false; }

struct Bf16Gemm::State {};

Bf16Gemm::Bf16Gemm() = default;
Bf16Gemm::~Bf16Gemm() = default;
Bf16Gemm::Bf16Gemm(Bf16Gemm&&) noexcept = default;

bool Bf16Gemm::Run(const GemmShape&, const uint16_t*, const uint16_t*, GemmOutput, float*) { return false; }

}  // namespace haypile
