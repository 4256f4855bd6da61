#include "compare/depth_speed.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(CheckDepthSpeed, RefusesByFlag) {
  const auto message = [](const DepthSpeedOptions& options) {
    const Status status = CheckDepthSpeed(options, 4096);
    return status.ok() ? std::string() : status.error().message();
  };
  EXPECT_EQ(message({.depths = {3584, 0}}), "");
  EXPECT_NE(message({.depths = {}}).find("--depth"), std::string::npos);
  EXPECT_NE(message({.depths = {0, -1}}).find("-1"), std::string::npos);
  EXPECT_NE(message({.depths = {5000}}).find("5000"), std::string::npos);
  EXPECT_NE(message({.depths = {3585}}).find("4097 tokens of context"), std::string::npos);
  EXPECT_EQ(message({.depths = {3585}, .prompt_tokens = 0}), "");
  EXPECT_NE(message({.prompt_tokens = 0, .decode_tokens = 0}).find("--decode-tokens"), std::string::npos);
}

TEST(DepthSpeedOptions, PoolHoldsTheContextAndACopy) {
  const DepthSpeedOptions options{.depths = {100, 4000}, .prompt_tokens = 10, .decode_tokens = 32};
  EXPECT_EQ(options.LongestContext(), 4032);
  // Each in whole pages.
  EXPECT_GE(options.PoolTokens(16), 2 * 4032);
  EXPECT_GE(options.PoolTokens(256), 2 * 4096);
}

}  // namespace
}  // namespace haypile
