#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/test_files.h"

namespace haypile {
namespace {

using testing_files::AsBytes;
using testing_files::GgufString;
using testing_files::GgufWriter;
using testing_files::Raw;
using testing_files::RawArray;
using testing_files::TemporaryFolder;

constexpr uint64_t kHuge = uint64_t{1} << 62;

GgufWriter SmallFile() {
  GgufWriter file;
  file.Add("general.architecture", "llama");
  file.AddTensor("a", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  file.AddTensor("b", {3}, {9, 10, 11});
  return file;
}

TEST(Gguf, ReadsBothVersionsWithShapesRowMajor) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer = SmallFile();
    writer.version = version;
    const std::string bytes = writer.Build();
    const auto file = GgufFile::Parse("f", AsBytes(bytes));
    ASSERT_TRUE(file.ok()) << file.error().message();
    ASSERT_EQ((*file)->tensors().size(), 2u);
    const StoredTensor* a = (*file)->FindTensor("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 4}));
    EXPECT_EQ(a->type->type, WeightType::kF32);
    EXPECT_EQ(a->bytes.size(), 32u);
    EXPECT_EQ(a->file_offset % 32, 0u);
    float third = 0;
    std::memcpy(&third, a->bytes.data() + 8, 4);
    EXPECT_EQ(third, 3.0f);
    EXPECT_EQ((*file)->FindTensor("c"), nullptr);
    EXPECT_EQ((*file)->GetString("general.architecture").value(), "llama");
  }
}

TEST(Gguf, MetadataOfEveryTypeIsReadAsFarAsItFits) {
  GgufWriter writer;
  writer.AddRaw("u8", 0, Raw<uint8_t>(200));
  writer.AddRaw("i8", 1, Raw<int8_t>(-100));
  writer.AddRaw("u16", 2, Raw<uint16_t>(60000));
  writer.AddRaw("i16", 3, Raw<int16_t>(-30000));
  writer.AddRaw("u32", 4, Raw<uint32_t>(4000000000));
  writer.AddRaw("i32", 5, Raw<int32_t>(-2000000000));
  writer.AddRaw("f32", 6, Raw<float>(1.5f));
  writer.AddBool("bool", true);
  writer.Add("text", "x\ny");
  writer.AddRaw("u64", 10, Raw<uint64_t>(kHuge));
  writer.AddRaw("u64big", 10, Raw<uint64_t>(UINT64_MAX));
  writer.AddRaw("i64", 11, Raw<int64_t>(-5));
  writer.AddRaw("f64", 12, Raw<double>(0.1));
  writer.AddArray("texts", 8, 3, GgufString("p") + GgufString("") + GgufString("qr"));
  writer.AddArray("ints", 3, 2, RawArray<int16_t>({-1, 7}));
  writer.AddArray("bools", 7, 2, RawArray<uint8_t>({1, 0}));
  writer.AddArray("floats", 6, 2, RawArray<float>({0.5f, -2.0f}));
  writer.AddArray("empty", 8, 0, "");
  const std::string bytes = writer.Build();
  const auto parsed = GgufFile::Parse("f", AsBytes(bytes));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const GgufFile& file = **parsed;
  EXPECT_EQ(file.GetInt("u8").value(), 200);
  EXPECT_EQ(file.GetInt("i8").value(), -100);
  EXPECT_EQ(file.GetInt("u16").value(), 60000);
  EXPECT_EQ(file.GetInt("i16").value(), -30000);
  EXPECT_EQ(file.GetInt("u32").value(), 4000000000);
  EXPECT_EQ(file.GetInt("i32").value(), -2000000000);
  EXPECT_EQ(file.GetInt("u64").value(), static_cast<int64_t>(kHuge));
  EXPECT_EQ(file.GetInt("u64big").error().code(), ErrorCode::kMalformed);
  EXPECT_EQ(file.GetInt("i64").value(), -5);
  EXPECT_EQ(file.GetFloat("f32").value(), 1.5);
  EXPECT_EQ(file.GetFloat("f64").value(), 0.1);
  EXPECT_EQ(file.GetFloat("u8").value(), 200.0);
  EXPECT_TRUE(file.GetBool("bool").value());
  EXPECT_EQ(file.GetString("text").value(), "x\ny");
  EXPECT_EQ(file.GetStringArray("texts").value(), (std::vector<std::string>{"p", "", "qr"}));
  EXPECT_EQ(file.GetIntArray("ints").value(), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(file.GetIntArray("bools").value(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(file.GetFloatArray("floats").value(), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_TRUE(file.GetStringArray("empty").value().empty());
  EXPECT_TRUE(file.IsArray("ints"));
  EXPECT_FALSE(file.IsArray("u8"));

  EXPECT_EQ(file.GetInt("none").error().code(), ErrorCode::kNotFound);
  EXPECT_NE(file.GetInt("none").error().message().find("'f': metadata key 'none'"), std::string::npos);
  for (const Error& error :
       {file.GetInt("text").error(), file.GetInt("f32").error(), file.GetInt("ints").error(),
        file.GetString("u8").error(), file.GetBool("u8").error(), file.GetFloat("text").error(),
        file.GetStringArray("ints").error(), file.GetIntArray("u8").error(), file.GetFloatArray("ints").error()}) {
    EXPECT_EQ(error.code(), ErrorCode::kMalformed) << error.message();
    EXPECT_NE(error.message().find("wanted"), std::string::npos) << error.message();
  }
}

TEST(Gguf, AlignmentOfTheFileIsRespected) {
  GgufWriter writer;
  writer.alignment = 64;
  writer.Add("general.alignment", 64u);
  writer.AddTensor("a", {1}, {1});
  writer.AddTensor("b", {1}, {2});
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse("f", AsBytes(bytes));
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ((*file)->FindTensor("b")->file_offset - (*file)->FindTensor("a")->file_offset, 64u);
}

struct BadFile {
  const char* name;
  std::function<std::string()> bytes;
  ErrorCode code;
  const char* text;  // part of the message
};

std::string Changed(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = SmallFile();
  change(writer);
  return writer.Build();
}

std::vector<BadFile> BadHeaders() {
  const auto bad = ErrorCode::kMalformed;
  const auto unsupported = ErrorCode::kUnsupported;
  const std::string good = SmallFile().Build();
  return {
      {"empty", [] { return ""; }, bad, "byte 0: the file ends (at byte 0) inside the magic"},
      {"magic", [] { return Changed([](GgufWriter& w) { w.magic = "GGML"; }); }, bad, "byte 0: not a GGUF file"},
      {"only magic", [] { return "GGUF"; }, bad, "byte 4: the file ends (at byte 4) inside the version"},
      {"version 0", [] { return Changed([](GgufWriter& w) { w.version = 0; }); }, unsupported, "GGUF version 0"},
      {"version 1", [] { return Changed([](GgufWriter& w) { w.version = 1; }); }, unsupported, "GGUF version 1"},
      {"version 4", [] { return Changed([](GgufWriter& w) { w.version = 4; }); }, unsupported,
       "byte 4: GGUF version 4"},
      {"big-endian", [] { return Changed([](GgufWriter& w) { w.version = 3u << 24; }); }, unsupported, "big-endian"},
      {"no counts", [good] { return good.substr(0, 12); }, bad, "inside the tensor count"},
      {"one count", [good] { return good.substr(0, 16); }, bad, "byte 16: the file ends (at byte 16)"},
      {"tensor count", [] { return Changed([](GgufWriter& w) { w.tensor_count = kHuge; }); }, bad,
       "byte 8: claims 4611686018427387904 tensors"},
      {"value count", [] { return Changed([](GgufWriter& w) { w.value_count = UINT64_MAX; }); }, bad,
       "byte 16: claims 18446744073709551615 metadata values"},
      {"one value too many", [] { return Changed([](GgufWriter& w) { w.value_count = 2; }); }, bad,
       "inside tensor record 0"},
      {"one tensor too many", [] { return Changed([](GgufWriter& w) { w.tensor_count = 3; }); }, bad,
       "the name of tensor record 2 is 0 bytes"},
  };
}

std::vector<BadFile> BadValues() {
  const auto bad = ErrorCode::kMalformed;
  const auto with = [](const std::string& key, uint32_t type, const std::string& value) {
    return [key, type, value] { return Changed([&](GgufWriter& w) { w.AddRaw(key, type, value); }); };
  };
  const auto array = [with](uint32_t type, uint64_t count, const std::string& bytes) {
    return with("k", 9, Raw(type) + Raw(count) + bytes);
  };
  return {
      {"key length", [] { return SmallFile().Build().replace(24, 8, Raw(kHuge)); }, bad,
       "byte 24: the file ends (at byte"},
      {"empty key", with("", 4, Raw(1u)), bad, "metadata key 1 is 0 bytes long"},
      {"long key", with(std::string(70000, 'k'), 4, Raw(1u)), bad, "70000 bytes long"},
      {"duplicate key", with("general.architecture", 4, Raw(1u)), bad, "key 'general.architecture' appears twice"},
      {"value type", with("k", 13, Raw(1u)), bad, "key 'k' has value type 13"},
      {"string length", with("k", 8, Raw(kHuge)), bad, "inside string 0 of key 'k'"},
      {"array type", array(99, 1, "x"), bad, "key 'k' has element type 99"},
      {"nested array", array(9, 1, ""), ErrorCode::kUnsupported, "key 'k' is an array of arrays"},
      {"array count", array(6, kHuge, ""), bad, "key 'k' claims 4611686018427387904 elements of float32"},
      {"string array count", array(8, 1000, ""), bad, "key 'k' claims 1000 elements of string"},
      {"string in array", array(8, 2, GgufString("a") + Raw(kHuge)), bad, "inside string 1 of key 'k'"},
      {"bool", with("k", 7, Raw<uint8_t>(2)), bad, "key 'k' holds a bool that is neither 0 nor 1"},
      {"bool in array", array(7, 3, std::string("\1\0\3", 3)), bad, "neither 0 nor 1"},
      {"alignment 0", with("general.alignment", 4, Raw(0u)), bad, "key 'general.alignment' is 0"},
      {"alignment 48", with("general.alignment", 4, Raw(48u)), bad, "key 'general.alignment' is 48; a power of two"},
      {"alignment huge", with("general.alignment", 4, Raw(1u << 31)), bad, "a power of two up to 1048576"},
      {"alignment text", with("general.alignment", 8, GgufString("32")), bad, "'general.alignment' is not a uint32"},
      {"split", with("split.count", 2, Raw<uint16_t>(3)), ErrorCode::kUnsupported, "split into 3 GGUF files"},
  };
}

std::vector<BadFile> BadTensors() {
  const auto bad = ErrorCode::kMalformed;
  const auto tensor = [](const std::function<void(testing_files::GgufTensorRecord&)>& change) {
    return [change] { return Changed([&](GgufWriter& w) { change(w.tensors[1]); }); };
  };
  using Record = testing_files::GgufTensorRecord;
  return {
      {"empty name", tensor([](Record& t) { t.name.clear(); }), bad, "tensor record 1 is 0 bytes long"},
      {"long name", tensor([](Record& t) { t.name = std::string(65, 'n'); }), bad, "tensor record 1 is 65 bytes long"},
      {"duplicate", tensor([](Record& t) { t.name.assign(1, 'a'); }), bad, "tensor 'a' appears twice"},
      {"unprintable name", tensor([](Record& t) { t.name = "\x01\xff", t.dims = {}; }), bad,
       "tensor '\\x01\\xff' has 0"},
      {"no dimensions", tensor([](Record& t) { t.dims = {}; }), bad, "tensor 'b' has 0 dimensions"},
      {"five dimensions", tensor([](Record& t) {
         t.dims = {1, 1, 1, 1, 3};
       }),
       bad, "tensor 'b' has 5 dimensions"},
      {"zero dimension", tensor([](Record& t) {
         t.dims = {3, 0};
       }),
       bad, "tensor 'b' has dimension 1 of 0"},
      {"negative dimension", tensor([](Record& t) { t.dims = {UINT64_MAX}; }), bad, "of 18446744073709551615"},
      {"element overflow", tensor([](Record& t) {
         t.dims = {kHuge, 4};
       }),
       bad, "more elements than 64 bits count"},
      {"size overflow", tensor([](Record& t) {
         t.dims = {kHuge, 1};
       }),
       bad, "a size beyond 64 bits"},
      {"unknown type", tensor([](Record& t) { t.type = 4; }), ErrorCode::kUnsupported, "tensor type 4, which is not"},
      {"block", tensor([](Record& t) { t.type = 8; }), bad, "rows of 3 elements, no multiple of the 32"},
      {"past the end", tensor([](Record& t) { t.dims = {30}; }), bad, "tensor 'b' takes 120 bytes at offset 32"},
      {"offset past the end", tensor([](Record& t) { t.offset = 1 << 20; }), bad, "past the end of the file"},
      {"offset overflow", tensor([](Record& t) { t.offset = ~uint64_t{31}; }), bad, "past the end of the file"},
      {"misaligned", tensor([](Record& t) { t.offset = 33; }), bad,
       "offset 33, which is no multiple of the alignment 32"},
      {"overlap", tensor([](Record& t) { t.offset = 0; }), bad, "overlaps tensor"},
      {"truncated data", [] { return SmallFile().Build().substr(0, SmallFile().Build().size() - 1); }, bad,
       "tensor 'b' takes 12 bytes"},
  };
}

void ExpectRefused(const std::vector<BadFile>& files) {
  for (const BadFile& file : files) {
    const std::string bytes = file.bytes();
    const auto parsed = GgufFile::Parse("bad.gguf", AsBytes(bytes));
    ASSERT_FALSE(parsed.ok()) << file.name;
    const std::string& message = parsed.error().message();
    EXPECT_EQ(parsed.error().code(), file.code) << file.name << ": " << message;
    EXPECT_NE(message.find(file.text), std::string::npos) << file.name << ": " << message;
    EXPECT_TRUE(message.starts_with("'bad.gguf': ")) << file.name << ": " << message;
    const bool names_byte = message.find("byte ") != std::string::npos || message.find("key '") != std::string::npos;
    EXPECT_TRUE(names_byte) << file.name << ": " << message;
  }
}

TEST(Gguf, BadHeadersAreNamed) { ExpectRefused(BadHeaders()); }
TEST(Gguf, BadValuesAreNamed) { ExpectRefused(BadValues()); }
TEST(Gguf, BadTensorsAreNamed) { ExpectRefused(BadTensors()); }

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string good = SmallFile().Build();
  for (size_t size = 0; size < good.size(); ++size) {
    // A copy of its own, so that a read past the end is one that a sanitizer sees.
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    const auto parsed = GgufFile::Parse("cut", cut);
    ASSERT_FALSE(parsed.ok()) << size;
    EXPECT_EQ(parsed.error().code(), ErrorCode::kMalformed) << size;
  }
}

TEST(Gguf, OpenNamesFilesThatCannotBeRead) {
  const TemporaryFolder folder;
  const auto absent = GgufFile::Open(folder.path() + "/none.gguf");
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message().find("none.gguf"), std::string::npos);
  EXPECT_EQ(GgufFile::Open(folder.path()).error().code(), ErrorCode::kIo);
  EXPECT_EQ(GgufFile::Open(folder.Write("empty.gguf", "")).error().code(), ErrorCode::kMalformed);
  const auto good = GgufFile::Open(folder.Write("good.gguf", SmallFile().Build()));
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_EQ((*good)->FindTensor("b")->bytes.size(), 12u);
}

}  // namespace
}  // namespace haypile
