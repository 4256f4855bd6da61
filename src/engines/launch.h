#pragma once

#include <string>
#include <vector>

#include "engines/finding.h"
#include "engines/launch_input.h"

namespace haypile {

enum class LaunchVerdict {
  kServed,    // a row says that a backend serves it, and no row of trouble applies
  kRefused,   // the start, or its first request, ends
  kWrong,     // it is served, and wrongly
  kNotKnown,  // no row says
};
std::string LaunchVerdictName(LaunchVerdict verdict);  // "served", "refused", "served_wrongly", "not_known"

struct LaunchPrediction {
  LaunchVerdict verdict = LaunchVerdict::kNotKnown;
  std::string backend;     // expected; empty: not known
  std::string storage;     // "yes", "no", "not known": whether values of this dtype can be stored there
  std::string arithmetic;  // what attention computes in: "fp8", "fp8 in prefill", "16 bits", "not known"
  Findings findings;       // the worst first; the first of kind launch.served, launch.refused or launch.not_known is on
                           // the combination itself
};

// What will be served, refused or served wrongly, before the start. Every finding names its source as evidence.
LaunchPrediction PredictLaunch(const LaunchInput& input);

}  // namespace haypile
