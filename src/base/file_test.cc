#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace haypile {
namespace {

TEST(File, AtomicWriteThenRead) {
  const std::string path = testing::TempDir() + "haypile_file_test.bin";
  const std::string content("a\0b", 3);
  ASSERT_TRUE(WriteFileAtomic(path, content).ok());
  EXPECT_EQ(ReadFile(path).value(), content);
  EXPECT_EQ(ReadFile(path, 2).error().code(), ErrorCode::kMalformed);
  std::filesystem::remove(path);
  EXPECT_EQ(ReadFile(path).error().code(), ErrorCode::kNotFound);
}

TEST(File, UnwritablePathsAreRefusedBeforeWork) {
  EXPECT_EQ(CheckWritable("/no/such/folder/x").error().code(), ErrorCode::kIo);
  EXPECT_EQ(CheckWritable("/tmp").error().code(), ErrorCode::kIo);
  EXPECT_FALSE(WriteFileAtomic("/no/such/folder/x", "y").ok());
}

}  // namespace
}  // namespace haypile
