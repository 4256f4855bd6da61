#pragma once

namespace haypile {

// Seconds that a few thousand 512-bit multiply-adds take, none waiting for another: of FP32 (16 products each) and of
// BF16 pairs (32 products each). Only where the processor has the level avx512_bf16.
double SecondsOfFp32ProductsAvx512();
double SecondsOfBf16ProductsAvx512();

}  // namespace haypile
