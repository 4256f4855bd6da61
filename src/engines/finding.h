#pragma once

#include <string>
#include <vector>

#include "engines/log_record.h"

namespace haypile {

// kGood: what was looked for and found right; kNote: a fact to know; kUnknown: cannot be told from what was given;
// kWarning: may cost accuracy, memory or speed; kProblem: does, or ends the start.
enum class Severity { kGood, kNote, kUnknown, kWarning, kProblem };
std::string SeverityName(Severity severity);  // "good", "note", "unknown", "warning", "problem"

// One thing a doctor found, complete: nobody should need to ask what to do with it.
struct Finding {
  std::string id;  // stable, for scripts: "scales.unit", "pool.plan_differs", ...
  Severity severity = Severity::kNote;
  std::string what = {};               // a whole sentence
  std::vector<LogLine> evidence = {};  // number 0: not of the log (a file, a flag)
  std::string why = {};                // why it matters
  std::vector<std::string> type = {};  // what to type
  std::string check = {};              // how to see that it worked
};

using Findings = std::vector<Finding>;

}  // namespace haypile
