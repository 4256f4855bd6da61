#pragma once

#include <string>

#include "calibrate/calibrate.h"

namespace haypile {

// What was measured and the list of layers to keep in bf16, as text for people.
std::string CalibrateText(const CalibrateResult& result, int width, bool colour);

// What SGLang's file loses: K and V share one scale there. Names the layer that it hurts most.
std::string SharedScaleLossText(const CalibrateResult& result);

// The result as JSON, docs/schemas/haypile.calibrate-1.schema.json.
std::string CalibrateJsonText(const CalibrateResult& result);

const char* NameOf(ScaleMethod method);
const char* NameOf(ScaleStrategy strategy);

}  // namespace haypile
