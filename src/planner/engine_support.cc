#include "planner/engine_support.h"

#include <algorithm>
#include <set>

namespace haypile {
namespace {

// What a row of a table asks of a device.
enum class Needs {
  kAny,         // every device of the engine, CPU included
  kCpuOnly,     //
  kCuda,        // CUDA of at least `sm`
  kCudaFamily,  // CUDA, sm / 10 equal to `sm` / 10 (10.x)
  kAmd,         //
  kGaudi,
};
enum class Layout { kAll, kMla, kHeads };  // kHeads: keys and values by head, no MLA

// One fact: this engine serves these dtypes on such a device for such a model.
struct SupportRow {
  EngineKind engine;
  std::vector<std::string> dtypes;
  Needs needs;
  int sm;
  Layout layout;
  std::vector<int> head_dims;  // empty: any
  const char* backend;
  const char* source;
};

using Engine = EngineKind;
using Names = std::vector<std::string>;

constexpr const char* kVllmBackends = "vLLM, vllm/v1/attention/backends (main, 2026-08-20)";
constexpr const char* kSglangDocs = "SGLang, docs quantized_kv_cache and attention_backend (2026)";
constexpr const char* kSglangFp4 = "SGLang, mem_cache fp4_kv_cache_quant_method.py (2026)";
constexpr const char* kTrtllmDocs = "TensorRT-LLM, numerical precision matrix (1.x) and issues 10241, 7988";
constexpr const char* kLlamaArgs = "llama.cpp, common/arg.cpp kv_cache_types (2026-08)";

SupportRow Row(Engine engine, Names dtypes, Needs needs, int sm, Layout layout, const char* backend, const char* source,
               std::vector<int> head_dims = {}) {
  return {engine, std::move(dtypes), needs, sm, layout, std::move(head_dims), backend, source};
}

SupportRow Vllm(Names dtypes, Needs needs, int sm, Layout layout, const char* backend,
                std::vector<int> head_dims = {}) {
  return Row(Engine::kVllm, std::move(dtypes), needs, sm, layout, backend, kVllmBackends, std::move(head_dims));
}

std::vector<SupportRow> VllmRows() {
  const Names e4m3{"fp8", "fp8_e4m3"}, fp8{"fp8", "fp8_e4m3", "fp8_e5m2"}, nvfp4{"nvfp4", "nvfp4_4over6"};
  const Names integers{"int8_per_token_head", "int4_per_token_head"};
  const Names turboquant{"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"};
  const std::vector<int> flashinfer{64, 128, 256, 512};  // its head sizes
  return {
      Vllm({"auto", "float16", "bfloat16"}, Needs::kAny, 0, Layout::kAll, "every backend"),
      Vllm(e4m3, Needs::kCuda, 89, Layout::kHeads, "FLASH_ATTN (FA3, FA4), FLASHINFER or TRITON_ATTN"),
      Vllm({"fp8_e5m2"}, Needs::kCuda, 89, Layout::kHeads, "FLASHINFER or TRITON_ATTN"),
      Vllm(fp8, Needs::kCuda, 80, Layout::kHeads, "FLASHINFER", flashinfer),
      Vllm(e4m3, Needs::kCuda, 89, Layout::kMla, "an MLA backend (FLASHMLA, TRITON_MLA, FLASHINFER_MLA, ...)"),
      Vllm({"fp8_ds_mla"}, Needs::kCudaFamily, 90, Layout::kMla, "FLASHMLA_SPARSE"),
      Vllm({"fp8_ds_mla"}, Needs::kCudaFamily, 100, Layout::kMla, "FLASHMLA_SPARSE"),
      Vllm({"fp8_ds_mla"}, Needs::kCudaFamily, 120, Layout::kMla, "FLASHINFER_MLA_SPARSE_SM120"),
      Vllm(nvfp4, Needs::kCudaFamily, 100, Layout::kHeads, "FLASHINFER with trtllm-gen", flashinfer),
      Vllm({"fp8_per_token_head"}, Needs::kCuda, 89, Layout::kHeads, "TRITON_ATTN"),
      Vllm(integers, Needs::kCuda, 70, Layout::kHeads, "TRITON_ATTN"),
      Vllm(turboquant, Needs::kCuda, 70, Layout::kHeads, "TURBOQUANT"),
      Vllm(turboquant, Needs::kAmd, 0, Layout::kHeads, "TURBOQUANT"),
      Vllm(fp8, Needs::kAmd, 0, Layout::kAll, "ROCM_ATTN, AITER or TRITON_ATTN"),
      Vllm(integers, Needs::kAmd, 0, Layout::kHeads, "TRITON_ATTN"),
      Vllm(fp8, Needs::kCpuOnly, 0, Layout::kHeads, "CPU_ATTN (x86 with AVX-512 or AMX)"),
      Vllm({"fp8_inc"}, Needs::kGaudi, 0, Layout::kAll, "the Gaudi plugin"),
  };
}

std::vector<SupportRow> OtherRows() {
  const Names fp8{"fp8_e4m3", "fp8_e5m2"}, ggml{"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"};
  const char* const linear_scales = "XQA with a linear scale layout and an FP8 prefill workspace";
  const char* const mx = "Triton, FA4 or TRTLLM-MHA (PyTorch 2.8, CUDA 12.8)";
  const auto sglang = [](Names dtypes, Needs needs, int sm, Layout layout, const char* backend, const char* source) {
    return Row(Engine::kSglang, std::move(dtypes), needs, sm, layout, backend, source);
  };
  const auto trtllm = [](const char* dtype, Needs needs, int sm, const char* backend) {
    return Row(Engine::kTrtllm, {dtype}, needs, sm, Layout::kAll, backend, kTrtllmDocs);
  };
  const auto llamacpp = [](Names dtypes, const char* backend) {
    return Row(Engine::kLlamacpp, std::move(dtypes), Needs::kAny, 0, Layout::kAll, backend, kLlamaArgs);
  };
  return {
      sglang({"auto", "bf16", "bfloat16"}, Needs::kAny, 0, Layout::kAll, "every backend", kSglangDocs),
      sglang(fp8, Needs::kCuda, 80, Layout::kAll, "FlashInfer, FA3, Triton, TRTLLM-MHA, FlashMLA", kSglangDocs),
      sglang(fp8, Needs::kAmd, 0, Layout::kAll, "AITER or Triton", kSglangDocs),
      sglang({"nvfp4"}, Needs::kCudaFamily, 100, Layout::kAll, "TRTLLM-MHA decode, FlashInfer prefill", kSglangFp4),
      sglang({"nvfp4"}, Needs::kCudaFamily, 120, Layout::kHeads, linear_scales, kSglangFp4),
      sglang({"fp4_mx_block16"}, Needs::kCuda, 80, Layout::kAll, mx, kSglangFp4),
      trtllm("auto", Needs::kCuda, 80, "every backend"),
      trtllm("fp8", Needs::kCuda, 80, "trtllm attention"),
      trtllm("nvfp4", Needs::kCudaFamily, 100, "trtllm-gen"),
      llamacpp({"f32", "f16", "bf16"}, "every backend"),
      llamacpp(ggml, "flash attention (a quantized V needs it)"),
  };
}

const std::vector<SupportRow>& Rows() {
  static const std::vector<SupportRow> kRows = [] {
    std::vector<SupportRow> rows = VllmRows();
    for (const SupportRow& row : OtherRows()) rows.push_back(row);
    return rows;
  }();
  return kRows;
}

bool DeviceFits(const SupportRow& row, DeviceKind device, const std::optional<GpuSpec>& gpu) {
  if (row.needs == Needs::kAny) return true;
  if (device == DeviceKind::kCpu) return row.needs == Needs::kCpuOnly;
  if (!gpu) return false;
  switch (row.needs) {
    case Needs::kCuda:
      return gpu->sm >= row.sm;
    case Needs::kCudaFamily:
      return gpu->sm / 10 == row.sm / 10;
    case Needs::kAmd:
      return gpu->vendor == "amd";
    case Needs::kGaudi:
      return gpu->architecture.rfind("Gaudi", 0) == 0;
    default:
      return false;
  }
}

struct ModelTraits {
  bool mla = false;
  std::set<int> head_dims;  // of the layers with keys and values by head
};

ModelTraits TraitsOf(const ModelGeometry& model) {
  ModelTraits traits;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache == CacheKind::kMla) traits.mla = true;
    if (layer.head_dim_k > 0 && layer.cache != CacheKind::kMla) traits.head_dims.insert(layer.head_dim_k);
  }
  return traits;
}

bool ModelFits(const SupportRow& row, const ModelTraits& traits) {
  if (row.layout == Layout::kMla && !traits.mla) return false;
  if (row.layout == Layout::kHeads && traits.mla) return false;
  if (row.head_dims.empty()) return true;
  return std::all_of(traits.head_dims.begin(), traits.head_dims.end(), [&](int head_dim) {
    return std::find(row.head_dims.begin(), row.head_dims.end(), head_dim) != row.head_dims.end();
  });
}

std::string DeviceText(DeviceKind device, const std::optional<GpuSpec>& gpu) {
  if (device == DeviceKind::kCpu) return "the CPU";
  if (!gpu) return "this device";
  return gpu->name + (gpu->sm > 0 ? " (SM" + std::to_string(gpu->sm) + ")" : " (" + gpu->architecture + ")");
}

std::string NeedText(const SupportRow& row) {
  switch (row.needs) {
    case Needs::kCpuOnly:
      return "the CPU build";
    case Needs::kCuda:
      return "SM" + std::to_string(row.sm) + " or newer";
    case Needs::kCudaFamily:
      return "SM" + std::to_string(row.sm / 10) + "x";
    case Needs::kAmd:
      return "an AMD GPU";
    case Needs::kGaudi:
      return "Gaudi";
    case Needs::kAny:
      return "any device";
  }
  return "";
}

std::string HeadDimText(const SupportRow& row) {
  std::string text;
  for (const int head_dim : row.head_dims)
    text += (text.empty() ? " with head sizes " : ", ") + std::to_string(head_dim);
  return text;
}

DtypeSupport NotServed(EngineKind engine, const std::string& dtype, const std::string& device,
                       const std::vector<const SupportRow*>& rows) {
  std::string needs;
  for (const SupportRow* row : rows) {
    std::string need = NeedText(*row) + HeadDimText(*row);
    if (row->layout == Layout::kMla) need += " and an MLA model";
    if (row->layout == Layout::kHeads) need += " and a model without MLA";
    if (needs.find(need) == std::string::npos) needs += (needs.empty() ? "" : "; or ") + need;
  }
  return {
      Served::kNo,
      EngineName(engine) + " does not serve " + dtype + " on " + device + " for this model; it needs " + needs + ".",
      rows.front()->source};
}

DtypeSupport HaypileSupport(DeviceKind device, const std::optional<GpuSpec>& gpu) {
  constexpr const char* kSource = "docs/formats/README.md";
  if (device == DeviceKind::kGpu && gpu) {
    return {Served::kNo, "haypile runs on the CPU only.", kSource};
  }
  return {Served::kYes, "haypile serves every format it lists on the CPU.", kSource};
}

DtypeSupport OneDtype(EngineKind engine, const std::string& dtype, DeviceKind device, const std::optional<GpuSpec>& gpu,
                      const ModelGeometry& model) {
  const ModelTraits traits = TraitsOf(model);
  std::vector<const SupportRow*> rows;
  for (const SupportRow& row : Rows()) {
    const bool named = std::find(row.dtypes.begin(), row.dtypes.end(), dtype) != row.dtypes.end();
    if (row.engine != engine || !named) continue;
    rows.push_back(&row);
    if (DeviceFits(row, device, gpu) && ModelFits(row, traits)) {
      return {Served::kYes, std::string("Served by ") + row.backend + ".", row.source};
    }
  }
  if (rows.empty())
    return {Served::kUnknown, "It is not known where " + EngineName(engine) + " serves " + dtype + ".", ""};
  if (device == DeviceKind::kGpu && !gpu) {
    return {Served::kUnknown, "The device is not named (--gpu); " + dtype + " needs " + NeedText(*rows.front()) + ".",
            rows.front()->source};
  }
  return NotServed(engine, dtype, DeviceText(device, gpu), rows);
}

}  // namespace

DtypeSupport SupportOf(EngineKind engine, const std::string& dtype, DeviceKind device,
                       const std::optional<GpuSpec>& gpu, const ModelGeometry& model) {
  if (engine == EngineKind::kHaypile) return HaypileSupport(device, gpu);
  const size_t slash = dtype.find('/');  // llama.cpp: K and V types apart
  if (slash == std::string::npos) return OneDtype(engine, dtype, device, gpu, model);
  DtypeSupport keys = OneDtype(engine, dtype.substr(0, slash), device, gpu, model);
  DtypeSupport values = OneDtype(engine, dtype.substr(slash + 1), device, gpu, model);
  return keys.served == Served::kYes ? values : keys;
}

std::vector<std::string> DefaultDtypes(EngineKind engine, DeviceKind device, const ModelGeometry& model) {
  const bool mla = TraitsOf(model).mla;
  switch (engine) {
    case EngineKind::kVllm:
      if (device == DeviceKind::kCpu)
        return mla ? std::vector<std::string>{"auto"} : std::vector<std::string>{"auto", "fp8"};
      if (mla) return {"auto", "fp8"};
      return {"auto", "fp8", "nvfp4", "int8_per_token_head", "int4_per_token_head"};
    case EngineKind::kSglang:
      return {"auto", "fp8_e4m3", "nvfp4"};
    case EngineKind::kTrtllm:
      return {"auto", "fp8", "nvfp4"};
    case EngineKind::kLlamacpp:
      return {"f16", "q8_0", "q5_1", "q4_0"};
    case EngineKind::kHaypile:
      return {"bf16", "fp8_e4m3", "int8_per_token_head", "nvfp4"};
  }
  return {};
}

std::string SixteenBitDtype(EngineKind engine) {
  switch (engine) {
    case EngineKind::kVllm:
    case EngineKind::kSglang:
      return "bfloat16";
    case EngineKind::kTrtllm:
      return "auto";
    case EngineKind::kLlamacpp:
      return "f16";
    case EngineKind::kHaypile:
      return "bf16";
  }
  return "";
}

std::string EightBitDtype(EngineKind engine) {
  switch (engine) {
    case EngineKind::kVllm:
    case EngineKind::kTrtllm:
      return "fp8";
    case EngineKind::kSglang:
    case EngineKind::kHaypile:
      return "fp8_e4m3";
    case EngineKind::kLlamacpp:
      return "q8_0";
  }
  return "";
}

}  // namespace haypile
