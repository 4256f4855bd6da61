#include "kernels/attention/tile_layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "spec/kv_geometry.h"

namespace haypile {
namespace {

// Every number of "A worked example: SmolLM2 135M, nvfp4" in docs/page-layout.md.
class PageLayoutExample : public testing::Test {
 protected:
  static constexpr int kKvHeads = 3, kHeadDim = 64, kToken = 27, kHead = 2, kDim = 37;
  static constexpr int kRow = kToken % kTileTokens;

  const KvFormatInfo& info_ = InfoOf(KvFormat::kNvfp4);
  const TileLayout layout_ = MakeTileLayout(KvFormat::kNvfp4, KvFormat::kNvfp4, kKvHeads, kHeadDim);
};

TEST_F(PageLayoutExample, PartsOfTheTile) {
  const int64_t elements[][2] = {{0, 512}, {1024, 1536}, {2048, 2560}};
  const int64_t scales[][2] = {{3072, 3136}, {3200, 3264}, {3328, 3392}};
  for (int head = 0; head < kKvHeads; ++head) {
    EXPECT_EQ(layout_.k_data_offset + head * layout_.data_head_stride, elements[head][0]) << head;
    EXPECT_EQ(layout_.v_data_offset + head * layout_.data_head_stride, elements[head][1]) << head;
    EXPECT_EQ(layout_.k_scale_offset + head * layout_.scale_head_stride, scales[head][0]) << head;
    EXPECT_EQ(layout_.v_scale_offset + head * layout_.scale_head_stride, scales[head][1]) << head;
  }
  EXPECT_EQ(layout_.tile_bytes, 3456);
  EXPECT_EQ(layout_.tile_bytes, kTileTokens * 2 * kKvHeads * RowBytes(KvFormat::kNvfp4, kHeadDim));
}

TEST_F(PageLayoutExample, OneElementAndItsScale) {
  const int bits = info_.element_bits;
  EXPECT_EQ(BlockInner(bits), 8);
  EXPECT_EQ(kToken / kTileTokens, 1);
  EXPECT_EQ(kRow, 11);

  const int64_t k = KElementByte(KvFormat::kNvfp4, bits, kRow, kDim);
  EXPECT_EQ(k / kBlockBytes, 4);
  EXPECT_EQ(k % kBlockBytes, 39);
  EXPECT_EQ(layout_.k_data_offset + kHead * layout_.data_head_stride + k, 2343);
  EXPECT_TRUE(InHighNibble(kDim));

  const int64_t v = VElementByte(KvFormat::kNvfp4, bits, kRow, kDim);
  EXPECT_EQ(v / kBlockBytes, 5);
  EXPECT_EQ(v % kBlockBytes, 27);
  EXPECT_EQ(layout_.v_data_offset + kHead * layout_.data_head_stride + v, 2907);
  EXPECT_FALSE(InHighNibble(kRow));

  const int64_t scale = ScaleByte(info_.block_scale_bytes, kRow, kDim / info_.block_elements);
  EXPECT_EQ(layout_.k_scale_offset + kHead * layout_.scale_head_stride + scale, 3371);
  EXPECT_EQ(layout_.v_scale_offset + kHead * layout_.scale_head_stride + scale, 3435);
}

// The places of one block as the page draws them: byte (and for 4 bits nibble) of element i of lane n.
TEST(BlockByte, PlacesOfThePage) {
  EXPECT_EQ(BlockByte(KvFormat::kBf16, 16, 2, 1), 10);
  EXPECT_EQ(BlockByte(KvFormat::kFp16, 16, 2, 1), 36);
  EXPECT_EQ(BlockByte(KvFormat::kFp8E4m3, 8, 3, 1), 7);
  EXPECT_EQ(BlockByte(KvFormat::kFp8E4m3, 8, 0, 2), 8);
  EXPECT_EQ(BlockByte(KvFormat::kFp8E4m3, 8, 7, 3), 31);
  EXPECT_EQ(BlockByte(KvFormat::kQ4_0, 4, 1, 5), 3);
  EXPECT_EQ(BlockByte(KvFormat::kQ4_0, 4, 0, 6), 8);
}

// No two elements share a place, and a part has no byte that belongs to none.
TEST(TileLayout, EveryByteOfAPartIsUsedOnce) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    constexpr int kHeadDim = 64;
    const int bits = info.element_bits;
    const int64_t part_bytes = int64_t{kTileTokens} * kHeadDim * bits / 8;
    std::vector<int> k_bits(part_bytes), v_bits(part_bytes);
    for (int token = 0; token < kTileTokens; ++token) {
      for (int dim = 0; dim < kHeadDim; ++dim) {
        const auto mark = [&](std::vector<int>* part, int64_t byte, int position) {
          for (int i = 0; i < (bits + 7) / 8; ++i) {
            const int mask = bits == 4 ? (InHighNibble(position) ? 0xf0 : 0x0f) : 0xff;
            EXPECT_EQ(part->at(byte + i) & mask, 0) << info.name << " token " << token << " dim " << dim;
            part->at(byte + i) |= mask;
          }
        };
        mark(&k_bits, KElementByte(info.format, bits, token, dim), dim);
        mark(&v_bits, VElementByte(info.format, bits, token, dim), token);
      }
    }
    EXPECT_EQ(std::vector<int>(part_bytes, 0xff), k_bits) << info.name;
    EXPECT_EQ(std::vector<int>(part_bytes, 0xff), v_bits) << info.name;
  }
}

}  // namespace
}  // namespace haypile
