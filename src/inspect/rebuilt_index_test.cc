#include "inspect/rebuilt_index.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "inspect/report.h"
#include "inspect/sample_checkpoint_test.h"

namespace haypile {
namespace {

using inspect_samples::FileOf;
using testing_files::TemporaryFolder;

class RebuiltIndexTest : public ::testing::Test {
 protected:
  RebuiltIndexTest() {
    folder_.Write("config.json", inspect_samples::LlamaConfig(2));
    folder_.Write("model-00001-of-00002.safetensors",
                  FileOf({{"model.layers.0.self_attn.k_proj.weight", "BF16", {8, 8}}}));
    folder_.Write("model-00002-of-00002.safetensors",
                  FileOf({{"model.layers.1.self_attn.k_proj.weight", "BF16", {8, 4}}}));
  }

  void WriteIndex(const std::string& text) const { folder_.Write("model.safetensors.index.json", text); }

  InspectReport Inspect() const {
    auto report = InspectCheckpoint(folder_.path());
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
    return report.ok() ? std::move(*report) : InspectReport();
  }

  Json ReadIndex() const {
    const auto text = ReadFile(folder_.path() + "/model.safetensors.index.json");
    EXPECT_TRUE(text.ok());
    return text.ok() ? *ParseJson(*text) : Json();
  }

  TemporaryFolder folder_;
};

TEST_F(RebuiltIndexTest, StaleIndexIsReplacedAndThenRight) {
  WriteIndex(R"({"metadata": {"total_size": 1, "total_parameters": 96}, "weight_map": {
    "model.layers.0.self_attn.k_proj.weight": "model-00001-of-00004.safetensors",
    "model.layers.1.self_attn.k_proj.weight": "model-00003-of-00004.safetensors"}})");
  const InspectReport stale = Inspect();
  EXPECT_TRUE(stale.headers.stale_index);
  EXPECT_TRUE(IndexNeedsRebuilding(stale.headers));
  const auto written = WriteRebuiltIndex(stale.headers, "");
  ASSERT_TRUE(written.ok()) << written.error().message();
  EXPECT_EQ(*written, folder_.path() + "/model.safetensors.index.json");
  const Json index = ReadIndex();
  EXPECT_EQ(index["metadata"]["total_size"], 8 * 8 * 2 + 8 * 4 * 2);
  EXPECT_EQ(index["metadata"]["total_parameters"], 96);
  EXPECT_EQ(index["weight_map"].size(), 2u);
  EXPECT_EQ(index["weight_map"]["model.layers.1.self_attn.k_proj.weight"], "model-00002-of-00002.safetensors");
  const InspectReport right = Inspect();
  EXPECT_FALSE(right.headers.stale_index);
  EXPECT_FALSE(IndexNeedsRebuilding(right.headers));
  EXPECT_TRUE(right.headers.missing_files.empty());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 4u) << "a temporary file was left behind";
}

TEST_F(RebuiltIndexTest, MissingIndexIsWritten) {
  const InspectReport without = Inspect();
  EXPECT_TRUE(IndexNeedsRebuilding(without.headers));
  ASSERT_TRUE(WriteRebuiltIndex(without.headers, "").ok());
  EXPECT_FALSE(IndexNeedsRebuilding(Inspect().headers));
}

TEST_F(RebuiltIndexTest, GoesWhereTheUserSays) {
  const std::string path = folder_.path() + "/elsewhere.json";
  const auto written = WriteRebuiltIndex(Inspect().headers, path);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written, path);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/model.safetensors.index.json"));
  const auto refused = WriteRebuiltIndex(Inspect().headers, folder_.path() + "/no/such/folder.json");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("no/such/folder.json"), std::string::npos);
}

TEST_F(RebuiltIndexTest, KeepsTheCopiesThatTheOldIndexChose) {
  folder_.Write("overlay.safetensors", FileOf({{"model.layers.0.self_attn.k_proj.weight", "BF16", {8, 8}}}));
  folder_.Write("late.safetensors", FileOf({{"model.norm.weight", "BF16", {8}}}));
  WriteIndex(R"({"weight_map": {"model.layers.0.self_attn.k_proj.weight": "overlay.safetensors",
    "model.layers.1.self_attn.k_proj.weight": "model-00002-of-00002.safetensors"}})");
  const InspectReport report = Inspect();
  EXPECT_TRUE(IndexNeedsRebuilding(report.headers)) << "model.norm.weight is in no entry";
  ASSERT_TRUE(WriteRebuiltIndex(report.headers, "").ok());
  const Json map = ReadIndex()["weight_map"];
  EXPECT_EQ(map["model.layers.0.self_attn.k_proj.weight"], "overlay.safetensors");
  EXPECT_EQ(map["model.norm.weight"], "late.safetensors");
}

TEST_F(RebuiltIndexTest, NamesNeedEscapes) {
  folder_.Write("odd.safetensors", FileOf({{"a \\\"quoted\\\" \\\\ name\\n", "U8", {1}}}));
  ASSERT_TRUE(WriteRebuiltIndex(Inspect().headers, "").ok());
  EXPECT_EQ(ReadIndex()["weight_map"]["a \"quoted\" \\ name\n"], "odd.safetensors");
}

TEST(RebuiltIndexOfNothingTest, IsRefused) {
  CheckpointHeaders headers;
  headers.folder = "somewhere";
  const auto text = RebuiltIndex(headers, "");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace haypile
