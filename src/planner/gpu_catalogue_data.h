#pragma once

#include <vector>

#include "planner/gpu_catalogue.h"

namespace haypile {

// The built-in table: makers' data sheets, with their decimal gigabytes.
std::vector<GpuSpec> BuiltInGpus();

}  // namespace haypile
