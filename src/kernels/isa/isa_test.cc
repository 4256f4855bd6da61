#include "kernels/isa/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace haypile {
namespace {

class ForcedIsa : public testing::Test {
 protected:
  void TearDown() override { unsetenv("HAYPILE_FORCE_ISA"); }
};

TEST_F(ForcedIsa, EveryLevelTheProcessorHasCanBeForced) {
  for (int i = 0; i <= static_cast<int>(HighestIsa()); ++i) {
    setenv("HAYPILE_FORCE_ISA", std::string(IsaName(static_cast<Isa>(i))).c_str(), 1);
    EXPECT_EQ(SelectIsa().value(), static_cast<Isa>(i));
  }
}

TEST_F(ForcedIsa, AMissingLevelIsRefused) {
  if (HighestIsa() == Isa::kAvx512) GTEST_SKIP() << "this processor has every level";
  setenv("HAYPILE_FORCE_ISA", "avx512", 1);
  EXPECT_EQ(SelectIsa().error().code(), ErrorCode::kUnsupported);
}

TEST_F(ForcedIsa, AnUnknownLevelIsRefused) {
  setenv("HAYPILE_FORCE_ISA", "avx", 1);
  EXPECT_EQ(SelectIsa().error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ForcedIsa, UnsetOrEmptyMeansHighest) {
  EXPECT_EQ(SelectIsa().value(), HighestIsa());
  setenv("HAYPILE_FORCE_ISA", "", 1);
  EXPECT_EQ(SelectIsa().value(), HighestIsa());
}

// The tests of kernels leave out the levels that the processor lacks. This one says so.
class LevelOfThisProcessor : public testing::TestWithParam<int> {};

TEST_P(LevelOfThisProcessor, IsTested) {
  const auto isa = static_cast<Isa>(GetParam());
  if (isa > HighestIsa()) GTEST_SKIP() << "this processor lacks " << IsaName(isa);
  SetActiveIsaForTest(isa);
  EXPECT_EQ(ActiveIsa(), isa);
  SetActiveIsaForTest(HighestIsa());
}

INSTANTIATE_TEST_SUITE_P(Isa, LevelOfThisProcessor, testing::Range(0, kIsaCount),
                         [](const auto& test) { return std::string(IsaName(static_cast<Isa>(test.param))); });

}  // namespace
}  // namespace haypile
