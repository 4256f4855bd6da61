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
  for (const Isa isa : kEveryIsa) {
    if (!HasIsa(isa)) continue;
    setenv("HAYPILE_FORCE_ISA", std::string(IsaName(isa)).c_str(), 1);
    EXPECT_EQ(SelectIsa().value(), isa);
  }
}

// No processor has the levels of two architectures.
TEST_F(ForcedIsa, AMissingLevelIsRefused) {
  int missing = 0;
  for (const Isa isa : kEveryIsa) {
    if (HasIsa(isa)) continue;
    ++missing;
    setenv("HAYPILE_FORCE_ISA", std::string(IsaName(isa)).c_str(), 1);
    EXPECT_EQ(SelectIsa().error().code(), ErrorCode::kUnsupported);
    EXPECT_NE(SelectIsa().error().message().find(IsaName(HighestIsa())), std::string::npos);
  }
  EXPECT_GT(missing, 0);
}

TEST(Isa, ALevelOfAnotherArchitectureIsNotHere) {
#if defined(__aarch64__)
  EXPECT_EQ(HighestIsa(), Isa::kNeon);
  EXPECT_FALSE(HasIsa(Isa::kAvx2));
#else
  EXPECT_FALSE(HasIsa(Isa::kNeon));
#endif
  EXPECT_TRUE(HasIsa(Isa::kScalar));
  EXPECT_TRUE(HasIsa(HighestIsa()));
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
class LevelOfThisProcessor : public testing::TestWithParam<Isa> {};

TEST_P(LevelOfThisProcessor, IsTested) {
  const Isa isa = GetParam();
  if (!HasIsa(isa)) GTEST_SKIP() << "this processor lacks " << IsaName(isa);
  SetActiveIsaForTest(isa);
  EXPECT_EQ(ActiveIsa(), isa);
  SetActiveIsaForTest(HighestIsa());
}

INSTANTIATE_TEST_SUITE_P(Isa, LevelOfThisProcessor, testing::ValuesIn(kEveryIsa),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

}  // namespace
}  // namespace haypile
