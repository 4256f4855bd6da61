#pragma once

#include <string>

#include "engines/finding.h"
#include "engines/metrics_text.h"

namespace haypile {

// Parts of what is said of metrics, over the server's life or over a window; they append. `over` says which, for
// people: "since the server's start", "in these 30 s".
void AddRecomputed(const PoolMetrics& metrics, const std::string& over, Findings& findings);
void AddPrefixHits(const PoolMetrics& metrics, const std::string& over, Findings& findings);
void AddLatencies(const PoolMetrics& metrics, const std::string& over, Findings& findings);
void AddPoolSize(const PoolMetrics& metrics, Findings& findings);

// What helps where the pool is the limit, and what to keep where it is not.
std::vector<std::string> LimitAdvice();
std::string WholeText(double value);  // "1,741"

}  // namespace haypile
