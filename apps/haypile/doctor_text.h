#pragma once

#include "engines/doctor_report.h"
#include "probe/probe.h"

namespace haypile {

// What `haypile doctor` prints without --json: heads, findings and the checklist, as wide as the output is. `probe` may
// be null.
void PrintDoctorReport(const DoctorReport& report, const ProbeResult* probe);

}  // namespace haypile
