#include "inspect/rank_share.h"

#include <gtest/gtest.h>

#include "planner/model_config.h"

namespace haypile {
namespace {

ModelGeometry GeometryOf(const char* config) {
  auto geometry = ParseModelConfig(config, "test");
  EXPECT_TRUE(geometry.ok()) << (geometry.ok() ? "" : geometry.error().message());
  return geometry.ok() ? *geometry : ModelGeometry();
}

ModelGeometry Llama(int query_heads, int kv_heads) {
  ModelGeometry model;
  model.query_heads = query_heads;
  for (int i = 0; i < 3; ++i) {
    LayerGeometry layer;
    layer.index = i;
    layer.kv_heads = kv_heads;
    layer.head_dim_k = layer.head_dim_v = 64;
    model.layers.push_back(layer);
  }
  return model;
}

const RankOutcome& OutcomeOf(const std::vector<RankOutcome>& outcomes, std::string_view engine) {
  for (const RankOutcome& outcome : outcomes) {
    if (outcome.engine == engine) return outcome;
  }
  ADD_FAILURE() << "no outcome of " << engine;
  return outcomes.front();
}

TEST(RankShareTest, SlicesShareOrRepeatHeads) {
  const auto halves = SlicesOf(8, 2);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[1].first_head, 4);
  EXPECT_EQ(halves[1].heads, 4);
  const auto repeated = SlicesOf(2, 8);
  ASSERT_EQ(repeated.size(), 8u);
  EXPECT_EQ(repeated[3].first_head, 0);
  EXPECT_EQ(repeated[4].first_head, 1);
  EXPECT_TRUE(SlicesOf(8, 3).empty());
  EXPECT_TRUE(SlicesOf(3, 8).empty());
  EXPECT_TRUE(SlicesOf(0, 2).empty());
  EXPECT_EQ(SlicesText(halves), "0:0-3 1:4-7");
  EXPECT_EQ(SlicesText(SlicesOf(1, 1024)).substr(0, 12), "0:0 1:0 2:0 ");
}

TEST(RankShareTest, DividesCopiesOrRefuses) {
  const auto four = SharesOf(Llama(32, 8), 4);
  ASSERT_EQ(four.size(), 1u);
  EXPECT_EQ(four[0].split, HeadSplit::kDivided);
  EXPECT_EQ(four[0].layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(four[0].bytes_per_token_bf16, 2 * (64 + 64) * 2);
  EXPECT_EQ(four[0].bytes_per_token_fp8, 2 * (64 + 64));
  EXPECT_EQ(SharesOf(Llama(32, 8), 16)[0].split, HeadSplit::kCopied);
  EXPECT_EQ(SharesOf(Llama(32, 8), 16)[0].bytes_per_token_fp8, 64 + 64);
  const auto three = SharesOf(Llama(24, 8), 3);
  EXPECT_EQ(three[0].split, HeadSplit::kNone);
  EXPECT_EQ(three[0].bytes_per_token_bf16, 0);
}

TEST(RankShareTest, EnginesRefuseWhatDoesNotDivide) {
  const auto outcomes = [](const ModelGeometry& model, int ranks) {
    return RankOutcomes(model, SharesOf(model, ranks), ranks);
  };
  EXPECT_EQ(OutcomeOf(outcomes(Llama(32, 8), 4), "vLLM").outcome, "runs");
  // 24 query heads divide by 3, 8 KV heads do not.
  const auto kv = outcomes(Llama(24, 8), 3);
  EXPECT_EQ(OutcomeOf(kv, "vLLM").outcome, "refused");
  EXPECT_NE(OutcomeOf(kv, "SGLang").why.find("8 KV heads (layers 0-2) and 3 ranks"), std::string::npos);
  EXPECT_EQ(OutcomeOf(kv, "TensorRT-LLM").outcome, "refused");
  EXPECT_EQ(OutcomeOf(kv, "llama.cpp").outcome, "not split");
  EXPECT_EQ(OutcomeOf(kv, "Haypile").outcome, "not split");
  const auto queries = outcomes(Llama(14, 2), 4);
  EXPECT_NE(OutcomeOf(queries, "vLLM").why.find("Total number of attention heads (14) must be divisible"),
            std::string::npos);
  EXPECT_NE(OutcomeOf(outcomes(Llama(16, 2), 8), "vLLM").why.find("copied"), std::string::npos);
}

TEST(RankShareTest, LatentRowsStayWhole) {
  const ModelGeometry model = GeometryOf(
      R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 2,
      "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 128, "num_key_value_heads": 128,
      "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536,
      "vocab_size": 129280, "max_position_embeddings": 163840, "torch_dtype": "bfloat16", "n_routed_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 1})");
  const auto shares = SharesOf(model, 8);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].split, HeadSplit::kWhole);
  EXPECT_EQ(shares[0].bytes_per_token_bf16, 1152);
  EXPECT_EQ(shares[0].bytes_per_token_fp8, 576);
  EXPECT_NE(OutcomeOf(RankOutcomes(model, shares, 8), "vLLM").why.find("whole on every rank"), std::string::npos);
}

}  // namespace
}  // namespace haypile
