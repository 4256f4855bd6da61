#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "engines/doctor_report.h"
#include "engines/doctor_schema_test.h"
#include "engines/start_log.h"
#include "planner/model_catalogue.h"

namespace haypile {
namespace {

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
