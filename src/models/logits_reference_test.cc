// Both default models against the reference implementation's log-probabilities (testdata/README.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/isa.h"
#include "models/decoder.h"

namespace haypile {
namespace {

constexpr int kChunk = 512;
constexpr int64_t kQuickTokens = 1024;
constexpr int64_t kLogitRows = 64;

std::string ModelPath(const std::string& model) {
  const auto variable = [](const char* name) { return std::getenv(name) ? std::string(std::getenv(name)) : ""; };
  std::string cache = variable("HAYPILE_CACHE");
  if (cache.empty() && !variable("XDG_CACHE_HOME").empty()) cache = variable("XDG_CACHE_HOME") + "/haypile";
  if (cache.empty()) cache = variable("HOME") + "/.cache/haypile";
  return fmt::format("{}/models/{}.gguf", cache, model);
}

bool FullTests() {
  const char* value = std::getenv("HAYPILE_FULL_TESTS");
  return value != nullptr && std::string(value) == "1";
}

template <typename T>
std::vector<T> ReadArray(const std::string& name) {
  const auto bytes = ReadFile(fmt::format("{}/{}", HAYPILE_TESTDATA_DIR, name));
  EXPECT_TRUE(bytes.ok()) << name;
  if (!bytes.ok()) return {};
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), values.size() * sizeof(T));
  return values;
}

class LogitsReferenceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = ModelPath(GetParam());
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is not there; fetch it with: haypile model get " << GetParam();
    }
    auto checkpoint = Checkpoint::Open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
    auto model = DecoderModel::Load(**checkpoint, pool_);
    ASSERT_TRUE(model.ok()) << model.error().message();
    model_ = std::move(*model);
    const auto text = ReadFile(fmt::format("{}/{}.json", HAYPILE_TESTDATA_DIR, GetParam()));
    ASSERT_TRUE(text.ok());
    reference_ = ParseJson(*text).value()["bf16"];
  }

  std::unique_ptr<KvCache> MakeCache(int64_t tokens) {
    auto geometry = MakeKvGeometry(model_->spec(), {KvFormat::kBf16, KvFormat::kBf16});
    KvCacheConfig config;
    config.geometry = geometry.value();
    config.pool_tokens = (tokens + 15) / 16 * 16;
    config.max_model_len = tokens;
    config.chunk_tokens = kChunk;
    auto cache = KvCache::Create(config);
    EXPECT_TRUE(cache.ok()) << (cache.ok() ? "" : cache.error().message());
    return std::move(*cache);
  }

  // Negative log-likelihoods of tokens 1.., fed in chunks.
  std::vector<double> Nll(std::span<const int32_t> ids) {
    const auto cache = MakeCache(static_cast<int64_t>(ids.size()));
    const SequenceId sequence = cache->AddSequence();
    const int64_t h = model_->spec().hidden_size, v = model_->spec().vocabulary_size;
    std::vector<float> hidden(kChunk * h), logits(kLogitRows * v);
    std::vector<double> nll;
    for (size_t begin = 0; begin < ids.size(); begin += kChunk) {
      const BatchItem item{sequence, ids.subspan(begin, std::min<size_t>(kChunk, ids.size() - begin))};
      const auto rows = static_cast<int64_t>(item.tokens.size());
      const Status status = model_->Forward({&item, 1}, *cache, {hidden.data(), static_cast<size_t>(rows * h)});
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
      for (int64_t row = 0; row < rows; row += kLogitRows) {
        const int64_t block = std::min(kLogitRows, rows - row);
        model_->Logits({hidden.data() + row * h, static_cast<size_t>(block * h)},
                       {logits.data(), static_cast<size_t>(block * v)});
        for (int64_t i = 0; i < block; ++i) {
          const size_t target = begin + row + i + 1;
          if (target >= ids.size()) break;
          const float* of_row = logits.data() + i * v;
          nll.push_back(LogSumExp({of_row, static_cast<size_t>(v)}) - of_row[ids[target]]);
        }
      }
    }
    return nll;
  }

  void ExpectMeanNll(const std::string& text, size_t tokens) {
    auto ids = ReadArray<int32_t>(fmt::format("{}.{}.ids_i32.bin", GetParam(), text));
    const auto reference = ReadArray<float>(fmt::format("{}.{}.nll_f32.bin", GetParam(), text));
    ASSERT_EQ(ids.size(), reference.size() + 1);
    ASSERT_LE(tokens, ids.size());
    ids.resize(tokens);
    const auto nll = Nll(ids);
    ASSERT_EQ(nll.size(), tokens - 1);
    double mean = 0, expected = 0, worst = 0;
    for (size_t i = 0; i < nll.size(); ++i) {
      mean += nll[i] / static_cast<double>(nll.size());
      expected += reference[i] / static_cast<double>(nll.size());
      worst = std::max(worst, std::abs(nll[i] - reference[i]));
    }
    EXPECT_NEAR(mean, expected, .004) << text << ", " << tokens << " tokens";
    fmt::print("{} {} {} tokens: mean nll {:.5f}, reference {:.5f}, largest difference of one token {:.3f}\n",
               GetParam(), text, tokens, mean, expected, worst);
  }

  ThreadPool pool_{0};
  std::unique_ptr<DecoderModel> model_;
  Json reference_;
};

TEST_P(LogitsReferenceTest, PromptsGiveTheReferencesLikeliestTokens) {
  const int64_t h = model_->spec().hidden_size, v = model_->spec().vocabulary_size;
  double total = 0, worst = 0;
  int64_t count = 0;
  for (const Json& prompt : reference_["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    const auto top_ids = prompt["top_ids"].get<std::vector<int32_t>>();
    const auto top_logprobs = prompt["top_logprobs"].get<std::vector<double>>();
    const auto cache = MakeCache(static_cast<int64_t>(ids.size()));
    const BatchItem item{cache->AddSequence(), ids};
    std::vector<float> hidden(ids.size() * h), logits(v);
    const Status status = model_->Forward({&item, 1}, *cache, hidden);
    ASSERT_TRUE(status.ok()) << status.error().message();
    model_->Logits({hidden.data() + hidden.size() - h, static_cast<size_t>(h)}, logits);
    EXPECT_EQ(ArgMax(logits), top_ids[0]) << prompt["text"];
    const double lse = LogSumExp(logits);
    for (size_t i = 0; i < top_ids.size(); ++i) {
      const double difference = std::abs(logits[top_ids[i]] - lse - top_logprobs[i]);
      worst = std::max(worst, difference);
      total += difference;
      ++count;
    }
  }
  ASSERT_GT(count, 0);
  EXPECT_LE(total / static_cast<double>(count), .06);
  EXPECT_LE(worst, .5);
  fmt::print("{} prompts: mean difference {:.5f}, largest {:.5f}\n", GetParam(), total / static_cast<double>(count),
             worst);
}

// What differs between levels is the order of FP32 sums, and with it which way a key or value falls that lies near the
// middle of two BF16 numbers. The bounds are three times what AVX2 and AVX-512 were seen to differ from scalar by, and
// below the .1 that BF16 arithmetic moves single tokens by (texts below); a wrong element moves them by 1 or more.
TEST_P(LogitsReferenceTest, SlowLevelsGiveTheSameLikelihoods) {
  constexpr size_t kTokens = 64;
  auto ids = ReadArray<int32_t>(fmt::format("{}.essays.ids_i32.bin", GetParam()));
  ASSERT_GE(ids.size(), kTokens);
  ids.resize(kTokens);
  const Isa before = ActiveIsa();
  std::vector<double> first;
  for (const Isa isa : kEveryIsa) {
    if (!HasIsa(isa)) continue;
    SetActiveIsaForTest(isa);
    const auto nll = Nll(ids);
    if (first.empty()) first = nll;
    ASSERT_EQ(nll.size(), first.size());
    double sum = 0, worst = 0;
    for (size_t i = 0; i < nll.size(); ++i) {
      sum += std::abs(nll[i] - first[i]);
      worst = std::max(worst, std::abs(nll[i] - first[i]));
    }
    EXPECT_LE(worst, .03) << IsaName(isa);
    EXPECT_LE(sum / static_cast<double>(nll.size()), .006) << IsaName(isa);
    fmt::print("{} {}: mean difference {:.5f}, largest {:.5f}\n", GetParam(), IsaName(isa),
               sum / static_cast<double>(nll.size()), worst);
  }
  SetActiveIsaForTest(before);
}

TEST_P(LogitsReferenceTest, SlowTextsHaveTheReferencesLikelihood) {
  for (const char* text : {"narrative", "essays", "handbook", "almanac"}) {
    ExpectMeanNll(text, FullTests() ? 4096 : kQuickTokens);
  }
}

TEST_P(LogitsReferenceTest, SlowLongTextHasTheReferencesLikelihood) {
  if (!FullTests()) GTEST_SKIP() << "set HAYPILE_FULL_TESTS=1";
  ExpectMeanNll("narrative", 8192);
}

INSTANTIATE_TEST_SUITE_P(DefaultModels, LogitsReferenceTest, testing::Values("smollm2-135m", "gemma3-270m"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace haypile
