#include "checkpoint/header_checkpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "checkpoint/gguf.h"
#include "checkpoint/kv_scale_tensors.h"
#include "checkpoint/test_files.h"

namespace haypile {
namespace {

using testing_files::Raw;
using testing_files::SafetensorsWriter;
using testing_files::TemporaryFolder;

// A file of one large weight and one scale; the weight is a hole in the file, so that a test may have many.
uint64_t WriteShard(const TemporaryFolder& folder, const std::string& name, int layer, uint64_t weight_bytes) {
  const std::string prefix = "\"model.layers." + std::to_string(layer) + ".self_attn.";
  const std::string header = "{" + prefix + "k_proj.weight\":{\"dtype\":\"U8\",\"shape\":[" +
                             std::to_string(weight_bytes) + "],\"data_offsets\":[0," + std::to_string(weight_bytes) +
                             "]}," + prefix + "k_scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[" +
                             std::to_string(weight_bytes) + "," + std::to_string(weight_bytes + 4) + "]}}";
  const std::string path = folder.Write(name, Raw<uint64_t>(header.size()) + header);
  std::ofstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(8 + header.size() + weight_bytes));
  const std::string scale = Raw(0.25f);
  file.write(scale.data(), 4);
  return 8 + header.size();
}

TEST(HeaderCheckpointTest, ReadsHeadersAndScalesAndNothingElse) {
  const TemporaryFolder folder;
  uint64_t expected = 0;
  for (int layer = 0; layer < 3; ++layer) {
    expected += WriteShard(folder, "s" + std::to_string(layer) + ".safetensors", layer, uint64_t{1} << 30) + 4;
  }
  ReadCount count;
  const auto headers = ReadCheckpointHeaders(folder.path(), &count);
  ASSERT_TRUE(headers.ok()) << headers.error().message();
  const auto scales = ReadKvScales(*headers, &count);
  ASSERT_TRUE(scales.ok());
  ASSERT_EQ(scales->size(), 3u);
  EXPECT_EQ((*scales)[1].values, std::vector<double>{0.25});
  EXPECT_EQ(count.bytes, expected);
}

// Of processor time: the wall's would also measure what else runs.
TEST(HeaderCheckpointTest, AThousandShardsTakeLessThanTwoSeconds) {
  const TemporaryFolder folder;
  for (int layer = 0; layer < 1000; ++layer) {
    WriteShard(folder, "s" + std::to_string(layer) + ".safetensors", layer, uint64_t{1} << 30);
  }
  ReadCount count;
  const std::clock_t start = std::clock();
  const auto headers = ReadCheckpointHeaders(folder.path(), &count);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(headers.ok()) << headers.error().message();
  EXPECT_EQ(headers->files.size(), 1000u);
  EXPECT_LT(seconds, 2.0);
}

TEST(HeaderCheckpointTest, MissingShardNamesIt) {
  const TemporaryFolder folder;
  WriteShard(folder, "a.safetensors", 0, 4);
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"model.layers.0.self_attn.k_scale":"a.safetensors","x":"b.safetensors"}})");
  ReadCount count;
  const auto headers = ReadCheckpointHeaders(folder.path(), &count);
  ASSERT_FALSE(headers.ok());
  EXPECT_EQ(headers.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(headers.error().message().find("b.safetensors"), std::string::npos);
}

TEST(HeaderCheckpointTest, ATensorTwiceInOneShardIsRefused) {
  const TemporaryFolder folder;
  const std::string tensor = R"("a.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  folder.Write("model.safetensors", testing_files::SafetensorsFile("{" + tensor + "," + tensor + "}", "x"));
  ReadCount count;
  const auto headers = ReadCheckpointHeaders(folder.path(), &count);
  ASSERT_FALSE(headers.ok());
  EXPECT_EQ(headers.error().code(), ErrorCode::kMalformed);
  EXPECT_NE(headers.error().message().find("'a.weight' appears twice"), std::string::npos) << headers.error().message();
}

// Bytes of a file that lie in the page cache: what was read, by calls or by mapping, and what was just written.
uint64_t CachedBytes(const std::string& path) {
  const uint64_t size = std::filesystem::file_size(path);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* start = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (start == MAP_FAILED) return size;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size + page_bytes - 1) / page_bytes);
  const bool told = mincore(start, size, pages.data()) == 0;
  munmap(start, size);
  uint64_t cached = 0;
  for (const unsigned char page : pages) cached += (page & 1) * page_bytes;
  return told ? cached : size;
}

// The tensor is a hole of 4 GiB: a reader that touched it would leave it in the page cache.
TEST(HeaderCheckpointTest, OfAGgufFileTheHeaderAloneIsTouched) {
  const TemporaryFolder folder;
  testing_files::GgufWriter writer;
  writer.Add("general.architecture", "llama");
  writer.tensors.push_back({"blk.0.attn_k.weight", {uint64_t{1} << 30}, 0, "", std::nullopt});
  const std::string path = folder.Write("model.gguf", writer.Build());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + (uint64_t{4} << 30));
  const uint64_t before = CachedBytes(path);
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  ASSERT_EQ((*file)->tensors().size(), 1u);
  EXPECT_LE(CachedBytes(path), before + (1 << 20));
}

TEST(HeaderCheckpointTest, DecodesEachScaleDtype) {
  const std::string f64 = Raw(0.125), f16 = Raw<uint16_t>(0x3400), bf16 = Raw<uint16_t>(0x3e80);
  EXPECT_EQ(*DecodeScaleValues("F64", testing_files::AsBytes(f64)), std::vector<double>{0.125});
  EXPECT_EQ(*DecodeScaleValues("F16", testing_files::AsBytes(f16)), std::vector<double>{0.25});
  EXPECT_EQ(*DecodeScaleValues("BF16", testing_files::AsBytes(bf16)), std::vector<double>{0.25});
  EXPECT_EQ(DecodeScaleValues("I32", testing_files::AsBytes(f64)).error().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace haypile
