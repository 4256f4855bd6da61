#pragma once

#include <optional>

#include "engines/doctor.h"

namespace haypile {

// The pool that a log gives tokens for, the last one printed; null: none.
const PoolLine* PoolWithTokens(const LogRecord& log);

// Bytes that the pool had, of the poorest rank, and by how much the log's rounding may be off.
struct PoolBytes {
  double bytes = 0.0;
  double error = 0.0;
};
std::optional<PoolBytes> PoolBytesOf(const LogRecord& log);

// What of a drafter's making may have taken this much memory while the pool was sized; "" where there is no drafter.
std::string DrafterCause(const DoctorInput& input, double unused_gib);

// The printed pool against a plan made apart: which of its terms is another.
void FindPlanFileGap(const DoctorInput& input, const PoolLine& pool, Findings& findings);

}  // namespace haypile
