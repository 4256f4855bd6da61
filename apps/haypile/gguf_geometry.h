#pragma once

#include "base/result.h"
#include "checkpoint/gguf.h"
#include "planner/model_geometry.h"

namespace haypile {

// What a plan needs to know, from a GGUF file's metadata and the sizes of its tensors; no tensor is read. Many more
// architectures than can be run. kUnsupported names an architecture that is not understood; kMalformed names the key.
Result<ModelGeometry> GeometryFromGguf(const GgufFile& file);

}  // namespace haypile
