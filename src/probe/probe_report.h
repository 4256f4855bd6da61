#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "engines/finding.h"
#include "probe/probe.h"
#include "report/text_table.h"

namespace haypile {

// The verdict as a finding of the doctor: probe.scales_loaded, probe.runs_at_one, probe.quantized (a dtype without a
// checkpoint's scales), probe.not_quantized or probe.cannot_tell.
Finding ProbeFinding(const ProbeResult& result);

// What was asked of whom, and which dtype and scales were compared: one line each, for people.
std::vector<std::string> ProbeHead(const ProbeResult& result);
// One row for the server and for each run of ours.
TextTable ProbeTable(const ProbeResult& result);
// What one probe leaves open.
std::vector<std::string> ProbeNotMeasured(const ProbeResult& result);

// Member "probe" of schema haypile.doctor/1.
Json ProbeJson(const ProbeResult& result);

}  // namespace haypile
