#include "calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "calibrate/calibrate_report.h"
#include "calibrate/calibration_folder_test.h"
#include "calibrate/checkpoint_scales.h"
#include "calibrate/scales_json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "formats/row_codec.h"
#include "kvcache/kv_scales_file.h"

namespace haypile {
namespace {

CalibrateRequest Request(ScaleStrategy strategy = ScaleStrategy::kTensor) {
  CalibrateRequest request;
  request.model = "tiny";
  request.strategy = strategy;
  request.text.tokens = 600;
  request.text.segment_tokens = 256;
  return request;
}

Result<CalibrateResult> Calibrated(const std::string& folder, const CalibrateRequest& request) {
  CalibrateContext context;
  context.model_path = folder;
  context.threads = 1;
  return RunCalibrate(request, context);
}

TEST(Calibrate, AKThatIsAThousandTimesLargerIsBadAtOneAndRightWhenCalibrated) {
  CalibrateRequest request = Request();
  request.output_tokens = 200;
  CalibrationFolder plain, large;
  large.ScaleK(1000);
  const CalibrateResult before = Calibrated(plain.Write("model"), request).value();
  const CalibrateResult after = Calibrated(large.Write("model"), request).value();
  for (size_t layer = 0; layer < 2; ++layer) {
    const SideCalibration& k = after.layers[layer].k;
    // The same values, a thousand times larger but for the rounding of weights to BF16.
    EXPECT_NEAR(k.head_amax[0] / before.layers[layer].k.head_amax[0], 1000, 20);
    EXPECT_GT(k.error_at_one, 0.05);
    EXPECT_LT(k.error, 0.002);
    EXPECT_NEAR(after.layers[layer].v.error, before.layers[layer].v.error, before.layers[layer].v.error / 5);
  }
  ASSERT_TRUE(before.output && after.output);
  EXPECT_GT(after.output->mean_kl_at_one, 20 * after.output->mean_kl_calibrated);
  EXPECT_LT(after.output->mean_kl_calibrated, 3 * before.output->mean_kl_calibrated);
  EXPECT_GT(*after.layers[0].k.mean_kl, 0);
  EXPECT_GT(*after.layers[0].v.mean_kl, 0);
}

TEST(Calibrate, EveryTokenOfEverySegmentIsSeenAndTwoRunsAgree) {
  const CalibrationFolder folder;
  const std::string path = folder.Write("model");
  const CalibrateResult first = Calibrated(path, Request()).value();
  EXPECT_EQ(first.tokens, 600);
  EXPECT_EQ(first.segments, 3);
  EXPECT_EQ(first.longest_segment, 256);
  for (const LayerCalibration& layer : first.layers) EXPECT_EQ(layer.tokens, 600);
  EXPECT_EQ(CalibrateJsonText(first), CalibrateJsonText(Calibrated(path, Request()).value()));
}

TEST(Calibrate, TheOutputIsMeasuredByEveryMethodOnTextThatWasNotCalibratedOn) {
  const CalibrationFolder folder;
  const std::string path = folder.Write("model");
  CalibrateRequest request = Request();
  request.output_tokens = 100;
  request.output_whole_only = true;
  request.rule.method = ScaleMethod::kPow2;
  const CalibrateResult result = Calibrated(path, request).value();
  ASSERT_TRUE(result.output);
  EXPECT_TRUE(result.output->held_out);
  EXPECT_FALSE(result.layers[0].k.mean_kl.has_value());
  ASSERT_EQ(result.output->methods.size(), std::size(kScaleMethods));
  for (const MethodCheck& check : result.output->methods) {
    EXPECT_GT(check.mean_kl, 0);
    EXPECT_NEAR(check.less_at_one, check.mean_kl - result.output->mean_kl_at_one, 1e-9);
    EXPECT_GT(check.less_stderr, 0);
  }
  EXPECT_EQ(result.output->methods.back().method, ScaleMethod::kPow2);
  EXPECT_EQ(result.output->methods.back().mean_kl, result.output->mean_kl_calibrated);
  // Nothing is left out of a text that is run whole.
  request.text.text_path = folder.Path("text.txt");
  request.text.tokens = 0;
  ASSERT_TRUE(WriteFileAtomic(request.text.text_path, std::string(150, 'a')).ok());
  EXPECT_FALSE(Calibrated(path, request).value().output->held_out);
}

TEST(Calibrate, OneScaleAHeadIsThatOfTheHeadsOwnRange) {
  CalibrationFolder folder;
  std::vector<float>& v = folder.Weights(1, "v_proj");
  for (size_t i = 0; i < v.size() / 2; ++i) v[i] *= 16;  // the rows of head 0
  const std::string path = folder.Write("model");
  const CalibrateResult by_head = Calibrated(path, Request(ScaleStrategy::kHead)).value();
  const CalibrateResult by_layer = Calibrated(path, Request()).value();
  const SideCalibration& heads = by_head.layers[1].v;
  EXPECT_EQ(heads.scales[0], heads.head_amax[0] / 448);
  EXPECT_EQ(heads.scales[1], heads.head_amax[1] / 448);
  EXPECT_GT(heads.scales[0], 4 * heads.scales[1]);
  EXPECT_EQ(by_layer.layers[1].v.scales, (std::vector<float>{heads.scales[0], heads.scales[0]}));
}

TEST(Calibrate, DamagedModelsAreRefusedByLayerAndHead) {
  CalibrationFolder zero;
  std::vector<float>& v = zero.Weights(1, "v_proj");
  std::fill(v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end(), 0.0f);
  const auto refused = Calibrated(zero.Write("model"), Request());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("layer 1, KV head 1: V is zero"), std::string::npos);
  CalibrationFolder nan;
  nan.Weights(0, "k_proj")[0] = std::numeric_limits<float>::quiet_NaN();
  const auto damaged = Calibrated(nan.Write("model"), Request());
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().message().find("layer 0, KV head 0: K holds"), std::string::npos);
}

TEST(Calibrate, ARunThatEndedEarlyGoesOnWhereItWas) {
  const CalibrationFolder folder;
  CalibrateContext context;
  context.model_path = folder.Write("model");
  context.state_path = folder.Path("state/run.json");
  context.threads = 1;
  int pieces = 0;
  context.on_progress = [&](double, double, const std::string&) {
    if (++pieces == 3) throw std::runtime_error("killed");  // before the third segment
  };
  EXPECT_THROW((void)RunCalibrate(Request(), context), std::runtime_error);
  ASSERT_TRUE(std::filesystem::exists(context.state_path));
  pieces = 0;
  context.on_progress = [&](double, double, const std::string&) { ++pieces; };
  const CalibrateResult resumed = RunCalibrate(Request(), context).value();
  EXPECT_EQ(pieces, 1);
  EXPECT_FALSE(std::filesystem::exists(context.state_path));
  EXPECT_EQ(CalibrateJsonText(resumed), CalibrateJsonText(Calibrated(context.model_path, Request()).value()));
}

TEST(Calibrate, ChatsThatCannotBeReadAreNamedByLine) {
  const CalibrationFolder folder;
  CalibrateRequest request = Request();
  request.text.chats_path = folder.Path("chats.jsonl");
  const std::string path = folder.Write("model");
  const std::pair<std::string, std::string> cases[] = {
      {"\n{\"messages\": 3}\n", "line 2: expected {\"messages\""},
      {"[{\"role\": \"user\"}]\n", "line 1: message 0: expected a text in 'content'"},
      {"{\"conversations\": [{\"from\": \"human\", \"value\": 1}]}\n", "expected a text in 'value'"},
      {"{\n", "line 1"},
      {"[{\"role\": \"user\", \"content\": \"hi\"}]\n", "template"},
      {"", "has no tokens"},
  };
  for (const auto& [text, expected] : cases) {
    ASSERT_TRUE(WriteFileAtomic(request.text.chats_path, text).ok());
    const auto result = Calibrated(path, request);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.error().message().find(expected), std::string::npos) << result.error().message();
  }
}

KvScales SomeScales() { return {{{0.1f, 0.3f}, {1.0f / 3, 1.0f / 3}}, {{7e-5f, 0.2f}, {12.5f, 0.4f}}}; }

TEST(ScalesJson, HaypilesFileIsReadBackEqual) {
  const CalibrationFolder folder;
  const std::string path = folder.Path("scales.json");
  ASSERT_TRUE(WriteFileAtomic(path, KvScalesFileText(SomeScales())).ok());
  const KvScales back = ReadKvScales(path, 2, 2).value();
  EXPECT_EQ(back.k, SomeScales().k);
  EXPECT_EQ(back.v, SomeScales().v);
}

TEST(ScalesJson, SglangsFileHasEveryRankAndLayerAndTheLargerScale) {
  const auto value = [](const Json& json, const char* rank, const char* layer) {
    return json["kv_cache"]["scaling_factor"][rank][layer].get<float>();
  };
  const Json one = ParseJson(SglangScalesText(SomeScales(), "llama", 1).value()).value();
  EXPECT_EQ(one["model_type"], "llama");
  EXPECT_EQ(one["kv_cache"]["dtype"], "float8_e4m3fn");
  EXPECT_EQ(one["kv_cache"]["scaling_factor"].size(), 1u);
  EXPECT_EQ(one["kv_cache"]["scaling_factor"]["0"].size(), 2u);
  EXPECT_EQ(value(one, "0", "0"), 0.3f);
  EXPECT_EQ(value(one, "0", "1"), 12.5f);
  const Json four = ParseJson(SglangScalesText(SomeScales(), "llama", 4).value()).value();
  EXPECT_EQ(four["kv_cache"]["scaling_factor"].size(), 4u);
  EXPECT_EQ(value(four, "1", "0"), 0.1f);  // ranks 0 and 1 hold head 0
  EXPECT_EQ(value(four, "2", "0"), 0.3f);
  EXPECT_EQ(value(four, "3", "1"), 0.4f);
  EXPECT_FALSE(SglangScalesText(SomeScales(), "llama", 3).ok());
}

std::vector<float> ValuesOf(const SafetensorsFolder& folder, const std::string& name, size_t count) {
  const StoredTensor* tensor = folder.Find(name);
  if (tensor == nullptr) return {};
  EXPECT_EQ(tensor->bytes.size(), count * sizeof(float)) << name;
  std::vector<float> values(count);
  std::memcpy(values.data(), tensor->bytes.data(), std::min(tensor->bytes.size(), count * sizeof(float)));
  return values;
}

CheckpointScalesRequest FolderRequest(const std::string& source, const std::string& target) {
  CheckpointScalesRequest request;
  request.source = source;
  request.target = target;
  request.tool_version = "1.2.3";
  return request;
}

Json ReadJsonOf(const std::string& path) { return ParseJson(ReadFile(path).value()).value(); }

TEST(CheckpointScales, ACopyHoldsTheScalesAndEveryOldTensor) {
  const CalibrationFolder folder;
  for (const bool sharded : {false, true}) {
    const std::string source = folder.Write(sharded ? "shards" : "single", sharded);
    const std::string target = folder.Path(sharded ? "shards-fp8" : "single-fp8") + "/";
    const Status written = WriteCheckpointScales(FolderRequest(source, target), SomeScales());
    ASSERT_TRUE(written.ok()) << written.error().message();
    const SafetensorsFolder copy = SafetensorsFolder::Open(target).value();
    EXPECT_EQ(copy.tensors().size(), folder.tensors().size() + 4);
    for (const auto& [name, tensor] : folder.tensors()) {
      EXPECT_EQ(ValuesOf(copy, name, tensor.values.size()), tensor.values) << name;
    }
    EXPECT_EQ(ValuesOf(copy, "model.layers.0.self_attn.k_scale", 1), std::vector<float>{0.1f});
    EXPECT_EQ(ValuesOf(copy, "model.layers.1.self_attn.v_scale", 1), std::vector<float>{12.5f});
    EXPECT_EQ(copy.Find("model.layers.0.self_attn.k_scale")->shape, std::vector<int64_t>{1});
    const Json config = ReadJsonOf(target + "config.json");
    EXPECT_EQ(config["quantization_config"]["quant_method"], "compressed-tensors");
    EXPECT_EQ(config["quantization_config"]["kv_cache_scheme"]["strategy"], "tensor");
    EXPECT_EQ(config["model_type"], "llama");
    EXPECT_TRUE(std::filesystem::exists(target + "tokenizer.json"));
    EXPECT_FALSE(ReadJsonOf(source + "/config.json").contains("quantization_config"));
    if (sharded) {
      EXPECT_EQ(ReadJsonOf(target + "model.safetensors.index.json")["metadata"]["total_size"], 1016);
    }
  }
}

TEST(CheckpointScales, HeadsAndModelOptHaveTheirOwnNamesAndShapes) {
  const CalibrationFolder folder;
  const std::string source = folder.Write("model");
  CheckpointScalesRequest request = FolderRequest(source, folder.Path("heads"));
  request.strategy = ScaleStrategy::kHead;
  ASSERT_TRUE(WriteCheckpointScales(request, SomeScales()).ok());
  const SafetensorsFolder heads = SafetensorsFolder::Open(request.target).value();
  EXPECT_EQ(ValuesOf(heads, "model.layers.0.self_attn.v_scale", 2), (std::vector<float>{7e-5f, 0.2f}));
  EXPECT_EQ(heads.Find("model.layers.0.self_attn.v_scale")->shape, (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(ReadJsonOf(request.target + "/config.json")["quantization_config"]["kv_cache_scheme"]["strategy"],
            "attn_head");

  for (const KvFormat format : {KvFormat::kFp8E4m3, KvFormat::kNvfp4}) {
    request = FolderRequest(source, folder.Path("opt-" + std::string(InfoOf(format).name)));
    request.convention = ScaleConvention::kModelOpt;
    request.format = format;
    ASSERT_TRUE(WriteCheckpointScales(request, SomeScales()).ok());
    const SafetensorsFolder opt = SafetensorsFolder::Open(request.target).value();
    EXPECT_EQ(ValuesOf(opt, "model.layers.1.self_attn.k_proj.k_scale", 1), std::vector<float>{1.0f / 3});
    EXPECT_TRUE(opt.Find("model.layers.1.self_attn.v_proj.v_scale")->shape.empty());
    const Json file = ReadJsonOf(request.target + "/hf_quant_config.json");
    EXPECT_EQ(file["quantization"]["kv_cache_quant_algo"], format == KvFormat::kNvfp4 ? "NVFP4" : "FP8");
    EXPECT_EQ(ReadJsonOf(request.target + "/config.json")["quantization_config"]["quant_method"], "modelopt");
  }
}

TEST(CheckpointScales, CopiesAreOpenedWithTheScalesThatWereWritten) {
  const CalibrationFolder folder;
  for (const bool sharded : {false, true}) {
    const std::string source = folder.Write(sharded ? "shards" : "single", sharded);
    for (const auto& [convention, format, strategy] :
         {std::tuple{ScaleConvention::kCompressedTensors, KvFormat::kFp8E4m3, ScaleStrategy::kTensor},
          std::tuple{ScaleConvention::kCompressedTensors, KvFormat::kFp8E4m3, ScaleStrategy::kHead},
          std::tuple{ScaleConvention::kModelOpt, KvFormat::kFp8E4m3, ScaleStrategy::kTensor},
          std::tuple{ScaleConvention::kModelOpt, KvFormat::kNvfp4, ScaleStrategy::kTensor}}) {
      CheckpointScalesRequest request = FolderRequest(source, source + "-copy");
      request.convention = convention;
      request.format = format;
      request.strategy = strategy;
      request.overwrite = true;
      KvScales scales = SomeScales();
      if (strategy == ScaleStrategy::kTensor) {
        for (auto* side : {&scales.k, &scales.v}) {
          for (std::vector<float>& heads : *side) heads[1] = heads[0];
        }
      }
      ASSERT_TRUE(WriteCheckpointScales(request, scales).ok());
      const auto opened = Checkpoint::Open(request.target);
      ASSERT_TRUE(opened.ok()) << opened.error().message();
      EXPECT_EQ((*opened)->kv_scales().k, scales.k);
      EXPECT_EQ((*opened)->kv_scales().v, scales.v);
      EXPECT_EQ((*opened)->kv_scales().divisor.value, GlobalScaleDivisor(format));
    }
  }
}

TEST(CheckpointScales, AConfigThatQuantizesTheCacheAloneGivesWay) {
  const CalibrationFolder folder;
  const std::string source = folder.Write("cast");
  Json config = ReadJsonOf(source + "/config.json");
  config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", nullptr}, {"kv_cache_scheme", "NVFP4"}};
  ASSERT_TRUE(WriteFileAtomic(source + "/config.json", DumpJson(config)).ok());
  const Json other{{"quantization", {{"quant_algo", nullptr}, {"kv_cache_quant_algo", "NVFP4"}}}};
  ASSERT_TRUE(WriteFileAtomic(source + "/hf_quant_config.json", DumpJson(other)).ok());
  CheckpointScalesRequest request = FolderRequest(source, folder.Path("fp8"));
  ASSERT_TRUE(WriteCheckpointScales(request, SomeScales()).ok());
  request.target = source;
  request.overwrite = true;
  ASSERT_TRUE(WriteCheckpointScales(request, SomeScales()).ok());
  for (const std::string& written : {folder.Path("fp8"), source}) {
    EXPECT_FALSE(std::filesystem::exists(written + "/hf_quant_config.json"));
    EXPECT_EQ(ReadJsonOf(written + "/config.json")["quantization_config"]["quant_method"], "compressed-tensors");
    EXPECT_EQ(Checkpoint::Open(written).value()->kv_scales().divisor.value, 448);
  }
  // Quantized weights stay with their config.
  const std::string weights = folder.Write("weights");
  config["quantization_config"] = {{"quant_method", "gptq"}};
  ASSERT_TRUE(WriteFileAtomic(weights + "/config.json", DumpJson(config)).ok());
  const Status refused = WriteCheckpointScales(FolderRequest(weights, folder.Path("no")), SomeScales());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("quant_method 'gptq'"), std::string::npos);
}

TEST(CheckpointScales, NothingIsOverwrittenUnasked) {
  const CalibrationFolder folder;
  const std::string source = folder.Write("model");
  const auto refused = [&](const CheckpointScalesRequest& request) {
    const Status status = WriteCheckpointScales(request, SomeScales());
    return status.ok() ? std::string("written") : status.error().message();
  };
  CheckpointScalesRequest request = FolderRequest(source, source);
  EXPECT_NE(refused(request).find("--overwrite"), std::string::npos);
  std::filesystem::create_directories(folder.Path("other"));
  request.target = folder.Path("other");
  request.overwrite = true;
  EXPECT_NE(refused(request).find("no model folder"), std::string::npos);
  request.format = KvFormat::kFp8E4m3Fnuz;
  EXPECT_NE(refused(request).find("double"), std::string::npos);
  request.format = KvFormat::kNvfp4;
  EXPECT_NE(refused(request).find("--modelopt"), std::string::npos);
  request = FolderRequest(folder.Path("nowhere"), folder.Path("new"));
  EXPECT_NE(refused(request).find("no Hugging Face folder"), std::string::npos);

  request = FolderRequest(source, source);
  request.overwrite = true;
  EXPECT_EQ(refused(request), "written");
  EXPECT_EQ(SafetensorsFolder::Open(source).value().tensors().size(), folder.tensors().size() + 4);
  request.target = folder.Path("again");
  EXPECT_NE(refused(request).find("holds KV scales already"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(folder.Path(""))) {
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace haypile
