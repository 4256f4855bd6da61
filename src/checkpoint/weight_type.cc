#include "checkpoint/weight_type.h"

#include <array>
#include <cstdio>

namespace haypile {
namespace {

struct GgufTypeRow {
  uint32_t id;
  WeightTypeInfo info;
};

// Numbers, block lengths and block sizes of the GGUF tensor types (ggml's block structures). Numbers that are missing
// here were withdrawn from the format.
constexpr GgufTypeRow kGgufTypes[] = {
    {0, {WeightType::kF32, "F32", 1, 4}},           {1, {WeightType::kF16, "F16", 1, 2}},
    {2, {WeightType::kQ4_0, "Q4_0", 32, 18}},       {3, {WeightType::kQ4_1, "Q4_1", 32, 20}},
    {6, {WeightType::kQ5_0, "Q5_0", 32, 22}},       {7, {WeightType::kQ5_1, "Q5_1", 32, 24}},
    {8, {WeightType::kQ8_0, "Q8_0", 32, 34}},       {9, {WeightType::kOther, "Q8_1", 32, 36}},
    {10, {WeightType::kOther, "Q2_K", 256, 84}},    {11, {WeightType::kOther, "Q3_K", 256, 110}},
    {12, {WeightType::kQ4K, "Q4_K", 256, 144}},     {13, {WeightType::kQ5K, "Q5_K", 256, 176}},
    {14, {WeightType::kQ6K, "Q6_K", 256, 210}},     {15, {WeightType::kOther, "Q8_K", 256, 292}},
    {16, {WeightType::kOther, "IQ2_XXS", 256, 66}}, {17, {WeightType::kOther, "IQ2_XS", 256, 74}},
    {18, {WeightType::kOther, "IQ3_XXS", 256, 98}}, {19, {WeightType::kOther, "IQ1_S", 256, 50}},
    {20, {WeightType::kOther, "IQ4_NL", 32, 18}},   {21, {WeightType::kOther, "IQ3_S", 256, 110}},
    {22, {WeightType::kOther, "IQ2_S", 256, 82}},   {23, {WeightType::kOther, "IQ4_XS", 256, 136}},
    {24, {WeightType::kOther, "I8", 1, 1}},         {25, {WeightType::kOther, "I16", 1, 2}},
    {26, {WeightType::kOther, "I32", 1, 4}},        {27, {WeightType::kOther, "I64", 1, 8}},
    {28, {WeightType::kOther, "F64", 1, 8}},        {29, {WeightType::kOther, "IQ1_M", 256, 56}},
    {30, {WeightType::kBf16, "BF16", 1, 2}},        {34, {WeightType::kOther, "TQ1_0", 256, 54}},
    {35, {WeightType::kOther, "TQ2_0", 256, 66}},   {39, {WeightType::kOther, "MXFP4", 32, 17}},
};

constexpr WeightTypeInfo kSafetensorsTypes[] = {
    {WeightType::kF32, "F32", 1, 4},       {WeightType::kF16, "F16", 1, 2},       {WeightType::kBf16, "BF16", 1, 2},
    {WeightType::kOther, "F64", 1, 8},     {WeightType::kOther, "BOOL", 1, 1},    {WeightType::kOther, "U8", 1, 1},
    {WeightType::kOther, "I8", 1, 1},      {WeightType::kOther, "U16", 1, 2},     {WeightType::kOther, "I16", 1, 2},
    {WeightType::kOther, "U32", 1, 4},     {WeightType::kOther, "I32", 1, 4},     {WeightType::kOther, "U64", 1, 8},
    {WeightType::kOther, "I64", 1, 8},     {WeightType::kOther, "C64", 1, 8},     {WeightType::kOther, "F8_E4M3", 1, 1},
    {WeightType::kOther, "F8_E5M2", 1, 1}, {WeightType::kOther, "F8_E8M0", 1, 1}, {WeightType::kOther, "F4", 2, 1},
    {WeightType::kOther, "F6_E2M3", 4, 3}, {WeightType::kOther, "F6_E3M2", 4, 3},
};

}  // namespace

const WeightTypeInfo* GgufWeightType(uint32_t id) {
  for (const GgufTypeRow& row : kGgufTypes) {
    if (row.id == id) return &row.info;
  }
  return nullptr;
}

const WeightTypeInfo* SafetensorsWeightType(std::string_view name) {
  for (const WeightTypeInfo& info : kSafetensorsTypes) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::optional<int64_t> ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
  }
  return count;
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string QuotedName(std::string_view name) {
  constexpr size_t kLongest = 96;
  std::string text = "'";
  for (const char c : name.substr(0, kLongest)) {
    if (c >= 0x20 && c < 0x7f) {
      text += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
      text += escaped;
    }
  }
  return text + (name.size() > kLongest ? "...'" : "'");
}

}  // namespace haypile
