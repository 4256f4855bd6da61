#include "base/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"

namespace haypile {
namespace {

// The examples of FIPS 180-4 (NIST's example values), and the empty message.
constexpr char kEmpty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kTwoBlocks[] = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
constexpr char kMillionA[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), kEmpty);
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), kTwoBlocks);
}

TEST(Sha256, PiecesOfAnySizeGiveTheSameDigest) {
  for (const size_t piece : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}}) {
    Sha256 hash;
    for (size_t done = 0; done < 1000000; done += piece) {
      hash.Update(std::string(std::min(piece, 1000000 - done), 'a'));
    }
    EXPECT_EQ(hash.FinishHex(), kMillionA) << piece;
  }
}

TEST(Sha256, OfFile) {
  const std::string path = testing::TempDir() + "haypile_sha256_test.bin";
  ASSERT_TRUE(WriteFileAtomic(path, std::string(1000000, 'a')).ok());
  uint64_t heard = 0;
  EXPECT_EQ(Sha256OfFile(path, [&](uint64_t done) { heard = done; }).value(), kMillionA);
  EXPECT_EQ(heard, 1000000u);
  std::filesystem::remove(path);
  EXPECT_EQ(Sha256OfFile(path).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Sha256OfFile(testing::TempDir()).error().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace haypile
