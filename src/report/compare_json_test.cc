#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "report/compare_result.h"
#include "report/compare_sample_test.h"
#include "report/schema_check_test.h"

namespace haypile {
namespace {

const char* const kSchemaFile = "haypile.compare-1.schema.json";

CompareResult RoundTrip(const CompareResult& result) {
  Result<Json> json = ParseJson(DumpJson(ToJson(result)));
  EXPECT_TRUE(json.ok());
  Result<CompareResult> back = CompareResultFromJson(*json);
  EXPECT_TRUE(back.ok()) << back.error().message();
  return *back;
}

// The error that the sample gives after `text` at `pointer` was replaced by `value`.
std::string ErrorWith(const char* pointer, const Json& value) {
  Json json = ToJson(SampleComparison());
  json[Json::json_pointer(pointer)] = value;
  Result<CompareResult> result = CompareResultFromJson(json);
  return result.ok() ? "" : result.error().message();
}

TEST(CompareJson, RoundTripIsExact) {
  const CompareResult sample = SampleComparison();
  EXPECT_EQ(RoundTrip(sample), sample);
  EXPECT_EQ(RoundTrip(CompareResult{}), CompareResult{});
}

TEST(CompareJson, DoublesKeepEveryBit) {
  CompareResult result = SampleComparison();
  for (const double value : {0.1, 1.0 / 3, 5e-324, std::numeric_limits<double>::max(), -0.0, 3.5560000000000005}) {
    result.runs[0].ratio_in_theory = value;
    const double back = RoundTrip(result).runs[0].ratio_in_theory;
    EXPECT_EQ(std::signbit(back), std::signbit(value));
    EXPECT_EQ(back, value);
  }
}

TEST(CompareJson, WhatIsNotFiniteIsNullAndWhatIsAbsentIsNotThere) {
  CompareResult result = SampleComparison();
  result.runs[1].cost->perplexity = std::numeric_limits<double>::infinity();
  result.runs[1].cost->mean_kl.reset();
  const Json json = ToJson(result);
  EXPECT_TRUE(json["runs"][1]["cost"]["perplexity"].is_null());
  EXPECT_FALSE(json["runs"][1]["cost"].contains("mean_kl"));
  const CompareResult back = RoundTrip(result);
  ASSERT_TRUE(back.runs[1].cost->perplexity.has_value());
  EXPECT_TRUE(std::isnan(*back.runs[1].cost->perplexity));
  EXPECT_FALSE(back.runs[1].cost->mean_kl.has_value());
}

TEST(CompareJson, HasTheNamesThatScriptsRelyOn) {
  const Json json = ToJson(SampleComparison());
  EXPECT_EQ(json["schema"], "haypile.compare/1");
  EXPECT_EQ(json["model"], "smollm2-135m");
  EXPECT_EQ(json["baseline"], "bf16");
  for (const char* name : {"machine", "runs", "verdict"}) EXPECT_TRUE(json.contains(name)) << name;
  const Json& run = json["runs"][1];
  for (const char* name : {"kv_cache_dtype", "bytes_per_token", "pool_tokens", "requests_at_max_len"}) {
    EXPECT_TRUE(run.contains(name)) << name;
  }
  EXPECT_TRUE(run["speed"]["prefill"].is_array());
  for (const char* name : {"streams", "depth", "ms_per_token", "spread"}) {
    EXPECT_TRUE(run["speed"]["decode"][0].contains(name)) << name;
  }
  for (const char* name : {"mean_kl", "top1_agreement", "perplexity"}) EXPECT_TRUE(run["cost"].contains(name)) << name;
}

TEST(CompareJson, FollowsThePublishedSchema) {
  const Json schema = LoadSchema(kSchemaFile);
  EXPECT_EQ(SchemaErrors(schema, ToJson(SampleComparison())), std::vector<std::string>{});
  EXPECT_EQ(SchemaErrors(schema, ToJson(CompareResult{})), std::vector<std::string>{});
  CompareResult partial = SampleComparison();
  partial.complete = false;
  partial.verdict.reset();
  partial.noise_floor.reset();
  for (CompareRun& run : partial.runs) run.cost = CompareCost{};
  EXPECT_EQ(SchemaErrors(schema, ToJson(partial)), std::vector<std::string>{});
}

// Every field that the schema lists is one that is written: the fullest result has them all.
TEST(CompareJson, SchemaListsNothingThatIsNeverWritten) {
  CompareResult full = SampleComparison();
  full.options.kv_cache_dtype_skip_layers = "0,29";
  full.options.kv_scales = "scales.json";
  full.model_facts.sliding_window = 512;
  full.model_facts.sliding_layers = 15;
  const std::string text = DumpJson(ToJson(full));
  const Json schema = LoadSchema(kSchemaFile);
  std::vector<const Json*> objects{&schema};
  for (const auto& [name, definition] : schema["$defs"].items()) objects.push_back(&definition);
  for (const Json* object : objects) {
    for (const auto& [name, rule] : (*object)["properties"].items()) {
      EXPECT_NE(text.find("\"" + name + "\":"), std::string::npos) << name;
    }
  }
}

TEST(CompareJson, ErrorsNameTheField) {
  EXPECT_EQ(ErrorWith("/runs/1/speed/decode/0/ms_per_token", "fast"),
            "runs[1].speed.decode[0].ms_per_token: expected a number, found \"fast\"");
  EXPECT_EQ(ErrorWith("/runs/0/pool_tokens", 1.5), "runs[0].pool_tokens: expected a whole number, found 1.5");
  EXPECT_EQ(ErrorWith("/runs/0/pool_tokens", uint64_t{1} << 63),
            "runs[0].pool_tokens: expected a whole number, found 9223372036854775808");
  EXPECT_EQ(ErrorWith("/complete", 1), "complete: expected true or false, found 1");
  EXPECT_EQ(ErrorWith("/runs", Json::object()), "runs: expected a list, found an object");
  EXPECT_EQ(ErrorWith("/machine", 3), "machine: expected an object, found 3");
  EXPECT_EQ(ErrorWith("/verdict/rows/0/outcome", "maybe"),
            "verdict.rows[0].outcome: expected one of \"ship\", \"no-ship\", \"inconclusive\", found \"maybe\"");
  EXPECT_EQ(ErrorWith("/baseline", "q4_0"), "baseline: no run has the kv_cache_dtype \"q4_0\"");
  EXPECT_EQ(ErrorWith("/model", std::string(200, 'x')), "");
  EXPECT_EQ(ErrorWith("/complete", std::string(200, 'x')),
            "complete: expected true or false, found string of 202 bytes");
}

TEST(CompareJson, MissingFieldsAreErrorsAndUnknownOnesAreNot) {
  Json json = ToJson(SampleComparison());
  json["machine"].erase("isa");
  Result<CompareResult> result = CompareResultFromJson(json);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kMalformed);
  EXPECT_EQ(result.error().message(), "machine.isa: missing");

  json = ToJson(SampleComparison());
  json["from_the_future"] = 1;
  EXPECT_TRUE(CompareResultFromJson(json).ok());
}

TEST(CompareJson, AnotherSchemaIsRefused) {
  Json json = ToJson(SampleComparison());
  json["schema"] = "haypile.compare/2";
  EXPECT_EQ(CompareResultFromJson(json).error().code(), ErrorCode::kUnsupported);
  json["schema"] = "haypile.formats/1";
  EXPECT_EQ(CompareResultFromJson(json).error().code(), ErrorCode::kMalformed);
  json.erase("schema");
  EXPECT_EQ(CompareResultFromJson(json).error().message(), "schema: missing; expected \"haypile.compare/1\"");
  EXPECT_FALSE(CompareResultFromJson(Json::array()).ok());
}

}  // namespace
}  // namespace haypile
