#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "engines/doctor.h"
#include "engines/start_log.h"

namespace haypile {
namespace {

std::string Joined(const Json& lines) {
  std::string text;
  for (const Json& line : lines) text += line.get<std::string>() + "\n";
  return text;
}

// A folder with the case's config.json and a safetensors file of one-value F32 tensors of the case's names.
std::string MakeCheckpoint(const Json& row, int number) {
  const std::string folder = testing::TempDir() + "/doctor_case_" + std::to_string(number);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << row["config"].dump();
  std::filesystem::remove(folder + "/model.safetensors");
  if (row["tensors"].is_null()) return folder;
  Json header = Json::object();
  size_t offset = 0;
  for (const Json& name : row["tensors"]) {
    header[name.get<std::string>()] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {offset, offset + 4}}};
    offset += 4;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((text.size() >> (8 * i)) & 0xff);
  std::ofstream(folder + "/model.safetensors", std::ios::binary) << bytes << text << std::string(offset, '\0');
  return folder;
}

bool Has(const Findings& findings, const Json& expected) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.id == expected[0].get<std::string>() &&
           SeverityName(finding.severity) == expected[1].get<std::string>() &&
           finding.what.find(expected[2].get<std::string>()) != std::string::npos;
  });
}

std::string AllOf(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += finding.id + " " + SeverityName(finding.severity) + ": " + finding.what + "\n";
  return text;
}

void CheckComplete(const Finding& finding, int lines) {
  EXPECT_FALSE(finding.what.empty()) << finding.id;
  EXPECT_FALSE(finding.why.empty()) << finding.id;
  if (finding.severity >= Severity::kWarning) {
    EXPECT_FALSE(finding.type.empty()) << finding.id;
    EXPECT_FALSE(finding.check.empty()) << finding.id;
    EXPECT_FALSE(finding.evidence.empty()) << finding.id;
  }
  for (const LogLine& line : finding.evidence) EXPECT_LE(line.number, lines) << finding.id;
}

void CheckCase(const Json& row, int number) {
  SCOPED_TRACE(row["id"].get<std::string>());
  const auto log = ParseStartLog(Joined(row["log"]));
  ASSERT_TRUE(log.ok()) << log.error().message();
  DoctorInput input;
  input.log = &*log;
  LogRecord baseline;
  if (row.contains("baseline")) {
    baseline = *ParseStartLog(Joined(row["baseline"]));
    input.baseline = &baseline;
  }
  CheckpointScales checkpoint;
  if (!row["config"].is_null()) {
    auto read = ReadCheckpointScales(MakeCheckpoint(row, number));
    ASSERT_TRUE(read.ok()) << read.error().message();
    checkpoint = *read;
    input.checkpoint = &checkpoint;
  }
  if (row.contains("planned_tokens")) input.planned_tokens = row["planned_tokens"].get<int64_t>();
  const Findings findings = DiagnoseLog(input);
  for (const Finding& finding : findings) CheckComplete(finding, static_cast<int>(row["log"].size()));
  for (const Json& expected : row["expect"])
    EXPECT_TRUE(Has(findings, expected)) << expected.dump() << "\n" << AllOf(findings);
  for (const Json& absent : row["absent"]) {
    for (const Finding& finding : findings) EXPECT_NE(finding.id, absent.get<std::string>()) << finding.what;
  }
  for (const Json& type : row.value("types", Json::array())) {
    const bool typed = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return std::any_of(finding.type.begin(), finding.type.end(), [&](const std::string& text) {
        return text.find(type.get<std::string>()) != std::string::npos;
      });
    });
    EXPECT_TRUE(typed) << type.dump();
  }
}

TEST(DoctorCases, EachLogGivesTheDescribedOutcome) {
  const auto text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/doctor_cases.jsonl");
  ASSERT_TRUE(text.ok());
  std::stringstream lines(*text);
  std::string line;
  int cases = 0;
  while (std::getline(lines, line)) CheckCase(*ParseJson(line), ++cases);
  EXPECT_GE(cases, 35);
}

LogRecord RealLog(const std::string& name) {
  auto log = ReadStartLog(std::string(HAYPILE_TESTDATA_DIR) + "/logs/" + name);
  EXPECT_TRUE(log.ok()) << name;
  return *log;
}

TEST(DoctorRealLogs, VllmOnCpu) {
  const LogRecord bf16 = RealLog("vllm-0.32.0-cpu-smollm2-135m-auto.log");
  EXPECT_EQ(bf16.engine, LogEngine::kVllm);
  EXPECT_EQ(bf16.version->value, "0.32.0");
  EXPECT_EQ(CacheDtype(bf16), "auto");
  ASSERT_EQ(bf16.pools.size(), 1U);
  EXPECT_EQ(bf16.pools[0].tokens, 11648);
  EXPECT_DOUBLE_EQ(*bf16.pools[0].concurrency, 1.42);
  EXPECT_EQ(bf16.kv_cache_bytes->value, 268435456);
  EXPECT_EQ(bf16.load.size(), 3U);
  EXPECT_TRUE(bf16.on_cpu);
  const LogRecord fp8 = RealLog("vllm-0.32.0-cpu-smollm2-135m-fp8.log");
  EXPECT_EQ(CacheDtype(fp8), "fp8");
  EXPECT_EQ(fp8.pools[0].tokens, 23296);
  EXPECT_DOUBLE_EQ(*fp8.pools[0].concurrency, 2.84);
}

TEST(DoctorRealLogs, NoScalesSeenSoOneIsAssumed) {
  for (const char* name :
       {"vllm-0.32.0-cpu-smollm2-135m-fp8.log", "vllm-0.32.0-cpu-smollm2-135m-fp8-kv-scales-loaded.log"}) {
    const LogRecord log = RealLog(name);
    const Findings findings = DiagnoseLog({.log = &log});
    EXPECT_TRUE(Has(findings, {"scales.none_seen", "unknown", "No scales seen in the log, so 1.0 is assumed"}))
        << AllOf(findings);
    for (const Finding& finding : findings) EXPECT_NE(finding.severity, Severity::kProblem) << finding.what;
  }
}

TEST(DoctorRealLogs, ShutdownIsNoFailedStart) {
  const LogRecord log = RealLog("vllm-0.32.0-cpu-smollm2-135m-auto.log");
  for (const Finding& finding : DiagnoseLog({.log = &log})) {
    EXPECT_TRUE(finding.severity < Severity::kWarning) << finding.id << finding.what;
  }
}

TEST(DoctorRealLogs, OutputScalesEndTheStart) {
  const LogRecord log = RealLog("vllm-0.32.0-cpu-smollm2-135m-fp8-output-scales-dies.log");
  const Findings findings = DiagnoseLog({.log = &log});
  ASSERT_EQ(findings.front().id, "error.output_scale_name") << AllOf(findings);
  EXPECT_NE(findings.front().what.find("QKVParallelLinear"), std::string::npos);
}

TEST(DoctorRealLogs, LlamaCpp) {
  struct Expected {
    const char *file, *dtype;
    size_t pools;
    int64_t tokens;
    double mib;
  };
  for (const Expected& expected : {Expected{"llama-server-b9749-smollm2-135m-f16.log", "f16", 1, 4096, 180.0},
                                   Expected{"llama-server-b9749-smollm2-135m-q8_0.log", "q8_0", 1, 4096, 95.62},
                                   Expected{"llama-server-b9749-smollm2-135m-q4_0.log", "q4_0", 1, 4096, 50.62},
                                   Expected{"llama-server-b9749-gemma3-270m-q8_0.log", "q8_0", 2, 4096, 12.75},
                                   Expected{"llama-server-b9749-gemma3-270m-f16.log", "f16", 2, 4096, 24.0}}) {
    SCOPED_TRACE(expected.file);
    const LogRecord log = RealLog(expected.file);
    EXPECT_EQ(log.engine, LogEngine::kLlamacpp);
    EXPECT_EQ(log.version->value, "b9749");
    EXPECT_EQ(CacheDtype(log), expected.dtype);
    ASSERT_EQ(log.pools.size(), expected.pools);
    EXPECT_EQ(log.pools[0].tokens, expected.tokens);
    EXPECT_NEAR(*log.pools[0].bytes / 1048576.0, expected.mib, 0.01);
    EXPECT_EQ(log.flash_attention->value, "enabled");
    EXPECT_EQ(log.max_model_len->value, 4096);
    for (const Finding& finding : DiagnoseLog({.log = &log}))
      EXPECT_LT(finding.severity, Severity::kUnknown) << finding.what;
  }
}

}  // namespace
}  // namespace haypile
