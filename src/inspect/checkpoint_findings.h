#pragma once

#include "inspect/report.h"

namespace haypile {

// How index and files agree.
CheckpointFindings FileFindings(const CheckpointHeaders& headers);

// What is declared of the KV cache, what is found, and where they differ.
ScaleAgreement AgreementOf(const InspectReport& report);

// What weights, declaration and KV scales say together. Sets exporter, convention, divisor_of_values and agreement of
// the report.
CheckpointFindings WholeFindings(InspectReport* report);

}  // namespace haypile
