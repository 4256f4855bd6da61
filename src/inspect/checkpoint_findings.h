#pragma once

#include "inspect/report.h"

namespace haypile {

// How index and files agree.
Findings FileFindings(const CheckpointHeaders& headers);

// What weights, declaration and KV scales say together. Sets report->exporter and ->convention.
Findings WholeFindings(InspectReport* report);

}  // namespace haypile
