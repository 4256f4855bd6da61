#include "planner/element_bits.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(ElementBits, EveryEnginesSpellings) {
  for (const char* name : {"bf16", "bfloat16", "f16", "float16", "fp16"})
    EXPECT_DOUBLE_EQ(*ElementBits(name, 128), 16.0);
  for (const char* name : {"fp8", "fp8_e4m3", "fp8_e5m2"}) EXPECT_DOUBLE_EQ(*ElementBits(name, 128), 8.0);
  EXPECT_DOUBLE_EQ(*ElementBits("nvfp4", 128), 4.5);
  EXPECT_DOUBLE_EQ(*ElementBits("fp4_mx_block16", 256), 4.5);
  EXPECT_DOUBLE_EQ(*ElementBits("q8_0", 64), 8.5);
  EXPECT_DOUBLE_EQ(*ElementBits("q5_1", 64), 6.0);
  EXPECT_DOUBLE_EQ(*ElementBits("q4_0", 64), 4.5);
  EXPECT_DOUBLE_EQ(*ElementBits("int8_per_token_head", 128), 8.25);  // 2 D + 8 bytes for K and V
  EXPECT_DOUBLE_EQ(*ElementBits("int4_per_token_head", 128), 4.25);
  EXPECT_DOUBLE_EQ(*ElementBits("q8_0/q4_0", 64), 6.5);
  EXPECT_FALSE(ElementBits("auto", 128).has_value());
  EXPECT_FALSE(ElementBits("fp7", 128).has_value());
}

// vLLM's own row sizes for K and V of one head of 128: 196, 134, 118 and 102 bytes.
TEST(ElementBits, TurboQuantRows) {
  EXPECT_DOUBLE_EQ(*ElementBits("turboquant_k8v4", 128) * 256 / 8, 196.0);
  EXPECT_DOUBLE_EQ(*ElementBits("turboquant_4bit_nc", 128) * 256 / 8, 134.0);
  EXPECT_DOUBLE_EQ(*ElementBits("turboquant_k3v4_nc", 128) * 256 / 8, 118.0);
  EXPECT_DOUBLE_EQ(*ElementBits("turboquant_3bit_nc", 128) * 256 / 8, 102.0);
}

}  // namespace
}  // namespace haypile
