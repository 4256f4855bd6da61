#include "planner/gpu_catalogue.h"

#include <gtest/gtest.h>

#include <set>

namespace haypile {
namespace {

TEST(GpuCatalogue, FindsByNameAndAlias) {
  const GpuCatalogue catalogue;
  EXPECT_EQ(catalogue.Find("H200")->memory_bytes, 141'000'000'000);
  EXPECT_EQ(catalogue.Find("h200")->sm, 90);
  EXPECT_EQ(catalogue.Find("rtx pro 6000")->name, "RTX-PRO-6000");
  const GpuSpec spark = *catalogue.Find("GB10");
  EXPECT_EQ(spark.name, "DGX-Spark");
  EXPECT_EQ(spark.memory_bytes, 128'000'000'000);
  EXPECT_DOUBLE_EQ(spark.bandwidth_bytes_per_second, 273e9);
  EXPECT_TRUE(spark.unified_memory);
  EXPECT_EQ(catalogue.Find("MI300X")->sm, 0);
}

TEST(GpuCatalogue, EveryBuiltInEntryIsComplete) {
  const GpuCatalogue catalogue;
  std::set<std::string> names;
  for (const GpuSpec& gpu : catalogue.all()) {
    EXPECT_TRUE(names.insert(gpu.name).second) << gpu.name;
    EXPECT_GE(gpu.memory_bytes, 16'000'000'000) << gpu.name;
    EXPECT_GE(gpu.bandwidth_bytes_per_second, 200e9) << gpu.name;
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
    EXPECT_EQ(gpu.vendor == "nvidia", gpu.sm > 0) << gpu.name;
    EXPECT_TRUE(gpu.fp8 || !gpu.fp4) << gpu.name;
    EXPECT_EQ(catalogue.Find(gpu.name)->name, gpu.name);
    for (const std::string& alias : gpu.aliases) EXPECT_EQ(catalogue.Find(alias)->name, gpu.name) << alias;
    if (gpu.visible_bytes != 0) {
      const double ratio = static_cast<double>(gpu.visible_bytes) / static_cast<double>(gpu.memory_bytes);
      EXPECT_GT(ratio, 0.98) << gpu.name;
      EXPECT_LT(ratio, 1.08) << gpu.name;
    }
  }
}

TEST(GpuCatalogue, UnknownNameListsKnownOnes) {
  const Result<GpuSpec> gpu = GpuCatalogue().Find("H999");
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(gpu.error().message().find("'H999'"), std::string::npos);
  EXPECT_NE(gpu.error().message().find("B200"), std::string::npos);
}

TEST(GpuCatalogue, UsersAddAndReplace) {
  GpuCatalogue catalogue;
  const size_t before = catalogue.all().size();
  ASSERT_TRUE(catalogue
                  .AddJson(R"({"gpus":[{"name":"X9","aliases":["H100"],"memory_gb":48.5,"bandwidth_gb_s":1000,"sm":120,
                              "fp8":true,"fp4":true},{"name":"H200","memory_bytes":140000000000,"bandwidth_gb_s":4800}]})",
                           "mine.json")
                  .ok());
  EXPECT_EQ(catalogue.all().size(), before + 1);
  EXPECT_EQ(catalogue.Find("x9")->memory_bytes, 48'500'000'000);
  EXPECT_EQ(catalogue.Find("H100")->name, "X9");
  EXPECT_EQ(catalogue.Find("H200")->memory_bytes, 140'000'000'000);
}

TEST(GpuCatalogue, ErrorsNameEntryAndField) {
  const auto message = [](const char* text) {
    GpuCatalogue catalogue;
    const Status status = catalogue.AddJson(text, "mine.json");
    EXPECT_FALSE(status.ok()) << text;
    if (status.ok()) return std::string();
    EXPECT_EQ(status.error().code(), ErrorCode::kMalformed);
    return status.error().message();
  };
  EXPECT_EQ(message(R"({"gpus":[{"name":"X","memory_gb":-1,"bandwidth_gb_s":5}]})"),
            "'mine.json': gpus[0].memory_gb: expected a positive number, found -1");
  EXPECT_EQ(message(R"({"gpus":[{"name":"X","memory_gb":1}]})"),
            "'mine.json': gpus[0].bandwidth_gb_s: is missing; expected a number");
  EXPECT_EQ(message(R"({"gpus":[{"memory_gb":1,"bandwidth_gb_s":5}]})"),
            "'mine.json': gpus[0].name: is missing; expected a text");
  EXPECT_EQ(message(R"({"gpus":[{"name":"X","memory":1,"bandwidth_gb_s":5}]})"),
            "'mine.json': gpus[0].memory: unknown field; see docs/plan.md");
  EXPECT_EQ(message(R"({"gpus":[{"name":"X","memory_gb":1,"bandwidth_gb_s":5,"fp8":1}]})"),
            "'mine.json': gpus[0].fp8: expected true or false, found 1");
  EXPECT_EQ(message(R"({"gpus":[7]})"), "'mine.json': gpus[0]: expected an object");
  EXPECT_EQ(message("[]"), "'mine.json': gpus: expected an object with an array \"gpus\"");
  EXPECT_NE(message("{").find("'mine.json'"), std::string::npos);
}

}  // namespace
}  // namespace haypile
