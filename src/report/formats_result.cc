#include "report/formats_result.h"

#include "report/json_fields.h"
#include "report/number_text.h"

namespace haypile {

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<FormatRow> auto& x) {
  visit("name", x.name);
  visit("aliases", x.aliases);
  visit("element_bits", x.element_bits);
  visit("bits_per_element", x.bits_per_element);
  visit("scale_layout", x.scale_layout);
  visit("largest_element", x.largest_element);
  visit("sqnr_db", x.sqnr_db);
  visit("docs", x.docs);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<FormatsResult> auto& x) {
  visit("tool_version", x.tool_version);
  visit("sqnr_samples", x.sqnr_samples);
  visit("formats", x.formats);
}

Json ToJson(const FormatsResult& result) {
  Json json = Json::object();
  json["schema"] = std::string(kFormatsSchema);
  json.update(JsonFieldWriter::Write(result));
  return json;
}

Result<FormatsResult> FormatsResultFromJson(const Json& json) {
  HAYPILE_TRY(CheckSchemaName(json, kFormatsSchema));
  FormatsResult result;
  HAYPILE_TRY(JsonFieldReader::Read(json, "", result));
  return result;
}

TextTable FormatsTable(const FormatsResult& result) {
  TextTable table({{"format"},
                   {"bits", Align::kRight},
                   {"largest", Align::kRight},
                   {"SQNR dB", Align::kRight},
                   {"scales", Align::kLeft, /*wraps=*/true},
                   {"page", Align::kLeft, /*wraps=*/true}});
  for (const FormatRow& row : result.formats) {
    std::string name = row.name;
    for (const std::string& alias : row.aliases) name += " (= " + alias + ")";
    table.AddRow({{name, CellTone::kStrong},
                  SignificantText(row.bits_per_element, 4),
                  SignificantText(row.largest_element, 5),
                  row.sqnr_db ? FixedText(*row.sqnr_db, 2) : std::string(kNotMeasuredText),
                  row.scale_layout,
                  {row.docs, CellTone::kFaint}});
  }
  return table;
}

}  // namespace haypile
