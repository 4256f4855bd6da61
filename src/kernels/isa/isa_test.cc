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

}  // namespace
}  // namespace haypile
