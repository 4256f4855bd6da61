#include "planner/byte_size.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

int64_t Count(const char* text) {
  Result<int64_t> count = ParseCount(text, "--x");
  EXPECT_TRUE(count.ok()) << text;
  return count.ok() ? *count : -1;
}

TEST(ByteSize, SpellingsOfTheEngines) {
  EXPECT_EQ(Count("8500000000"), 8'500'000'000);
  EXPECT_EQ(Count("8.5g"), 8'500'000'000);
  EXPECT_EQ(Count("8G"), int64_t{8} << 30);
  EXPECT_EQ(Count("32k"), 32'000);
  EXPECT_EQ(Count("32K"), 32'768);
  EXPECT_EQ(Count("8.5GiB"), 9'126'805'504);
  EXPECT_EQ(Count("8 GB"), 8'000'000'000);
  EXPECT_EQ(Count("65.52GB"), 65'519'999'999);  // floor of the double product, as vLLM's own parser has it
  EXPECT_EQ(Count("1e9"), 1'000'000'000);
  EXPECT_EQ(Count("9223372036854775807"), INT64_MAX);
}

TEST(ByteSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "0", "-5", "-8g", "8x", "g", "8.5G", "nan", "inf", "1e30", "8 giga",
                           "9223372036854775808t", "8gg", "0.1"}) {
    Result<int64_t> count = ParseCount(text, "--kv-cache-memory-bytes");
    ASSERT_FALSE(count.ok()) << text;
    EXPECT_EQ(count.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(count.error().message().find("--kv-cache-memory-bytes"), std::string::npos);
  }
}

}  // namespace
}  // namespace haypile
