#include "models/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/isa/isa.h"
#include "models/tiny_model_test.h"

namespace haypile {
namespace {

// Hidden states have a size of about 1. FP32 arithmetic against double moves one by 1e-5 or so; a K or V that falls on
// the other side of a BF16 rounding boundary moves some rows by up to a hundredth, but few of them. Anything wrong in a
// layer moves all by hundredths at least.
constexpr double kMeanNear = 3e-4;
constexpr double kWorstNear = 3e-2;

std::vector<int32_t> Tokens(int count, int seed = 0) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * i * 7 + i * 13 + seed * 31 + 5) % 97);
  return tokens;
}

KvCacheConfig CacheConfig(const ModelSpec& spec, KvFormat format = KvFormat::kBf16) {
  KvCacheConfig config;
  config.geometry = MakeKvGeometry(spec, {format, format}).value();
  config.pool_tokens = 1024;
  config.max_model_len = spec.max_positions;
  config.chunk_tokens = 128;
  return config;
}

struct Rig {
  explicit Rig(ModelFamily family, int threads = 2, KvFormat format = KvFormat::kBf16)
      : checkpoint(family), pool(threads) {
    model = std::move(DecoderModel::Load(checkpoint, pool)).value();
    cache = std::move(KvCache::Create(CacheConfig(model->spec(), format))).value();
  }

  // One forward pass; the hidden states of all rows.
  std::vector<float> Forward(const std::vector<BatchItem>& items) {
    size_t rows = 0;
    for (const auto& item : items) rows += item.tokens.size();
    std::vector<float> hidden(rows * model->spec().hidden_size);
    const Status status = model->Forward(items, *cache, hidden);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
    return hidden;
  }

  // A new sequence fed in pieces of `chunk`.
  std::vector<float> ForwardChunked(const std::vector<int32_t>& tokens, size_t chunk) {
    const SequenceId sequence = cache->AddSequence();
    std::vector<float> all;
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const std::span<const int32_t> piece(tokens.data() + begin, std::min(chunk, tokens.size() - begin));
      const auto hidden = Forward({{sequence, piece}});
      all.insert(all.end(), hidden.begin(), hidden.end());
    }
    cache->RemoveSequence(sequence);
    return all;
  }

  TinyModel checkpoint;
  ThreadPool pool;
  std::unique_ptr<DecoderModel> model;
  std::unique_ptr<KvCache> cache;
};

template <typename A, typename B>
void ExpectNear(const A& a, const B& b, double scale, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], kWorstNear * scale) << what << " at " << i;
    sum += std::abs(a[i] - b[i]);
  }
  EXPECT_LE(sum / static_cast<double>(a.size()), kMeanNear * scale) << what;
}

double MeanDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

class DecoderTest : public testing::TestWithParam<ModelFamily> {};

TEST_P(DecoderTest, EqualsThePlainReferenceOnEveryLevel) {
  const Isa before = ActiveIsa();
  for (const Isa level : kEveryIsa) {
    if (!HasIsa(level)) continue;
    SetActiveIsaForTest(level);
    Rig rig(GetParam());
    for (int count : {1, 2, 17, 75}) {
      const auto tokens = Tokens(count);
      const auto reference = rig.checkpoint.ReferenceHidden(tokens);
      const auto hidden = rig.ForwardChunked(tokens, 128);
      ExpectNear(hidden, reference, 1, std::string(IsaName(level)));
      const size_t h = rig.model->spec().hidden_size;
      std::vector<float> logits(count * 97);
      rig.model->Logits(hidden, logits);
      ExpectNear(std::vector<float>(logits.end() - 97, logits.end()),
                 rig.checkpoint.ReferenceLogits(reference.data() + (count - 1) * h), 5, "logits");
    }
  }
  SetActiveIsaForTest(before);
}

TEST_P(DecoderTest, ChunkingChangesNothing) {
  Rig rig(GetParam());
  const auto tokens = Tokens(75);
  const auto whole = rig.ForwardChunked(tokens, 128);
  for (size_t chunk : {1, 7, 16, 33, 64}) {
    ExpectNear(rig.ForwardChunked(tokens, chunk), whole, 1, "chunks of " + std::to_string(chunk));
  }
}

// With a 4-bit cache, a token that read its own K and V unquantized within a chunk would see chunks differ as much as
// formats do.
TEST_P(DecoderTest, ChunkingChangesNothingThroughAQuantizedCache) {
  Rig exact(GetParam()), quantized(GetParam(), 2, KvFormat::kNvfp4);
  const auto tokens = Tokens(75);
  const auto whole = quantized.ForwardChunked(tokens, 128);
  const double of_format = MeanDifference(whole, exact.ForwardChunked(tokens, 128));
  EXPECT_GT(of_format, 1e-3);
  EXPECT_LT(MeanDifference(whole, quantized.ForwardChunked(tokens, 1)), of_format / 10);
  EXPECT_LT(MeanDifference(whole, quantized.ForwardChunked(tokens, 20)), of_format / 10);
}

TEST_P(DecoderTest, RaggedBatchEqualsSequencesAlone) {
  Rig rig(GetParam());
  const auto a = Tokens(40, 1), b = Tokens(23, 2), c = Tokens(1, 3);
  const auto alone_a = rig.ForwardChunked(a, 128), alone_b = rig.ForwardChunked(b, 128);
  const auto alone_c = rig.ForwardChunked(c, 128);

  const SequenceId sa = rig.cache->AddSequence(), sb = rig.cache->AddSequence(), sc = rig.cache->AddSequence();
  // First a's prefill alone; then its decode row between two prefills.
  const std::span<const int32_t> a_prefill(a.data(), 39), a_decode(a.data() + 39, 1);
  std::vector<float> of_a = rig.Forward({{sa, a_prefill}});
  const auto mixed = rig.Forward({{sb, b}, {sa, a_decode}, {sc, c}});
  const size_t h = rig.model->spec().hidden_size;
  ASSERT_EQ(mixed.size(), 25 * h);
  of_a.insert(of_a.end(), mixed.begin() + 23 * h, mixed.begin() + 24 * h);
  ExpectNear(of_a, alone_a, 1, "a");
  ExpectNear(std::vector<float>(mixed.begin(), mixed.begin() + 23 * h), alone_b, 1, "b");
  ExpectNear(std::vector<float>(mixed.begin() + 24 * h, mixed.end()), alone_c, 1, "c");
}

TEST_P(DecoderTest, DoesNotDependOnThreads) {
  const auto tokens = Tokens(60);
  Rig one(GetParam(), 1), three(GetParam(), 3);
  EXPECT_EQ(one.ForwardChunked(tokens, 40), three.ForwardChunked(tokens, 40));
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderTest,
                         testing::Values(ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3,
                                         ModelFamily::kGemma3),
                         [](const auto& test) { return FamilyName(test.param); });

// A batch that must be refused, with the cache as it was.
void ExpectRefused(Rig& rig, const std::vector<BatchItem>& items, const std::string& part) {
  size_t rows = 0;
  std::vector<int64_t> lengths;
  for (const auto& item : items) {
    rows += item.tokens.size();
    lengths.push_back(rig.cache->Length(item.sequence));
  }
  std::vector<float> hidden(rows * rig.model->spec().hidden_size);
  const Status status = rig.model->Forward(items, *rig.cache, hidden);
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(rig.cache->Length(items[i].sequence), lengths[i]);
}

TEST(DecoderErrorTest, RefusesBadBatchesAndLeavesTheCacheAlone) {
  Rig rig(ModelFamily::kLlama);
  const SequenceId a = rig.cache->AddSequence(), b = rig.cache->AddSequence();
  const auto good = Tokens(10), long_chunk = Tokens(129), nearly_full = Tokens(100);
  const std::vector<int32_t> negative = {1, -1}, beyond = {97};
  ExpectRefused(rig, {{a, good}, {b, negative}}, "token id -1");
  ExpectRefused(rig, {{a, beyond}}, "token id 97");
  ExpectRefused(rig, {{a, good}, {b, {}}}, "no tokens");
  ExpectRefused(rig, {{a, good}, {a, good}}, "second time");
  ExpectRefused(rig, {{a, long_chunk}}, "chunk of 128");
  rig.Forward({{a, nearly_full}});
  ExpectRefused(rig, {{a, nearly_full}}, "context holds 160");
}

TEST(DecoderErrorTest, SaysWhenThePoolIsEmpty) {
  Rig rig(ModelFamily::kLlama);
  const auto tokens = Tokens(128);
  for (int i = 0; i < 8; ++i) rig.Forward({{rig.cache->AddSequence(), tokens}});
  const BatchItem item{rig.cache->AddSequence(), tokens};
  std::vector<float> hidden(128 * 48);
  const Status status = rig.model->Forward({&item, 1}, *rig.cache, hidden);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kOutOfBudget);
}

TEST(DecoderErrorTest, LoadNamesTheMissingTensor) {
  TinyModel model(ModelFamily::kQwen3);
  model.Remove("layers.1.self_attn.k_norm.weight");
  ThreadPool pool(1);
  const auto loaded = DecoderModel::Load(model, pool);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(loaded.error().message().find("layers.1.self_attn.k_norm.weight"), std::string::npos);
}

TEST(DecoderErrorTest, LoadNamesTheWrongShape) {
  TinyModel model(ModelFamily::kLlama);
  model.Reshape("layers.2.mlp.down_proj.weight", {80, 48});
  ThreadPool pool(1);
  const auto loaded = DecoderModel::Load(model, pool);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code(), ErrorCode::kMalformed);
  EXPECT_NE(loaded.error().message().find("[80, 48], expected [48, 80]"), std::string::npos)
      << loaded.error().message();
}

}  // namespace
}  // namespace haypile
