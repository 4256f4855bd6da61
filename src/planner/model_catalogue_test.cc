#include "planner/model_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/model_catalogue_data.h"

namespace haypile {
namespace {

TEST(ModelCatalogue, HasManyModelsThatAllParse) {
  const std::vector<std::string> names = CatalogueModels();
  EXPECT_GE(names.size(), 100U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    const Result<ModelGeometry> model = CatalogueModel(name);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_FALSE(model->layers.empty()) << name;
    EXPECT_FALSE(model->architecture.empty()) << name;
    EXPECT_EQ(model->name, name);
  }
}

TEST(ModelCatalogue, NamesASourceForEveryModelAndNoNameTwice) {
  std::set<std::string> spellings;
  for (const auto& entries : {CatalogueDeepseekToLlama(), CatalogueMimoToTinyllama()}) {
    for (const CatalogueEntry& entry : entries) {
      EXPECT_GE(entry.source.size(), 20U) << entry.name;
      EXPECT_NE(entry.id.find('/'), std::string_view::npos) << entry.name;
      std::string all(entry.name);
      all += " " + std::string(entry.id) + " " + std::string(entry.aliases);
      for (size_t at = 0; at < all.size();) {
        const size_t end = std::min(all.find(' ', at), all.size());
        const std::string spelling = all.substr(at, end - at);
        EXPECT_TRUE(spelling.empty() || spellings.insert(spelling).second) << spelling;
        at = end + 1;
      }
    }
  }
}

TEST(ModelCatalogue, FindsByNameIdAndAlias) {
  EXPECT_TRUE(CatalogueConfigJson("qwen3-32b").has_value());
  EXPECT_EQ(CatalogueConfigJson("Qwen/Qwen3-32B"), CatalogueConfigJson("QWEN3-32B"));
  EXPECT_EQ(CatalogueConfigJson("qwen3.8-27b"), CatalogueConfigJson("qwen3.5-27b"));
  EXPECT_TRUE(CatalogueConfigJson("smollm2-135m").has_value());
  EXPECT_TRUE(CatalogueConfigJson("gemma3-270m").has_value());
  EXPECT_FALSE(CatalogueConfigJson("").has_value());
  EXPECT_FALSE(CatalogueConfigJson("qwen3-32b qwen3-8b").has_value());
}

TEST(ModelCatalogue, NamesTheClosestModels) {
  const Result<ModelGeometry> model = CatalogueModel("Qwen/Qwen3-33B");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(model.error().message().find("qwen3-32b"), std::string::npos) << model.error().message();
}

struct PublishedSize {
  const char* name;
  double parameters;  // as published, in 1e9
  double active;      // 0: all
};

// Sizes from the models' own cards and papers; active parameters as those count them.
TEST(ModelCatalogue, CountsParametersAsPublished) {
  const PublishedSize sizes[] = {
      {"qwen3-32b", 32.76, 0},
      {"qwen3-8b", 8.19, 0},
      {"qwen3-0.6b", 0.596, 0},
      {"llama-3.1-8b", 8.03, 0},
      {"llama-3.1-70b", 70.55, 0},
      {"llama-3.1-405b", 405.85, 0},
      {"llama-2-7b", 6.74, 0},
      {"llama-3.2-1b", 1.236, 0},
      {"qwen2.5-72b", 72.71, 0},
      {"gemma-3-27b", 27.01, 0},
      {"gemma-2-9b", 9.24, 0},
      {"phi-4", 14.66, 0},
      {"mistral-7b-v0.3", 7.25, 0},
      {"smollm2-135m", 0.1345, 0},
      {"gemma3-270m", 0.268, 0},
      {"tinyllama-1.1b", 1.10, 0},
      {"qwen3-30b-a3b", 30.53, 3.35},
      {"qwen3-235b-a22b", 235.1, 22.2},
      {"mixtral-8x7b", 46.7, 12.9},
      {"deepseek-v3", 671, 37.5},
      {"kimi-k2", 1026, 32.9},
      {"gpt-oss-20b", 20.91, 0},
      {"gpt-oss-120b", 116.8, 0},
      {"qwen3-next-80b-a3b", 79.7, 0},
      {"nemotron-h-56b", 56.3, 0},
      {"deepseek-v2-lite", 15.7, 0},
      {"llama-4-maverick", 400.7, 17.2},
      {"glm-5", 744, 0},
      {"falcon-7b", 6.92, 0},
      {"nemotron-3-nano-30b-a3b", 31.6, 3.6},
      {"minimax-m2.5", 228.7, 0},
      {"qwen3.5-397b-a17b", 396.3, 17.4},
  };
  for (const PublishedSize& size : sizes) {
    const Result<ModelGeometry> model = CatalogueModel(size.name);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_NEAR(static_cast<double>(model->parameters) / 1e9, size.parameters, 0.01 * size.parameters) << size.name;
    const double active = static_cast<double>(model->active_parameters) / 1e9;
    const double expected = size.active == 0 ? active : size.active;
    EXPECT_NEAR(active, expected, 0.02 * expected) << size.name;
    EXPECT_LE(model->active_parameters, model->parameters) << size.name;
    EXPECT_LT(model->unquantized_parameters, model->parameters) << size.name;
  }
}

// The weights of Qwen3-32B on disk: 65.52 GB in BF16; in FP8 the linear layers take one byte, embeddings two: 34.32 GB.
TEST(ModelCatalogue, GivesTheWeightBytesOfQwen3) {
  const Result<ModelGeometry> bf16 = CatalogueModel("qwen3-32b");
  const Result<ModelGeometry> fp8 = CatalogueModel("qwen3-32b-fp8");
  ASSERT_TRUE(bf16.ok() && fp8.ok());
  EXPECT_NEAR(static_cast<double>(bf16->parameters) * bf16->weights.bits / 8 / 1e9, 65.52, 0.01);
  const double quantized = static_cast<double>(fp8->parameters - fp8->unquantized_parameters);
  const double rest = static_cast<double>(fp8->unquantized_parameters) * fp8->model_dtype_bytes;
  EXPECT_NEAR((quantized * fp8->weights.bits / 8 + rest) / 1e9, 34.32, 0.01);
}

// gpt-oss keeps attention, router and embeddings in BF16 and its experts in MXFP4: 13.8 and 65.2 GB of safetensors.
TEST(ModelCatalogue, LeavesOutModulesThatAreNotQuantized) {
  struct Size {
    const char* name;
    double gigabytes;
  };
  for (const Size& size : {Size{"gpt-oss-20b", 13.8}, Size{"gpt-oss-120b", 65.2}}) {
    const Result<ModelGeometry> model = CatalogueModel(size.name);
    ASSERT_TRUE(model.ok());
    const double quantized = static_cast<double>(model->parameters - model->unquantized_parameters);
    const double bytes = quantized * model->weights.bits / 8 + 2 * static_cast<double>(model->unquantized_parameters);
    EXPECT_NEAR(bytes / 1e9, size.gigabytes, 0.01 * size.gigabytes) << size.name;
  }
}

TEST(ModelCatalogue, TellsTiedEmbeddings) {
  EXPECT_TRUE(CatalogueModel("smollm2-135m")->tied_embeddings);
  EXPECT_FALSE(CatalogueModel("qwen3-32b")->tied_embeddings);
}

}  // namespace
}  // namespace haypile
