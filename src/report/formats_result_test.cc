#include "report/formats_result.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "report/schema_check_test.h"

namespace haypile {
namespace {

FormatsResult Sample() {
  return {"0.1.0",
          1 << 20,
          {{"bf16", {}, 16, 16, "none", 3.3895313892515355e38, 55.9, "docs/formats/bf16.md"},
           {"fp8_e4m3", {"fp8"}, 8, 8, "FP32 per tensor or head", 448, std::nullopt, "docs/formats/fp8_e4m3.md"},
           {"nvfp4", {}, 4, 4.5, "E4M3 per 16, FP32 global", 6, 20.6, "docs/formats/nvfp4.md"}}};
}

TEST(FormatsResult, RoundTripAndSchema) {
  const Json json = ToJson(Sample());
  EXPECT_EQ(SchemaErrors(LoadSchema("haypile.formats-1.schema.json"), json), std::vector<std::string>{});
  Result<FormatsResult> back = FormatsResultFromJson(*ParseJson(DumpJson(json)));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, Sample());
  EXPECT_EQ(json["schema"], "haypile.formats/1");
  EXPECT_EQ(json["formats"][2]["bits_per_element"], 4.5);
  EXPECT_EQ(json["formats"][2]["sqnr_db"], 20.6);
}

TEST(FormatsResult, ErrorsNameTheField) {
  Json json = ToJson(Sample());
  json["formats"][1]["element_bits"] = "8";
  EXPECT_EQ(FormatsResultFromJson(json).error().message(),
            "formats[1].element_bits: expected a whole number, found \"8\"");
}

TEST(FormatsResult, Table) {
  const std::string text = FormatsTable(Sample()).Render(100, false);
  EXPECT_NE(text.find("fp8_e4m3 (= fp8)     8         448        -  FP32 per"), std::string::npos) << text;
  EXPECT_NE(text.find("nvfp4              4.5           6    20.60  E4M3 per 16, FP32 global"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace haypile
