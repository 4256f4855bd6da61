#include <gtest/gtest.h>

#include <algorithm>

#include "engines/doctor_report.h"
#include "engines/start_log.h"

namespace haypile {
namespace {

// A start, three lines: FP8 asked for, a backend, no line on scales.
LogRecord Fp8Log() {
  return ParseStartLog(
             "(EngineCore pid=1) INFO 11-29 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.30.0) with config: "
             "model='m', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, quantization=None, "
             "kv_cache_dtype=fp8\n"
             "(EngineCore pid=1) INFO 11-29 10:00:01 [cuda.py:1] Using FLASH_ATTN attention backend out of potential "
             "backends: ['FLASH_ATTN', 'FLASHINFER'].\n"
             "(EngineCore pid=1) INFO 11-29 10:00:02 [kv_cache_utils.py:2] GPU KV cache size: 81,920 tokens, Maximum "
             "concurrency for 8,192 tokens per request: 10.00x\n")
      .value();
}

MetricsWindow WindowOf(double usage, int preempted, int running) {
  const auto look = [&](int preemptions) {
    return ParseMetricsText("vllm:kv_cache_usage_perc " + std::to_string(usage) + "\nvllm:num_requests_running " +
                            std::to_string(running) + "\nvllm:num_requests_waiting 0\nvllm:num_preemptions_total " +
                            std::to_string(preemptions) + "\n")
        .value();
  };
  MetricsWindowBuilder builder;
  builder.Add(0.0, look(0));
  builder.Add(10.0, look(preempted));
  return builder.Finish();
}

CheckpointScales Folder(int layers_with_scales, bool weight_scales) {
  CheckpointScales checkpoint;
  checkpoint.folder = "models/m";
  checkpoint.files_read = true;
  checkpoint.kv_layers = 2;
  checkpoint.weight_scales = weight_scales;
  for (int layer = 0; layer < layers_with_scales; ++layer) {
    checkpoint.layers_with_scales.insert(layer);
    checkpoint.tensors += 2;
    checkpoint.families.insert(KvScaleFamily::kAttention);
    checkpoint.example = "model.layers.0.self_attn.k_scale";
  }
  return checkpoint;
}

struct Given {
  const LogRecord* log = nullptr;
  const MetricsWindow* metrics = nullptr;
  const CheckpointScales* checkpoint = nullptr;
  std::string log_name = {}, metrics_name = {};
};

std::vector<CheckStep> StepsOf(const Given& given) {
  DoctorInput input;
  input.log = given.log;
  input.metrics = given.metrics;
  input.checkpoint = given.checkpoint;
  input.log_name = given.log_name;
  input.metrics_name = given.metrics_name;
  Findings findings;
  if (given.log != nullptr) findings = DiagnoseLog(input);
  if (given.metrics != nullptr) {
    for (const Finding& finding : DiagnoseWindow(*given.metrics)) findings.push_back(finding);
  }
  return Checklist(input, findings);
}

TEST(DoctorChecklist, NothingGivenIsAllOpenWithACommandEach) {
  const auto steps = StepsOf({});
  ASSERT_EQ(steps.size(), 5U);
  const char* ids[] = {"pool", "scales", "backend", "accuracy", "speed"};
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].id, ids[i]);
    EXPECT_EQ(steps[i].state, CheckState::kOpen);
    EXPECT_FALSE(steps[i].next.empty());
    EXPECT_FALSE(steps[i].answer.empty());
  }
  EXPECT_NE(steps[0].next[0].find("haypile doctor --metrics http://HOST:PORT/metrics --duration"), std::string::npos);
}

TEST(DoctorChecklist, MetricsAnswerTheFirst) {
  const MetricsWindow full = WindowOf(0.97, 6, 3), room = WindowOf(0.3, 0, 3), idle = WindowOf(0.0, 0, 0);
  auto steps = StepsOf({.metrics = &full, .metrics_name = "http://h:8000"});
  EXPECT_EQ(steps[0].state, CheckState::kDone);
  EXPECT_NE(steps[0].answer.find("Yes"), std::string::npos);
  EXPECT_NE(steps[4].next.back().find("http://h:8000"), std::string::npos) << steps[4].next.back();
  steps = StepsOf({.metrics = &room});
  EXPECT_EQ(steps[0].state, CheckState::kDone);
  EXPECT_NE(steps[0].next.at(0).find("keep the model's dtype"), std::string::npos);
  steps = StepsOf({.metrics = &idle, .metrics_name = "http://h:8000"});
  EXPECT_EQ(steps[0].state, CheckState::kOpen);
  EXPECT_NE(steps[0].next.at(0).find("--metrics http://h:8000 --duration"), std::string::npos);
}

TEST(DoctorChecklist, CheckpointAnswersTheSecond) {
  const CheckpointScales none = Folder(0, true), half = Folder(1, false), all = Folder(2, false);
  auto steps = StepsOf({.checkpoint = &none});
  EXPECT_EQ(steps[1].state, CheckState::kTrouble);
  EXPECT_NE(steps[1].answer.find("weight scales do not imply KV scales"), std::string::npos);
  EXPECT_NE(steps[1].next.at(0).find("haypile calibrate models/m"), std::string::npos);
  EXPECT_EQ(StepsOf({.checkpoint = &half})[1].state, CheckState::kTrouble);
  EXPECT_EQ(StepsOf({.checkpoint = &all})[1].state, CheckState::kDone);
}

TEST(DoctorChecklist, LogAnswersTheThirdAsFarAsItCan) {
  const LogRecord log = Fp8Log();
  auto steps = StepsOf({.log = &log, .log_name = "vllm.log"});
  EXPECT_EQ(steps[2].state, CheckState::kOpen);
  EXPECT_EQ(steps[2].next.at(0).find("haypile doctor --log vllm.log --checkpoint"), 0U) << steps[2].next.at(0);
  EXPECT_NE(steps[3].next.at(0).find("--kv-cache-dtype bf16,fp8"), std::string::npos);
  const CheckpointScales none = Folder(0, false);
  steps = StepsOf({.log = &log, .checkpoint = &none, .log_name = "vllm.log"});
  EXPECT_EQ(steps[2].state, CheckState::kTrouble);
  EXPECT_NE(steps[2].answer.find("1.0"), std::string::npos);
}

TEST(DoctorCommands, NamesWhatWasGiven) {
  Findings findings{{.id = "a",
                     .type = {"haypile plan MODEL --explain   # of MODEL", "haypile inspect FOLDER",
                              "haypile doctor --log LOG --checkpoint FOLDER", "--kv-cache-dtype auto   # MODEL",
                              "haypile doctor --metrics http://HOST:PORT --duration 9", "haypile compare MODELS"}}};
  Findings untouched = findings;
  NameCommands({}, untouched);
  EXPECT_EQ(untouched[0].type, findings[0].type);
  NameCommands({"m/config.json", "my folder", "v.log", "http://h:1/metrics"}, findings);
  EXPECT_EQ(findings[0].type,
            (std::vector<std::string>{
                "haypile plan m/config.json --explain   # of MODEL", "haypile inspect 'my folder'",
                "haypile doctor --log v.log --checkpoint 'my folder'", "--kv-cache-dtype auto   # MODEL",
                "haypile doctor --metrics http://h:1/metrics --duration 9", "haypile compare MODELS"}));
}

TEST(DoctorChecklist, LlamaCppNeedsNoScales) {
  const LogRecord log =
      ReadStartLog(std::string(HAYPILE_TESTDATA_DIR) + "/logs/llama-server-b9749-smollm2-135m-q8_0.log").value();
  const auto steps = StepsOf({.log = &log});
  EXPECT_EQ(steps[1].state, CheckState::kDone);
  EXPECT_NE(steps[3].next.at(0).find("bf16,q8_0"), std::string::npos);
  EXPECT_EQ(steps[4].next.at(0).find("llama-bench"), 0U);
}

}  // namespace
}  // namespace haypile
