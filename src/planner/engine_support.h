#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/gpu_catalogue.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

enum class Served { kYes, kNo, kUnknown };

// Whether an engine serves a KV cache dtype on a device, and how that is known.
struct DtypeSupport {
  Served served = Served::kUnknown;
  std::string why;     // a whole sentence: the backend that serves it, or what is missing
  std::string source;  // the engine's source file or documentation page
};

// `dtype` in the engine's own spelling; `gpu` is empty on the CPU or when the device is not known. `model` decides
// where a backend depends on MLA or on the head size.
DtypeSupport SupportOf(EngineKind engine, const std::string& dtype, DeviceKind device,
                       const std::optional<GpuSpec>& gpu, const ModelGeometry& model);

// The dtypes that a plan compares when the user names none: the engine's "auto" (or 16-bit default) and its common
// quantized ones that this model and device can have.
std::vector<std::string> DefaultDtypes(EngineKind engine, DeviceKind device, const ModelGeometry& model);

// The engine's spelling of a 16-bit and an 8-bit floating-point cache, which ratios are taken against.
std::string SixteenBitDtype(EngineKind engine);
std::string EightBitDtype(EngineKind engine);

}  // namespace haypile
