#pragma once

#include "engines/doctor_report.h"

namespace haypile {

// What `haypile doctor` prints without --json: heads, findings and the checklist, as wide as the output is.
void PrintDoctorReport(const DoctorReport& report);

}  // namespace haypile
