#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "report/text_table.h"

namespace haypile {

// What `haypile formats` prints: the JSON schema "haypile.formats/1" (docs/schemas/haypile.formats-1.schema.json).
inline constexpr std::string_view kFormatsSchema = "haypile.formats/1";

struct FormatRow {
  std::string name;  // "fp8_e4m3"
  std::vector<std::string> aliases;
  int64_t element_bits = 0;       // of one stored element, without scales
  double bits_per_element = 0;    // with block scales; a global scale counts nothing
  std::string scale_layout;       // in words: "E4M3 per 16 elements, FP32 global"
  double largest_element = 0;     // finite, before scales
  std::optional<double> sqnr_db;  // on N(0,1), measured then and there
  std::string docs;               // page, relative to the project: "docs/formats/nvfp4.md"

  bool operator==(const FormatRow&) const = default;
};

struct FormatsResult {
  std::string tool_version;
  std::optional<int64_t> sqnr_samples;  // N(0,1) values each SQNR stands on
  std::vector<FormatRow> formats;

  bool operator==(const FormatsResult&) const = default;
};

Json ToJson(const FormatsResult& result);
// Errors as CompareResultFromJson.
Result<FormatsResult> FormatsResultFromJson(const Json& json);

TextTable FormatsTable(const FormatsResult& result);

}  // namespace haypile
