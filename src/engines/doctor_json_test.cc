#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "engines/doctor_report.h"
#include "engines/start_log.h"
#include "planner/model_catalogue.h"

namespace haypile {
namespace {

bool IsOfType(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

// The part of JSON Schema that the doctor's schema uses; any other keyword is a breach of its own.
class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  void Check(const Json& schema, const Json& value, const std::string& path) {
    for (const auto& [keyword, rule] : schema.items()) CheckKeyword(keyword, rule, schema, value, path);
  }
  const std::vector<std::string>& breaches() const { return breaches_; }

 private:
  void Expect(bool holds, const std::string& path, const std::string& what) {
    if (!holds) breaches_.push_back(path + ": " + what);
  }

  void CheckKeyword(const std::string& keyword, const Json& rule, const Json& schema, const Json& value,
                    const std::string& path) {
    if (keyword == "type") {
      const Json types = rule.is_array() ? rule : Json::array({rule});
      Expect(std::any_of(types.begin(), types.end(), [&](const Json& type) { return IsOfType(value, type); }), path,
             "is not of type " + rule.dump());
    } else if (keyword == "const") {
      Expect(value == rule, path, "is not " + rule.dump());
    } else if (keyword == "enum") {
      Expect(std::find(rule.begin(), rule.end(), value) != rule.end(), path, "is not one of " + rule.dump());
    } else if (keyword == "required") {
      for (const Json& name : rule) {
        Expect(!value.is_object() || value.contains(name.get<std::string>()), path, "lacks " + name.get<std::string>());
      }
    } else if (keyword == "properties") {
      CheckProperties(schema, value, path);
    } else if (keyword == "items") {
      for (size_t i = 0; value.is_array() && i < value.size(); ++i)
        Check(rule, value[i], fmt::format("{}[{}]", path, i));
    } else if (keyword == "minimum") {
      Expect(!value.is_number() || value.get<double>() >= rule.get<double>(), path, "is below " + rule.dump());
    } else if (keyword == "minLength") {
      Expect(!value.is_string() || value.get<std::string>().size() >= rule.get<size_t>(), path, "is too short");
    } else if (keyword == "$ref") {
      const std::string name = rule.get<std::string>();
      Check(root_["$defs"][name.substr(name.rfind('/') + 1)], value, path);
    } else {
      const bool silent = keyword == "$schema" || keyword == "$id" || keyword == "$defs" || keyword == "title" ||
                          keyword == "description" || keyword == "additionalProperties";
      Expect(silent, path, "keyword " + keyword + " is not known to this check");
    }
  }

  void CheckProperties(const Json& schema, const Json& value, const std::string& path) {
    if (!value.is_object()) return;
    for (const auto& [name, member] : value.items()) {
      if (schema["properties"].contains(name)) {
        Check(schema["properties"][name], member, path + "." + name);
      } else {
        const bool open = !schema.contains("additionalProperties") || schema["additionalProperties"] == true;
        Expect(open, path, "has the unknown field " + name);
      }
    }
  }

  const Json& root_;
  std::vector<std::string> breaches_;
};

const Json& Schema() {
  static const Json kSchema = [] {
    const auto text = ReadFile(std::string(HAYPILE_SOURCE_DIR) + "/docs/schemas/haypile.doctor-1.schema.json");
    return ParseJson(text.value()).value();
  }();
  return kSchema;
}

std::string Breaches(const Json& document) {
  SchemaCheck check(Schema());
  check.Check(Schema(), document, "$");
  std::string text;
  for (const std::string& breach : check.breaches()) text += breach + "\n";
  return text;
}

std::string LogPath(const std::string& name) { return std::string(HAYPILE_TESTDATA_DIR) + "/logs/" + name; }

MetricsWindow Window(int looks) {
  const auto text = ReadFile(LogPath("vllm-0.32.0-cpu-smollm2-135m-fp8.metrics.txt"));
  const auto samples = ParseMetricsText(text.value());
  MetricsWindowBuilder builder;
  for (int look = 0; look < looks; ++look) builder.Add(look, samples.value());
  return builder.Finish();
}

LaunchInput Start() {
  LaunchInput input;
  input.model = CatalogueModel("llama-3.1-8b").value();
  input.gpu = GpuCatalogue().Find("H100").value();
  input.kv_cache_dtype = "fp8";
  return input;
}

TEST(DoctorJson, LogsKeepToTheSchema) {
  for (const char* name :
       {"vllm-0.32.0-cpu-smollm2-135m-fp8.log", "vllm-0.32.0-cpu-smollm2-135m-auto.log",
        "vllm-0.32.0-cpu-smollm2-135m-fp8-output-scales-dies.log", "llama-server-b9749-gemma3-270m-q8_0.log"}) {
    const LogRecord log = ReadStartLog(LogPath(name)).value();
    DoctorReport report;
    report.input.log = &log;
    report.findings = DiagnoseLog(report.input);
    const Json document = DoctorJson("0", report);
    EXPECT_EQ(Breaches(document), "") << name;
    EXPECT_FALSE(document["findings"].empty());
    EXPECT_TRUE(document["launch"].is_null() && document["metrics"].is_null() && document["checklist"].is_null());
  }
}

TEST(DoctorJson, MetricsKeepToTheSchema) {
  for (const int looks : {1, 3}) {
    const MetricsWindow window = Window(looks);
    DoctorReport report;
    report.input.metrics = &window;
    report.findings = DiagnoseWindow(window);
    const Json document = DoctorJson("0", report);
    EXPECT_EQ(Breaches(document), "") << looks;
    EXPECT_EQ(document["metrics"]["window"].is_null(), looks == 1);
  }
}

TEST(DoctorJson, LaunchKeepsToTheSchema) {
  LaunchInput start = Start();
  for (const char* dtype : {"fp8", "nvfp4", "fp6", "auto"}) {
    start.kv_cache_dtype = dtype;
    const LaunchPrediction prediction = PredictLaunch(start);
    DoctorReport report;
    report.input.launch = &prediction;
    report.launch_input = &start;
    report.findings = prediction.findings;
    const Json document = DoctorJson("0", report);
    EXPECT_EQ(Breaches(document), "") << dtype;
    EXPECT_EQ(document["launch"]["verdict"], LaunchVerdictName(prediction.verdict));
  }
}

TEST(DoctorJson, ChecklistKeepsToTheSchema) {
  const LogRecord log = ReadStartLog(LogPath("vllm-0.32.0-cpu-smollm2-135m-fp8.log")).value();
  const MetricsWindow window = Window(2);
  DoctorReport report;
  report.input.log = &log;
  report.input.metrics = &window;
  report.findings = DiagnoseLog(report.input);
  report.checklist = Checklist(report.input, report.findings);
  const Json document = DoctorJson("0", report);
  EXPECT_EQ(Breaches(document), "");
  EXPECT_EQ(document["checklist"].size(), 5U);
}

TEST(DoctorJson, CheckFindsBreaches) {
  DoctorReport report;
  Json document = DoctorJson("0", report);
  EXPECT_EQ(Breaches(document), "");
  document["schema"] = "haypile.doctor/2";
  document["findings"] = Json::array({Json{{"id", 1}}});
  document["more"] = true;
  document.erase("log");
  const std::string breaches = Breaches(document);
  for (const char* wanted : {"$.schema: is not \"haypile.doctor/1\"", "$.findings[0].id: is not of type",
                             "$.findings[0]: lacks severity", "$: lacks log", "has the unknown field more"}) {
    EXPECT_NE(breaches.find(wanted), std::string::npos) << wanted << "\n" << breaches;
  }
}

}  // namespace
}  // namespace haypile
