#include "planner/kept_modules.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace haypile {
namespace {

// Layer 0 is dense, the others route to experts.
KeptShares Shares(const char* quantization, size_t layers = 4) {
  const Result<Json> json = ParseJson(quantization);
  EXPECT_TRUE(json.ok()) << quantization;
  std::vector<BlockPlan> blocks(layers, BlockPlan{.feed_forward = FeedForward::kExperts});
  blocks[0].feed_forward = FeedForward::kDense;
  return ReadKeptShares(ConfigObject(*json, "model"), blocks);
}

TEST(KeptModules, ReadsExpressionsWithAlternatives) {
  const KeptShares kept = Shares(R"({"ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                                                "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]})");
  EXPECT_EQ(kept.attention, 1.0);
  EXPECT_EQ(kept.dense, 1.0);
  EXPECT_EQ(kept.shared_experts, 1.0);
  EXPECT_EQ(kept.experts, 0.0);
}

TEST(KeptModules, ReadsStarsInsideANameThatCoversItsParts) {
  const KeptShares kept = Shares(R"({"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                "model.embed_tokens", "lm_head"]})");
  EXPECT_EQ(kept.attention, 1.0);
  EXPECT_EQ(kept.dense + kept.shared_experts + kept.experts, 0.0);
}

TEST(KeptModules, CountsTheLayersThatAListNames) {
  const KeptShares kept = Shares(R"({"exclude_modules": ["model.language_model.layers.1.self_attn*",
                                     "model.layers.3*", "model.layers.2.self_attn.q_proj", "model.layers.77.self_attn"]})");
  EXPECT_DOUBLE_EQ(kept.attention, 2.0 / 4);
  EXPECT_DOUBLE_EQ(kept.experts, 1.0 / 3);
  EXPECT_EQ(kept.dense, 0.0);
}

TEST(KeptModules, LeavesWhatItCannotReadAsQuantized) {
  const KeptShares kept = Shares(R"({"ignore": ["re:.*self_attn\\.[qkv]_proj", "re:(((", 7, "", "re:"]})");
  EXPECT_EQ(kept.attention + kept.dense + kept.shared_experts + kept.experts, 0.0);
}

TEST(KeptModules, NeedsNoListAtAll) {
  const KeptShares kept = Shares(R"({"quant_method": "fp8"})");
  EXPECT_EQ(kept.attention + kept.dense + kept.shared_experts + kept.experts, 0.0);
}

}  // namespace
}  // namespace haypile
