// Mistakes that others made and reported, each as a row of data (testdata/bug_cases.jsonl): they must not happen here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/file.h"
#include "base/json.h"
#include "calibrate/calibrate.h"
#include "calibrate/calibration_folder_test.h"
#include "calibrate/checkpoint_scales.h"
#include "calibrate/kv_statistics.h"
#include "calibrate/scale_search.h"
#include "checkpoint/safetensors.h"

namespace haypile {
namespace {

constexpr size_t kWidth = 32;  // 2 KV heads of 16

ModelSpec SpecOf(int layers) {
  ModelSpec spec;
  spec.layer_count = layers;
  spec.kv_heads = 2;
  spec.head_dim = 16;
  return spec;
}

std::vector<float> RandomRows(size_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(rows * kWidth);
  for (float& value : values) value = normal(random);
  return values;
}

// Layers that the observer never heard of are named, and end the command.
void CheckUnobservedLayers(const Json& row) {
  ThreadPool pool(1);
  KvStatistics statistics(SpecOf(row["layers"].get<int>()), pool);
  const std::vector<float> values = RandomRows(4, 1);
  for (const Json& layer : row["observed"]) statistics.OnKv(layer.get<int>(), values.data(), values.data(), 4);
  const Status status = statistics.Check();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find(row["error_has"].get<std::string>()), std::string::npos)
      << status.error().message();
}

// A folder whose decoder lies behind a prefix, beside towers that have attention of their own.
void CheckTowers(const Json& row) {
  const CalibrationFolder plain;
  std::vector<F32Tensor> tensors;
  const auto decoder = row["decoder"].get<std::string>();
  for (const auto& [name, tensor] : plain.tensors()) {
    tensors.push_back(tensor);
    tensors.back().name = decoder + name.substr(std::string("model.").size());
  }
  for (const Json& name : row["others"]) tensors.push_back({name.get<std::string>(), {2, 2}, {1, 2, 3, 4}});
  const std::string source = plain.Write("composite");
  ASSERT_TRUE(WriteFileAtomic(source + "/model.safetensors", SafetensorsText(tensors)).ok());

  CalibrateRequest request;
  request.text.tokens = 100;
  CalibrateContext context;
  context.model_path = source;
  context.threads = 1;
  const auto result = RunCalibrate(request, context);
  ASSERT_TRUE(result.ok()) << result.error().message();
  CheckpointScalesRequest write;
  write.source = source;
  write.target = plain.Path("composite-fp8");
  ASSERT_TRUE(WriteCheckpointScales(write, result->Scales()).ok());
  int scales = 0;
  const SafetensorsFolder copy = SafetensorsFolder::Open(write.target).value();
  for (const auto& [name, tensor] : copy.tensors()) {
    if (!name.ends_with("_scale")) continue;
    ++scales;
    EXPECT_TRUE(name.starts_with(decoder + "layers.")) << name;
  }
  EXPECT_EQ(scales, 2 * CalibrationFolder::kLayers);
}

// What lies behind the rows in memory is poison, and must leave no trace.
void CheckPoison(const Json& row) {
  ThreadPool pool(1);
  const auto rows = row["rows"].get<int64_t>();
  const std::vector<float> clean = RandomRows(static_cast<size_t>(rows), 2);
  std::vector<float> poisoned = clean;
  poisoned.resize(clean.size() + row["poisoned"].get<size_t>(), std::nanf(""));
  KvStatistics of_clean(SpecOf(1), pool), of_poisoned(SpecOf(1), pool), again(SpecOf(1), pool);
  of_clean.OnKv(0, clean.data(), clean.data(), rows);
  for (KvStatistics* statistics : {&of_poisoned, &again}) {
    statistics->OnKv(0, poisoned.data(), poisoned.data(), rows);
    EXPECT_TRUE(statistics->Check().ok());
    EXPECT_EQ(statistics->Serialize(), of_clean.Serialize());
  }
}

// A first batch of tiny values decides nothing; how the rest is cut decides nothing either.
void CheckFirstBatch(const Json& row) {
  ThreadPool pool(1);
  KvStatistics statistics(SpecOf(1), pool);
  const auto warm_up_rows = row["warm_up_rows"].get<size_t>();
  const std::vector<float> warm_up(warm_up_rows * kWidth, row["warm_up_value"].get<float>());
  statistics.OnKv(0, warm_up.data(), warm_up.data(), static_cast<int64_t>(warm_up_rows));
  float largest = 0;
  unsigned seed = 5;
  for (const Json& rows : row["batches"]) {
    const std::vector<float> batch = RandomRows(rows.get<size_t>(), seed++);
    for (const float value : batch) largest = std::max(largest, std::fabs(value));
    statistics.OnKv(0, batch.data(), batch.data(), rows.get<int64_t>());
  }
  EXPECT_EQ(ScaleFor({}, statistics.OfLayer(0, KvSide::kK), 16), largest / 448);
}

TEST(CalibrateBugCases, EachHasItsRightOutcome) {
  const std::map<std::string, void (*)(const Json&)> checks = {{"unobserved layers", CheckUnobservedLayers},
                                                               {"towers", CheckTowers},
                                                               {"poison", CheckPoison},
                                                               {"first batch", CheckFirstBatch}};
  const std::string text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/bug_cases.jsonl").value();
  int rows = 0;
  for (size_t at = 0; at < text.size(); ++rows) {
    const size_t end = text.find('\n', at);
    const Json row = ParseJson(text.substr(at, end - at)).value();
    at = end + 1;
    SCOPED_TRACE(row["id"].get<std::string>() + ": " + row["title"].get<std::string>());
    checks.at(row["kind"].get<std::string>())(row);
  }
  EXPECT_EQ(rows, 5);
}

}  // namespace
}  // namespace haypile
