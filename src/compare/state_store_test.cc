#include "compare/state_store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "compare/row_json.h"

namespace haypile {
namespace {

std::string FreshPath() {
  const std::string folder = testing::TempDir() + "haypile_state_test";
  std::filesystem::remove_all(folder);
  return folder + "/state.json";
}

TEST(StateStore, StepsSurviveTheProcess) {
  const std::string path = FreshPath();
  {
    StateStore store(path, "key");
    EXPECT_EQ(store.Find("a"), nullptr);
    ASSERT_TRUE(store.Put("a", {1, 2}).ok());
    ASSERT_TRUE(store.Put("b", "x").ok());
  }
  StateStore again(path, "key");
  EXPECT_EQ(again.finished_steps(), 2u);
  EXPECT_EQ(*again.Find("a"), Json({1, 2}));
  again.Remove();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(StateStore, AnotherKeyOrABrokenFileCountsAsEmpty) {
  const std::string path = FreshPath();
  ASSERT_TRUE(StateStore(path, "key").Put("a", 1).ok());
  EXPECT_EQ(StateStore(path, "other").Find("a"), nullptr);
  for (const char* text : {"", "{", "[]", R"({"schema": "haypile.compare_state/1", "key": "key", "steps": 3})"}) {
    ASSERT_TRUE(WriteFileAtomic(path, text).ok());
    EXPECT_EQ(StateStore(path, "key").finished_steps(), 0u) << text;
  }
}

TEST(StepPayloads, RoundTrip) {
  const LaneRows rows = {{{0.25, 1.5, 1.75, true, true}, {0, 0, 0, false, false}}, {}};
  LaneRows rows_again;
  ASSERT_TRUE(RowsFromJson(RowsToJson(rows), rows_again));
  ASSERT_EQ(rows_again.size(), 2u);
  EXPECT_EQ(rows_again[0][0].kl, 0.25);
  EXPECT_EQ(rows_again[0][0].candidate_nll, 1.75);
  EXPECT_TRUE(rows_again[0][0].same_top1);
  EXPECT_FALSE(rows_again[0][1].finite);

  const LanePasses passes = {{true, false, true}, {false, false, true}};
  LanePasses passes_again;
  ASSERT_TRUE(PassesFromJson(PassesToJson(passes), passes_again));
  EXPECT_EQ(passes_again, passes);

  CompareSpeed speed;
  speed.prefill = {{1024, 500.5, 2.5, 3, 3200.0}};
  speed.decode = {{1, 1024, 16.5, 0.5, 5, std::nullopt, 1.5, 0.75}};
  speed.slope_us_per_1k_tokens = 600.0;
  std::vector<CompareSpeed> speeds;
  ASSERT_TRUE(SpeedFromJson(SpeedToJson({speed}), speeds));
  ASSERT_EQ(speeds.size(), 1u);
  EXPECT_EQ(speeds[0], speed);

  LaneGolden golden;
  ASSERT_TRUE(GoldenFromJson(GoldenToJson({{{{1, 2}, "ab"}}}), golden));
  EXPECT_EQ(golden[0][0].text, "ab");
}

TEST(StepPayloads, JsonOfAnotherShapeIsRefused) {
  LaneRows rows;
  EXPECT_FALSE(RowsFromJson(Json{{1}}, rows));
  EXPECT_FALSE(RowsFromJson(Json{{{"x"}}}, rows));
  LanePasses passes;
  EXPECT_FALSE(PassesFromJson(Json{"x"}, passes));
  std::vector<CompareSpeed> speeds;
  EXPECT_FALSE(SpeedFromJson(Json{{{"prefill", 1}}}, speeds));
}

}  // namespace
}  // namespace haypile
