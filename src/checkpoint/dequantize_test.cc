#include "checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "base/file.h"
#include "base/json.h"

namespace haypile {
namespace {

std::vector<uint8_t> FromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

void AppendFp16(uint16_t bits, std::vector<uint8_t>* block) {
  block->push_back(static_cast<uint8_t>(bits & 255));
  block->push_back(static_cast<uint8_t>(bits >> 8));
}

constexpr uint16_t kOne = 0x3c00, kTwo = 0x4000, kHalf = 0x3800;  // fp16

std::vector<float> Expand(WeightType type, const std::vector<uint8_t>& block, size_t elements) {
  std::vector<float> values(elements);
  DequantizeToFloat(type, block.data(), values);
  return values;
}

TEST(Dequantize, EqualsTheIndependentReaderBitForBit) {
  const std::map<std::string, WeightType> types = {{"Q8_0", WeightType::kQ8_0}, {"Q4_0", WeightType::kQ4_0},
                                                   {"Q4_1", WeightType::kQ4_1}, {"Q5_0", WeightType::kQ5_0},
                                                   {"Q5_1", WeightType::kQ5_1}, {"Q4_K", WeightType::kQ4K},
                                                   {"Q5_K", WeightType::kQ5K},  {"Q6_K", WeightType::kQ6K}};
  const std::string text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/dequantize_vectors.jsonl").value();
  std::map<std::string, int> seen;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    const Json row = ParseJson(std::string_view(text).substr(start, end - start)).value();
    const std::string name = row["type"].get<std::string>();
    const std::vector<uint8_t> wanted = FromHex(row["values"].get<std::string>());
    const std::vector<float> values =
        Expand(types.at(name), FromHex(row["block"].get<std::string>()), wanted.size() / 4);
    EXPECT_EQ(std::memcmp(values.data(), wanted.data(), wanted.size()), 0) << name << " block " << seen[name];
    ++seen[name];
  }
  EXPECT_EQ(seen.size(), types.size());
  for (const auto& [name, blocks] : seen) EXPECT_EQ(blocks, 3) << name;
}

TEST(Dequantize, Q8_0ByHand) {
  std::vector<uint8_t> block;
  AppendFp16(kHalf, &block);
  for (int i = 0; i < 32; ++i) block.push_back(static_cast<uint8_t>(static_cast<int8_t>(i - 16)));
  block[2] = 0x80;
  const std::vector<float> values = Expand(WeightType::kQ8_0, block, 32);
  EXPECT_EQ(values[0], -64.0f);
  for (int i = 1; i < 32; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], 0.5f * static_cast<float>(i - 16));
}

// Byte i holds i in the low nibble and 15-i in the high one.
void AppendNibbles(std::vector<uint8_t>* block) {
  for (int i = 0; i < 16; ++i) block->push_back(static_cast<uint8_t>(i | (15 - i) << 4));
}

TEST(Dequantize, FourAndFiveBitBlocksByHand) {
  std::vector<uint8_t> q4_0, q4_1, q5_0, q5_1;
  const std::vector<uint8_t> high = {0x01, 0x00, 0x00, 0x80};  // bit 4 of elements 0 and 31
  AppendFp16(kTwo, &q4_0);
  AppendNibbles(&q4_0);
  AppendFp16(kTwo, &q4_1);
  AppendFp16(kHalf, &q4_1);
  AppendNibbles(&q4_1);
  AppendFp16(kTwo, &q5_0);
  q5_0.insert(q5_0.end(), high.begin(), high.end());
  AppendNibbles(&q5_0);
  AppendFp16(kTwo, &q5_1);
  AppendFp16(kHalf, &q5_1);
  q5_1.insert(q5_1.end(), high.begin(), high.end());
  AppendNibbles(&q5_1);
  const auto v4_0 = Expand(WeightType::kQ4_0, q4_0, 32), v4_1 = Expand(WeightType::kQ4_1, q4_1, 32);
  const auto v5_0 = Expand(WeightType::kQ5_0, q5_0, 32), v5_1 = Expand(WeightType::kQ5_1, q5_1, 32);
  for (size_t i = 0; i < 32; ++i) {
    const auto nibble = static_cast<float>(i < 16 ? i : 31 - i);
    const float five = nibble + (i == 0 || i == 31 ? 16.0f : 0.0f);
    EXPECT_EQ(v4_0[i], 2.0f * (nibble - 8.0f)) << i;
    EXPECT_EQ(v4_1[i], 2.0f * nibble + 0.5f) << i;
    EXPECT_EQ(v5_0[i], 2.0f * (five - 16.0f)) << i;
    EXPECT_EQ(v5_1[i], 2.0f * five + 0.5f) << i;
  }
}

// Scales 1, 3, 5, 7, 17, 35, 50, 63 and mins 2, 4, 6, 8, 18, 36, 51, 62 in Q4_K's 12 bytes.
constexpr int kScales[8] = {1, 3, 5, 7, 17, 35, 50, 63};
constexpr int kMins[8] = {2, 4, 6, 8, 18, 36, 51, 62};

std::vector<uint8_t> PackedScales() {
  std::vector<uint8_t> packed(12);
  for (size_t j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(kScales[j] + (kScales[j + 4] / 16) * 64);
    packed[j + 4] = static_cast<uint8_t>(kMins[j] + (kMins[j + 4] / 16) * 64);
    packed[j + 8] = static_cast<uint8_t>(kScales[j + 4] % 16 + (kMins[j + 4] % 16) * 16);
  }
  return packed;
}

TEST(Dequantize, Q4KAndQ5KByHand) {
  // The quant of element e is (e * 7 + e / 32) % 16 for four bits, % 32 for five.
  std::vector<uint8_t> nibbles4(128), nibbles5(128), tops(32);
  for (int e = 0; e < 256; ++e) {
    const int q4 = (e * 7 + e / 32) % 16, q5 = (e * 7 + e / 32) % 32;
    const auto byte = static_cast<size_t>(e / 64 * 32 + e % 32);
    const int shift = e / 32 % 2 * 4;
    nibbles4[byte] = static_cast<uint8_t>(nibbles4[byte] | q4 << shift);
    nibbles5[byte] = static_cast<uint8_t>(nibbles5[byte] | q5 % 16 << shift);
    const auto top = static_cast<size_t>(e % 32);
    tops[top] = static_cast<uint8_t>(tops[top] | q5 / 16 << e / 32);
  }
  std::vector<uint8_t> head;
  AppendFp16(kHalf, &head);
  AppendFp16(kTwo, &head);
  const std::vector<uint8_t> scales = PackedScales();
  head.insert(head.end(), scales.begin(), scales.end());
  std::vector<uint8_t> q4k = head, q5k = head;
  q4k.insert(q4k.end(), nibbles4.begin(), nibbles4.end());
  q5k.insert(q5k.end(), tops.begin(), tops.end());
  q5k.insert(q5k.end(), nibbles5.begin(), nibbles5.end());
  ASSERT_EQ(q4k.size(), 144u);
  ASSERT_EQ(q5k.size(), 176u);
  const auto v4 = Expand(WeightType::kQ4K, q4k, 256), v5 = Expand(WeightType::kQ5K, q5k, 256);
  for (int e = 0; e < 256; ++e) {
    const float scale = 0.5f * static_cast<float>(kScales[e / 32]), min = 2.0f * static_cast<float>(kMins[e / 32]);
    EXPECT_EQ(v4[static_cast<size_t>(e)], scale * static_cast<float>((e * 7 + e / 32) % 16) - min) << e;
    EXPECT_EQ(v5[static_cast<size_t>(e)], scale * static_cast<float>((e * 7 + e / 32) % 32) - min) << e;
  }
}

TEST(Dequantize, Q6KByHand) {
  std::vector<uint8_t> block(208);
  for (int e = 0; e < 256; ++e) {
    const int q = (e * 11 + e / 64) % 64;
    const int half = e / 128, in_half = e % 128, quarter = in_half / 32, lane = in_half % 32;
    const auto low = static_cast<size_t>(64 * half + 32 * (quarter % 2) + lane);
    const auto top = static_cast<size_t>(128 + 32 * half + lane);
    block[low] = static_cast<uint8_t>(block[low] | (q % 16) << (quarter / 2 * 4));
    block[top] = static_cast<uint8_t>(block[top] | (q / 16) << (2 * quarter));
  }
  for (int g = 0; g < 16; ++g)
    block[static_cast<size_t>(192 + g)] = static_cast<uint8_t>(static_cast<int8_t>(g * 9 - 70));
  AppendFp16(kHalf, &block);
  const auto values = Expand(WeightType::kQ6K, block, 256);
  for (int e = 0; e < 256; ++e) {
    const float scale = 0.5f * static_cast<float>(e / 16 * 9 - 70);
    EXPECT_EQ(values[static_cast<size_t>(e)], scale * static_cast<float>((e * 11 + e / 64) % 64 - 32)) << e;
  }
}

TEST(Dequantize, EveryFp16ByItsDefinition) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    std::vector<uint8_t> two;
    AppendFp16(static_cast<uint16_t>(bits), &two);
    const float value = Expand(WeightType::kF16, two, 1)[0];
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const auto mantissa = static_cast<double>(bits & 1023);
    double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) magnitude = std::numeric_limits<double>::infinity();
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(value), bits & 0x8000 ? -magnitude : magnitude) << bits;
    }
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Dequantize, PlainTypesAreExact) {
  EXPECT_EQ(Expand(WeightType::kBf16, {0x80, 0x3f, 0x00, 0xc0}, 2), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(Expand(WeightType::kF32, {0, 0, 0x80, 0x3f}, 1), (std::vector<float>{1.0f}));
}

TEST(RoundToBf16, NearestEvenAndSpecials) {
  struct Case {
    uint32_t from;
    uint16_t to;
  };
  const Case cases[] = {
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80},
      {0x3fffffff, 0x4000}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x80000000, 0x8000},
      {0x00000001, 0x0000}, {0x00018000, 0x0002}, {0x7f800001, 0x7fc0}, {0xffffffff, 0xffff}, {0x7fc00000, 0x7fc0},
  };
  for (const Case& c : cases) {
    const float value = std::bit_cast<float>(c.from);
    uint16_t rounded = 0;
    RoundToBf16({&value, 1}, &rounded);
    EXPECT_EQ(rounded, c.to) << std::hex << c.from;
  }
}

}  // namespace
}  // namespace haypile
