#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3fn.h"
#include "formats/e4m3fnuz.h"
#include "formats/e5m2.h"
#include "formats/e8m0.h"
#include "formats/fp16.h"

namespace haypile {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string TestData(const std::string& file) {
  Result<std::string> content = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/" + file);
  return content.ok() ? *content : std::string();
}

// Float bits of every code, from a decode.csv: "code,f32_bits_hex,value" in code order.
std::vector<uint32_t> DecodedBits(const std::string& file) {
  std::istringstream lines(TestData(file));
  std::string line;
  std::getline(lines, line);
  std::vector<uint32_t> bits;
  while (std::getline(lines, line)) {
    EXPECT_EQ(std::stoul(line, nullptr, 16), bits.size()) << line;
    bits.push_back(static_cast<uint32_t>(std::stoul(line.substr(line.find(',') + 1), nullptr, 16)));
  }
  return bits;
}

// The value of a float format with these exponent and mantissa widths, from the definition.
double MinifloatValue(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return code >> (mantissa_bits + exponent_bits) != 0 ? -magnitude : magnitude;
}

struct Element {
  const char* name;
  int codes;
  float (*decode)(uint8_t);
  uint8_t (*encode)(float);
};

const Element kElements[] = {
    {"e4m3fn", 256, FloatFromE4m3fn, E4m3fnFromFloat},
    {"e4m3fnuz", 256, FloatFromE4m3fnuz, E4m3fnuzFromFloat},
    {"e5m2", 256, FloatFromE5m2, E5m2FromFloat},
    {"e2m1", 16, FloatFromE2m1, E2m1FromFloat},
};

TEST(ElementsTest, EveryCodeDecodesAsTheIndependentLibraryHasIt) {
  for (const Element& element : kElements) {
    const std::vector<uint32_t> expected = DecodedBits(std::string(element.name) + ".decode.csv");
    ASSERT_EQ(expected.size(), static_cast<size_t>(element.codes)) << element.name;
    for (int code = 0; code < element.codes; ++code) {
      const uint32_t bits = std::bit_cast<uint32_t>(element.decode(static_cast<uint8_t>(code)));
      EXPECT_EQ(bits, expected[static_cast<size_t>(code)]) << element.name << " code " << code;
    }
  }
}

TEST(ElementsTest, EveryBf16AndFp16InputEncodesAsTheIndependentLibraryHasIt) {
  for (const Element& element : kElements) {
    const std::string from_bf16 = TestData(std::string(element.name) + ".encode_bf16.bin");
    const std::string from_fp16 = TestData(std::string(element.name) + ".encode_fp16.bin");
    ASSERT_EQ(from_bf16.size(), 65536u) << element.name;
    ASSERT_EQ(from_fp16.size(), 65536u) << element.name;
    int wrong = 0;
    for (uint32_t i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      const uint8_t bf16 = element.encode(FloatFromBf16(bits));
      const uint8_t fp16 = element.encode(FloatFromFp16(bits));
      if (bf16 != static_cast<uint8_t>(from_bf16[i]) && wrong++ < 10) {
        ADD_FAILURE() << element.name << " bf16 " << i << " gave " << +bf16;
      }
      if (fp16 != static_cast<uint8_t>(from_fp16[i]) && wrong++ < 10) {
        ADD_FAILURE() << element.name << " fp16 " << i << " gave " << +fp16;
      }
    }
    EXPECT_EQ(wrong, 0) << element.name;
  }
}

// Floats that neither bf16 nor fp16 can hold: around every boundary between two codes, one float bit apart.
TEST(ElementsTest, BoundariesBetweenCodesRoundToTheNearerAndTiesToTheEvenCode) {
  for (const Element& element : kElements) {
    const int half = element.codes / 2;
    for (int code = 0; code + 1 < half; ++code) {
      const float low = element.decode(static_cast<uint8_t>(code));
      const float high = element.decode(static_cast<uint8_t>(code + 1));
      if (!std::isfinite(high)) break;
      const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
      const int even = code % 2 == 0 ? code : code + 1;
      EXPECT_EQ(element.encode(middle), even) << element.name << " " << middle;
      EXPECT_EQ(element.encode(std::nextafter(middle, 0.0f)), code) << element.name << " below " << middle;
      EXPECT_EQ(element.encode(std::nextafter(middle, kInf)), code + 1) << element.name << " above " << middle;
      const int negative_even = even == 0 && std::string(element.name) == "e4m3fnuz" ? 0 : half + even;
      EXPECT_EQ(element.encode(-middle), negative_even) << element.name << " " << -middle;
    }
  }
}

TEST(ElementsTest, SaturatesInfinityAndKeepsNan) {
  EXPECT_EQ(E4m3fnFromFloat(kInf), 0x7e);
  EXPECT_EQ(E4m3fnFromFloat(-kInf), 0xfe);
  EXPECT_EQ(E4m3fnFromFloat(465.0f), 0x7e);
  EXPECT_EQ(E4m3fnFromFloat(kNan), 0x7f);
  EXPECT_EQ(E4m3fnFromFloat(-kNan), 0xff);
  EXPECT_EQ(E4m3fnFromFloat(-0.0f), 0x80);
  EXPECT_EQ(E4m3fnuzFromFloat(-kInf), 0xff);
  EXPECT_EQ(E4m3fnuzFromFloat(-kNan), 0x80);
  EXPECT_EQ(E4m3fnuzFromFloat(-1e-30f), 0x00);
  EXPECT_EQ(E5m2FromFloat(kInf), 0x7b);
  EXPECT_EQ(E5m2FromFloat(-61440.0f), 0xfb);
  EXPECT_EQ(E5m2FromFloat(kNan), 0x7e);
  EXPECT_EQ(E2m1FromFloat(-kInf), 0xf);
  EXPECT_EQ(E2m1FromFloat(kNan), kE2m1NoCode);
  EXPECT_EQ(E4m3fnFromFloat(std::numeric_limits<float>::denorm_min()), 0x00);
}

TEST(ElementsTest, E8m0DecodesEveryCode) {
  const std::vector<uint32_t> expected = DecodedBits("e8m0.decode.csv");
  ASSERT_EQ(expected.size(), 256u);
  for (uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(std::bit_cast<uint32_t>(FloatFromE8m0(static_cast<uint8_t>(code))), expected[code]) << code;
  }
  for (int code = 0; code <= 253; ++code) {
    const uint8_t byte = static_cast<uint8_t>(code);
    EXPECT_EQ(FloatFromE8m0(byte) * ReciprocalOfE8m0(byte), 1.0f) << code;
  }
}

TEST(ElementsTest, E8m0SharedScaleFollowsTheOcpRule) {
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    const int expected = std::max(exponent - 2, -127) + 127;
    EXPECT_EQ(E8m0SharedScale(power, 2), expected) << exponent;
    EXPECT_EQ(E8m0SharedScale(std::nextafter(2 * power, 0.0f), 2), expected) << exponent;
  }
  EXPECT_EQ(E8m0SharedScale(0.0f, 2), 0);
  EXPECT_EQ(E8m0SharedScale(kInf, 2), 127 + 127 - 2);
  EXPECT_EQ(E8m0SharedScale(kNan, 2), kE8m0Nan);
}

TEST(ElementsTest, FloatsRoundToBf16AndFp16AsTheIndependentLibraryHasIt) {
  const std::string rows = TestData("f32_to_bf16_fp16.bin");
  ASSERT_EQ(rows.size(), 29692u * 12);
  int wrong = 0;
  for (size_t i = 0; i < rows.size(); i += 12) {
    uint32_t row[3];
    std::memcpy(row, rows.data() + i, 12);
    const float value = std::bit_cast<float>(row[0]);
    if (Bf16FromFloat(value) != row[1] && wrong++ < 10) ADD_FAILURE() << "bf16 of bits " << row[0];
    if (Fp16FromFloat(value) != row[2] && wrong++ < 10) ADD_FAILURE() << "fp16 of bits " << row[0];
    const uint32_t bf16_element = (row[1] & 0x7fff) == 0x7f80 ? row[1] - 1 : row[1];
    const uint32_t fp16_element = (row[2] & 0x7fff) == 0x7c00 ? row[2] - 1 : row[2];
    if (Bf16FromFloatSaturating(value) != bf16_element && wrong++ < 10) ADD_FAILURE() << "bf16 element " << row[0];
    if (Fp16FromFloatSaturating(value) != fp16_element && wrong++ < 10) ADD_FAILURE() << "fp16 element " << row[0];
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ElementsTest, EveryFp16CodeDecodesByItsDefinitionAndComesBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t code = static_cast<uint16_t>(i);
    const float value = FloatFromFp16(code);
    if ((i & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_EQ(Fp16FromFloat(value), i | 0x200) << i;
      continue;
    }
    const double expected = (i & 0x7fff) == 0x7c00 ? (i < 0x8000 ? kInf : -kInf) : MinifloatValue(i, 5, 10, 15);
    ASSERT_EQ(value, expected) << i;
    ASSERT_EQ(std::signbit(value), i >= 0x8000) << i;
    ASSERT_EQ(Fp16FromFloat(value), i) << i;
  }
}

TEST(ElementsTest, EveryBf16CodeComesBackAndNanBecomesQuiet) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t code = static_cast<uint16_t>(i);
    const bool nan = (i & 0x7fff) > 0x7f80;
    ASSERT_EQ(Bf16FromFloat(FloatFromBf16(code)), nan ? (i | 0x40) : i);
    ASSERT_EQ(std::isnan(FloatFromBf16(Bf16FromFloatSaturating(FloatFromBf16(code)))), nan);
  }
  // A NaN whose upper mantissa bits are zero must not round to infinity.
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(FloatFromFp16(Fp16FromFloat(std::bit_cast<float>(0xff800001u)))));
}

TEST(ElementsTest, SaturatingConversionsEndAtTheLargestFiniteValue) {
  EXPECT_EQ(Bf16FromFloatSaturating(kInf), 0x7f7f);
  EXPECT_EQ(Bf16FromFloatSaturating(-std::numeric_limits<float>::max()), 0xff7f);
  EXPECT_EQ(Bf16FromFloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(Fp16FromFloatSaturating(-kInf), 0xfbff);
  EXPECT_EQ(Fp16FromFloatSaturating(65519.996f), 0x7bff);
  EXPECT_EQ(Fp16FromFloat(65519.996f), 0x7bff);
  EXPECT_EQ(Fp16FromFloat(65520.0f), 0x7c00);
}

}  // namespace
}  // namespace haypile
