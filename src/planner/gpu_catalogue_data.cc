#include "planner/gpu_catalogue_data.h"

namespace haypile {
namespace {

constexpr int64_t kGb = 1'000'000'000;
constexpr double kGbPerSecond = 1e9;

constexpr int64_t Gib(double value) { return static_cast<int64_t>(value * 1073741824.0); }

enum Matrix { kNoFp8, kFp8, kFp8AndFp4 };

GpuSpec Nvidia(const char* name, std::vector<std::string> aliases, const char* architecture, int sm, int64_t memory_gb,
               double gb_per_second, Matrix matrix, const char* source, int64_t visible_bytes = 0) {
  GpuSpec gpu;
  gpu.name = name;
  gpu.aliases = std::move(aliases);
  gpu.vendor = "nvidia";
  gpu.architecture = architecture;
  gpu.sm = sm;
  gpu.memory_bytes = memory_gb * kGb;
  gpu.visible_bytes = visible_bytes;
  gpu.bandwidth_bytes_per_second = gb_per_second * kGbPerSecond;
  gpu.fp8 = matrix != kNoFp8;
  gpu.fp4 = matrix == kFp8AndFp4;
  gpu.source = source;
  return gpu;
}

GpuSpec Other(const char* name, std::vector<std::string> aliases, const char* vendor, const char* architecture,
              int64_t memory_gb, double gb_per_second, Matrix matrix, const char* source) {
  GpuSpec gpu = Nvidia(name, std::move(aliases), architecture, 0, memory_gb, gb_per_second, matrix, source);
  gpu.vendor = vendor;
  return gpu;
}

GpuSpec Unified(GpuSpec gpu) {
  gpu.unified_memory = true;
  return gpu;
}

void AddDataCentre(std::vector<GpuSpec>* gpus) {
  // "Visible" figures: total memory in public vLLM and TensorRT-LLM start-up logs of that card.
  gpus->push_back(Nvidia("V100-32GB", {"V100"}, "Volta", 70, 32, 900, kNoFp8, "NVIDIA V100 data sheet"));
  gpus->push_back(Nvidia("T4", {}, "Turing", 75, 16, 320, kNoFp8, "NVIDIA T4 data sheet"));
  gpus->push_back(
      Nvidia("A100-40GB", {"A100-SXM4-40GB"}, "Ampere", 80, 40, 1555, kNoFp8, "NVIDIA A100 data sheet", Gib(39.39)));
  gpus->push_back(
      Nvidia("A100-80GB", {"A100", "A100-SXM4-80GB"}, "Ampere", 80, 80, 2039, kNoFp8, "NVIDIA A100 data sheet (SXM)"));
  gpus->push_back(Nvidia("A10", {"A10-24GB"}, "Ampere", 86, 24, 600, kNoFp8, "NVIDIA A10 data sheet"));
  gpus->push_back(Nvidia("A10G", {}, "Ampere", 86, 24, 600, kNoFp8, "AWS EC2 G5 instance page"));
  gpus->push_back(Nvidia("A40", {}, "Ampere", 86, 48, 696, kNoFp8, "NVIDIA A40 data sheet"));
  gpus->push_back(Nvidia("L4", {}, "Ada", 89, 24, 300, kFp8, "NVIDIA L4 data sheet", Gib(22.49)));
  gpus->push_back(Nvidia("L40S", {}, "Ada", 89, 48, 864, kFp8, "NVIDIA L40S data sheet", Gib(44.42)));
  gpus->push_back(Nvidia("L40", {}, "Ada", 89, 48, 864, kFp8, "NVIDIA L40 data sheet"));
  gpus->push_back(Nvidia("H100", {"H100-80GB", "H100-SXM", "H100-SXM5-80GB"}, "Hopper", 90, 80, 3350, kFp8,
                         "NVIDIA H100 data sheet (SXM)", Gib(79.18)));
  gpus->push_back(Nvidia("H100-PCIe", {}, "Hopper", 90, 80, 2000, kFp8, "NVIDIA H100 data sheet (PCIe)"));
  gpus->push_back(Nvidia("H100-NVL", {}, "Hopper", 90, 94, 3900, kFp8, "NVIDIA H100 data sheet (NVL)"));
  gpus->push_back(Nvidia("H20", {}, "Hopper", 90, 96, 4000, kFp8, "NVIDIA H20 announcement, as press reports give it"));
  gpus->push_back(
      Nvidia("H200", {"H200-SXM", "H200-141GB"}, "Hopper", 90, 141, 4800, kFp8, "NVIDIA H200 data sheet", Gib(139.8)));
  gpus->push_back(Nvidia("GH200", {"GH200-96GB"}, "Hopper", 90, 96, 4000, kFp8, "NVIDIA GH200 data sheet (HBM3)"));
  gpus->push_back(Nvidia("B200", {"B200-180GB"}, "Blackwell", 100, 180, 8000, kFp8AndFp4,
                         "NVIDIA DGX B200 data sheet (1,440 GB / 8)"));
  gpus->push_back(Nvidia("GB200", {}, "Blackwell", 100, 186, 8000, kFp8AndFp4, "NVIDIA GB200 NVL72 data sheet"));
  gpus->push_back(Nvidia("B300", {}, "Blackwell Ultra", 103, 288, 8000, kFp8AndFp4, "NVIDIA DGX B300 data sheet"));
  gpus->push_back(Nvidia("GB300", {}, "Blackwell Ultra", 103, 288, 8000, kFp8AndFp4, "NVIDIA GB300 NVL72 data sheet"));
}

void AddWorkstation(std::vector<GpuSpec>* gpus) {
  gpus->push_back(Nvidia("RTX-3090", {"3090"}, "Ampere", 86, 24, 936, kNoFp8, "NVIDIA GeForce RTX 3090 specifications",
                         Gib(23.58)));
  gpus->push_back(Nvidia("RTX-A5000", {"A5000"}, "Ampere", 86, 24, 768, kNoFp8, "NVIDIA RTX A5000 data sheet"));
  gpus->push_back(Nvidia("RTX-A6000", {"A6000"}, "Ampere", 86, 48, 768, kNoFp8, "NVIDIA RTX A6000 data sheet"));
  gpus->push_back(Nvidia("RTX-4090", {"4090"}, "Ada", 89, 24, 1008, kFp8, "NVIDIA GeForce RTX 4090 specifications"));
  gpus->push_back(Nvidia("RTX-6000-Ada", {}, "Ada", 89, 48, 960, kFp8, "NVIDIA RTX 6000 Ada data sheet"));
  gpus->push_back(Nvidia("RTX-5060-Ti", {"5060-Ti", "RTX-5060-Ti-16GB"}, "Blackwell", 120, 16, 448, kFp8AndFp4,
                         "NVIDIA GeForce RTX 5060 Ti specifications"));
  gpus->push_back(Nvidia("RTX-5070-Ti", {"5070-Ti"}, "Blackwell", 120, 16, 896, kFp8AndFp4,
                         "NVIDIA GeForce RTX 5070 Ti specifications"));
  gpus->push_back(
      Nvidia("RTX-5090", {"5090"}, "Blackwell", 120, 32, 1792, kFp8AndFp4, "NVIDIA GeForce RTX 5090 specifications"));
  gpus->push_back(Nvidia("RTX-PRO-6000", {"RTX-PRO-6000-Blackwell", "PRO-6000"}, "Blackwell", 120, 96, 1792, kFp8AndFp4,
                         "NVIDIA RTX PRO 6000 Blackwell data sheet", Gib(95.01)));
  gpus->push_back(Unified(Nvidia("DGX-Spark", {"GB10", "Spark"}, "Blackwell", 121, 128, 273, kFp8AndFp4,
                                 "NVIDIA DGX Spark specifications")));
  gpus->push_back(Unified(Nvidia("Jetson-Thor", {"Thor", "T5000"}, "Blackwell", 110, 128, 273, kFp8AndFp4,
                                 "NVIDIA Jetson Thor data sheet")));
  gpus->push_back(Unified(Nvidia("Jetson-Orin-64GB", {"Jetson-Orin", "Orin"}, "Ampere", 87, 64, 204.8, kNoFp8,
                                 "NVIDIA Jetson AGX Orin data sheet")));
}

void AddOtherMakers(std::vector<GpuSpec>* gpus) {
  gpus->push_back(Other("MI210", {}, "amd", "gfx90a", 64, 1638.4, kNoFp8, "AMD Instinct MI210 data sheet"));
  gpus->push_back(Other("MI250X", {"MI250"}, "amd", "gfx90a", 128, 3276.8, kNoFp8, "AMD Instinct MI250X data sheet"));
  gpus->push_back(Other("MI300X", {}, "amd", "gfx942", 192, 5300, kFp8, "AMD Instinct MI300X data sheet"));
  gpus->push_back(Other("MI325X", {}, "amd", "gfx942", 256, 6000, kFp8, "AMD Instinct MI325X data sheet"));
  gpus->push_back(Other("MI350X", {}, "amd", "gfx950", 288, 8000, kFp8AndFp4, "AMD Instinct MI350X data sheet"));
  gpus->push_back(Other("MI355X", {}, "amd", "gfx950", 288, 8000, kFp8AndFp4, "AMD Instinct MI355X data sheet"));
  gpus->push_back(Other("RX-7900-XTX", {"7900-XTX"}, "amd", "gfx1100", 24, 960, kNoFp8, "AMD Radeon RX 7900 XTX page"));
  gpus->push_back(Unified(Other("Strix-Halo", {"Ryzen-AI-Max-395"}, "amd", "gfx1151", 128, 256, kNoFp8,
                                "AMD Ryzen AI Max+ 395 page (LPDDR5X-8000)")));
  gpus->push_back(Other("Gaudi2", {"Gaudi-2"}, "intel", "Gaudi 2", 96, 2450, kFp8, "Intel Gaudi 2 white paper"));
  gpus->push_back(Other("Gaudi3", {"Gaudi-3"}, "intel", "Gaudi 3", 128, 3700, kFp8, "Intel Gaudi 3 white paper"));
  gpus->push_back(Other("Arc-Pro-B60", {"B60"}, "intel", "Xe2", 24, 456, kNoFp8, "Intel Arc Pro B60 page"));
}

}  // namespace

std::vector<GpuSpec> BuiltInGpus() {
  std::vector<GpuSpec> gpus;
  AddDataCentre(&gpus);
  AddWorkstation(&gpus);
  AddOtherMakers(&gpus);
  return gpus;
}

}  // namespace haypile
