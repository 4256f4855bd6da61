#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace haypile {
namespace {

using testing_files::AsBytes;
using testing_files::Raw;
using testing_files::RawArray;
using testing_files::SafetensorsFile;
using testing_files::SafetensorsWriter;
using testing_files::TemporaryFolder;

TEST(Safetensors, ReadsTensorsWhereTheyLie) {
  const std::string bytes = SafetensorsFile(
      R"({"__metadata__":{"format":"pt"}, "b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]},
          "a\u0041\ud83d\ude00":{"shape":[2],"data_offsets":[0,8],"dtype":"F32"},
          "none":{"dtype":"F16","shape":[0,7],"data_offsets":[12,12]},
          "scalar":{"dtype":"I64","shape":[],"data_offsets":[12,20]}}  )",
      RawArray<float>({1.0f, 2.0f}) + "wxyz" + std::string(8, '\0'));
  const auto parsed = ParseSafetensors("f", AsBytes(bytes));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  ASSERT_EQ(parsed->size(), 4u);
  const StoredTensor& b = (*parsed)[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(b.type->type, WeightType::kBf16);
  EXPECT_EQ(std::string(b.bytes.begin(), b.bytes.end()), "wxyz");
  EXPECT_EQ(bytes.substr(b.file_offset, 4), "wxyz");
  EXPECT_EQ((*parsed)[1].name, "aA\xf0\x9f\x98\x80");
  EXPECT_TRUE((*parsed)[2].bytes.empty());
  EXPECT_EQ((*parsed)[3].type->type, WeightType::kOther);
}

struct BadSafetensors {
  const char* name;
  std::string bytes;
  ErrorCode code;
  const char* text;
};

// A file of one tensor 't' that differs in its entry; the data has 8 bytes.
std::string Entry(const std::string& entry) { return SafetensorsFile("{\"t\":" + entry + "}", std::string(8, 'd')); }

std::string Header(const std::string& header) { return SafetensorsFile(header, ""); }

std::vector<BadSafetensors> BadFraming() {
  const auto bad = ErrorCode::kMalformed;
  return {
      {"empty", "", bad, "byte 0: not a safetensors file: 0 bytes"},
      {"seven bytes", "1234567", bad, "7 bytes, shorter"},
      {"header past the end", Raw<uint64_t>(100) + "{}", bad, "byte 0: claims a header of 100 bytes; the file holds 2"},
      {"header of 2^64-1", Raw<uint64_t>(UINT64_MAX) + "{}", bad, "claims a header of 18446744073709551615"},
      {"no header", Raw<uint64_t>(0), bad, "byte 8: the header does not begin with '{'"},
      {"leading space", Header(" {}"), bad, "does not begin with '{'"},
      {"array", Header("[]"), bad, "does not begin with '{'"},
      {"unclosed", Header("{"), bad, "byte 9: JSON: expected '\"', but it ends"},
      {"trailing", Header("{}x"), bad, "byte 10: JSON: unexpected content"},
      {"no colon", Header("{\"t\" 1}"), bad, "JSON: expected ':'"},
      {"string end", Header("{\"t"), bad, "JSON: it ends inside a string"},
      {"escape", Header("{\"\\x\":1}"), bad, "JSON: an unknown escape"},
      {"hex", Header("{\"\\u12g4\":1}"), bad, "without four hex digits"},
      {"surrogate", Header("{\"\\ud800\":1}"), bad, "half of a surrogate pair"},
      {"control", Header("{\"a\nb\":1}"), bad, "a control character"},
      {"metadata value", Header("{\"__metadata__\":{\"a\":1}}"), bad, "JSON: expected '\"'"},
      {"data without tensors", SafetensorsFile("{}", "abc"), bad, "byte 10: 3 bytes after the last tensor"},
  };
}

std::vector<BadSafetensors> BadEntries() {
  const auto bad = ErrorCode::kMalformed;
  const auto f32 = [](const std::string& shape, const std::string& range) {
    return Entry("{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + range + "}");
  };
  const std::string half = "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":";
  const auto two = [&half](const std::string& first, const std::string& second) {
    return SafetensorsFile("{\"a\":" + half + first + "},\"b\":" + half + second + "}}", std::string(8, 'd'));
  };
  return {
      {"not an object", Entry("3"), bad, "JSON: expected '{'"},
      {"unknown field", Entry("{\"kind\":1}"), bad, "tensor 't' has an unknown field 'kind'"},
      {"no dtype", Entry("{\"shape\":[2],\"data_offsets\":[0,8]}"), bad, "tensor 't' has no dtype"},
      {"no shape", Entry("{\"dtype\":\"F32\",\"data_offsets\":[0,8]}"), bad, "tensor 't' has no shape"},
      {"no range", Entry("{\"dtype\":\"F32\",\"shape\":[2]}"), bad, "tensor 't' has no data_offsets"},
      {"three offsets", f32("[2]", "[0,4,8]"), bad, "no data_offsets of two numbers"},
      {"unknown dtype", Entry("{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}"), ErrorCode::kUnsupported,
       "tensor 't' has dtype 'F31'"},
      {"duplicate field", Entry("{\"dtype\":\"F32\",\"dtype\":\"F32\"}"), bad, "key 'dtype' appears twice"},
      {"negative shape", f32("[-2]", "[0,8]"), bad, "expected an integer >= 0"},
      {"fraction", f32("[2.0]", "[0,8]"), bad, "not a fraction"},
      {"leading zero", f32("[02]", "[0,8]"), bad, "leading zeros"},
      {"number overflow", f32("[9223372036854775808]", "[0,8]"), bad, "beyond 2^63-1"},
      {"shape overflow", f32("[4294967296,4294967296]", "[0,8]"), bad, "no size in whole bytes below 2^63"},
      {"byte overflow", f32("[4611686018427387904]", "[0,8]"), bad, "no size in whole bytes below 2^63"},
      {"odd FP4", Entry("{\"dtype\":\"F4\",\"shape\":[15],\"data_offsets\":[0,8]}"), bad, "no size in whole bytes"},
      {"size", f32("[3]", "[0,8]"), bad, "of shape [3] and dtype F32 needs 12 bytes; data_offsets [0, 8] give 8"},
      {"backwards", f32("[2]", "[8,0]"), bad, "tensor 't' has data_offsets [8, 0] outside the 8 bytes"},
      {"past the end", f32("[3]", "[0,12]"), bad, "data_offsets [0, 12] outside the 8 bytes"},
      {"tail", f32("[1]", "[0,4]"), bad, "4 bytes after the last tensor belong to none"},
      {"head", f32("[1]", "[4,8]"), bad, "a hole of 4 bytes that no tensor owns lies before tensor 't'"},
      {"overlap", two("[0,4]", "[2,6]"), bad, "tensor 'b' overlaps tensor 'a' at data byte 2"},
      {"same range", two("[0,4]", "[0,4]"), bad, "overlaps tensor"},
      {"duplicate tensor", SafetensorsFile("{\"a\":" + half + "[0,4]},\"a\":" + half + "[4,8]}}", std::string(8, 'd')),
       bad, "key 'a' appears twice"},
  };
}

void ExpectRefused(const std::vector<BadSafetensors>& files) {
  for (const BadSafetensors& file : files) {
    const auto parsed = ParseSafetensors("bad.safetensors", AsBytes(file.bytes));
    ASSERT_FALSE(parsed.ok()) << file.name;
    const std::string& message = parsed.error().message();
    EXPECT_EQ(parsed.error().code(), file.code) << file.name << ": " << message;
    EXPECT_NE(message.find(file.text), std::string::npos) << file.name << ": " << message;
    EXPECT_TRUE(message.starts_with("'bad.safetensors': byte ")) << file.name << ": " << message;
  }
}

TEST(Safetensors, BadFramingIsNamed) { ExpectRefused(BadFraming()); }
TEST(Safetensors, BadEntriesAreNamed) { ExpectRefused(BadEntries()); }

TEST(Safetensors, EveryTruncationIsAnError) {
  SafetensorsWriter writer;
  writer.Add("a", "F32", "[2]", std::string(8, 'a'));
  writer.Add("b", "BF16", "[1,3]", std::string(6, 'b'));
  const std::string good = writer.Build();
  ASSERT_TRUE(ParseSafetensors("good", AsBytes(good)).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ParseSafetensors("cut", cut).ok()) << size;
  }
}

std::string OneTensor(const std::string& name) {
  SafetensorsWriter writer;
  writer.Add(name, "F32", "[1]", Raw(1.0f));
  return writer.Build();
}

TEST(SafetensorsFolder, ReadsShardsByTheirIndex) {
  const TemporaryFolder folder;
  folder.Write("one.safetensors", OneTensor("a"));
  folder.Write("two.safetensors", OneTensor("b"));
  folder.Write("model.safetensors.index.json",
               R"({"metadata":{"total_size":8,"x":[1,-2.5e3,null,true,{"y":[]}]},
                   "weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto opened = SafetensorsFolder::Open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ(opened->tensors().size(), 2u);
  ASSERT_NE(opened->Find("b"), nullptr);
  EXPECT_TRUE(opened->FileOf("b").ends_with("/two.safetensors"));
  EXPECT_EQ(opened->Find("c"), nullptr);
}

TEST(SafetensorsFolder, BadFoldersAreNamed) {
  struct Case {
    const char* index;
    ErrorCode code;
    const char* text;
  };
  const Case cases[] = {
      {R"({"weight_map":{"a":"none.safetensors"}})", ErrorCode::kNotFound, "none.safetensors"},
      {R"({"weight_map":{"a":"one.safetensors","c":"one.safetensors"}})", ErrorCode::kMalformed,
       "tensor 'c' is not in shard 'one.safetensors'"},
      {R"({"weight_map":{"a":"one.safetensors","a":"one.safetensors"}})", ErrorCode::kMalformed, "'a' appears twice"},
      {R"({"weight_map":{"a":"../one.safetensors"}})", ErrorCode::kMalformed, "not a file name in this folder"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", ErrorCode::kMalformed, "not a file name in this folder"},
      {R"({"weight_map":{"a":7}})", ErrorCode::kMalformed, "JSON: expected '\"'"},
      {R"({"metadata":{}})", ErrorCode::kMalformed, "no \"weight_map\""},
      {R"({"weight_map":{}} x)", ErrorCode::kMalformed, "unexpected content"},
      {R"({"weight_map":{"a":"bad.safetensors"}})", ErrorCode::kMalformed, "bad.safetensors': byte 0"},
      {"", ErrorCode::kMalformed, "byte 0: JSON: expected '{'"},
  };
  for (const Case& c : cases) {
    const TemporaryFolder folder;
    folder.Write("one.safetensors", OneTensor("a"));
    folder.Write("bad.safetensors", "short");
    folder.Write("model.safetensors.index.json", c.index);
    const auto opened = SafetensorsFolder::Open(folder.path());
    ASSERT_FALSE(opened.ok()) << c.index;
    EXPECT_EQ(opened.error().code(), c.code) << opened.error().message();
    EXPECT_NE(opened.error().message().find(c.text), std::string::npos) << opened.error().message();
  }
  const TemporaryFolder empty;
  EXPECT_EQ(SafetensorsFolder::Open(empty.path()).error().code(), ErrorCode::kNotFound);
  empty.Write("pytorch_model.bin", "x");
  EXPECT_EQ(SafetensorsFolder::Open(empty.path()).error().code(), ErrorCode::kUnsupported);
}

TEST(SafetensorsFolder, DeepJsonIsRefused) {
  const std::string deep(100000, '[');
  const auto parsed = ParseSafetensorsIndex("deep", "{\"x\":" + deep);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message().find("nested deeper"), std::string::npos);
}

}  // namespace
}  // namespace haypile
