#pragma once

#include "report/compare_result.h"

namespace haypile {

// testdata/compare_sample.json: a complete comparison of four dtypes with invented figures, among them one dtype timed
// at a lower clock, tasks that tell nothing, and texts that would be markup if they were not escaped.
CompareResult SampleComparison();

}  // namespace haypile
