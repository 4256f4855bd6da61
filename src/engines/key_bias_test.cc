#include "engines/key_bias.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/json.h"

namespace haypile {
namespace {

// A folder with one F32 tensor of `width` equal values a name.
std::string MakeFolder(const std::string& name, const std::vector<std::pair<std::string, float>>& tensors, int width) {
  const std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::create_directories(folder);
  Json header = Json::object();
  std::string data;
  for (const auto& [tensor, value] : tensors) {
    const size_t begin = data.size();
    for (int i = 0; i < width; ++i) {
      char bytes[4];
      std::memcpy(bytes, &value, 4);
      data.append(bytes, 4);
    }
    header[tensor] = {{"dtype", "F32"}, {"shape", {width}}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  std::ofstream(folder + "/model.safetensors", std::ios::binary) << length << text << data;
  return folder;
}

std::string BiasName(int layer) { return "model.layers." + std::to_string(layer) + ".self_attn.k_proj.bias"; }

TEST(KeyBias, OutliersAtTheEnds) {
  std::vector<std::pair<std::string, float>> tensors;
  for (int layer = 0; layer < 8; ++layer) {
    tensors.emplace_back(BiasName(layer), layer == 0 ? 60.0F : layer == 7 ? -90.0F : 2.0F);
    tensors.emplace_back("model.layers." + std::to_string(layer) + ".self_attn.q_proj.bias", 500.0F);
  }
  tensors.emplace_back("visual.blocks.0.attn.k_proj.bias", 5000.0F);
  const auto bias = ReadKeyBias(MakeFolder("key_bias_outliers", tensors, 4));
  ASSERT_TRUE(bias.ok()) << bias.error().message();
  ASSERT_TRUE(bias->has_value());
  EXPECT_EQ((*bias)->layers, 8);
  EXPECT_DOUBLE_EQ((*bias)->median_norm, 4.0);
  ASSERT_EQ((*bias)->outliers.size(), 2U);
  EXPECT_EQ((*bias)->outliers[0].layer, 0);
  EXPECT_DOUBLE_EQ((*bias)->outliers[0].norm, 120.0);
  EXPECT_EQ((*bias)->outliers[1].layer, 7);
}

TEST(KeyBias, EvenOnesAndNone) {
  const auto even = ReadKeyBias(MakeFolder("key_bias_even", {{BiasName(0), 3.0F}, {BiasName(1), 2.0F}}, 4));
  ASSERT_TRUE(even.ok() && even->has_value());
  EXPECT_TRUE((*even)->outliers.empty());
  const auto none = ReadKeyBias(MakeFolder("key_bias_none", {{"model.norm.weight", 1.0F}}, 4));
  ASSERT_TRUE(none.ok() && none->has_value());
  EXPECT_EQ((*none)->layers, 0);
  const std::string empty = testing::TempDir() + "/key_bias_empty";
  std::filesystem::create_directories(empty);
  const auto nothing = ReadKeyBias(empty);
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->has_value());
}

}  // namespace
}  // namespace haypile
