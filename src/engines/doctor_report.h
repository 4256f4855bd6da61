#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "engines/doctor.h"
#include "engines/launch.h"

namespace haypile {

enum class CheckState { kDone, kTrouble, kOpen };  // answered well; answered badly; not answered
std::string CheckStateName(CheckState state);      // "done", "trouble", "open"

// What the user named; empty: not given.
struct GivenNames {
  std::string model;    // that can be planned: a folder, a config.json, a GGUF file, a known name
  std::string weights;  // whose weights are here: a folder or a GGUF file
  std::string log, metrics_url;
  std::string server_url = {};  // of a running server: http://HOST:PORT
};
// Puts these names for the placeholders (MODEL, FOLDER, CHECKPOINT, LOG, http://HOST:PORT) of the commands of this
// program that findings say to type, or end a check with, so that they can be run as they stand. Others are left as
// they are.
void NameCommands(const GivenNames& names, Findings& findings);

// One question of the order in which the field finds out what a quantized cache does.
struct CheckStep {
  std::string id;        // "pool", "scales", "backend", "accuracy", "speed"
  std::string question;  // "Is the pool the limit?"
  CheckState state = CheckState::kOpen;
  std::string answer;             // what is known from the inputs; kOpen: what is missing
  std::vector<std::string> next;  // the commands to run now; empty: none is needed
};

// All five questions in their order, answered from what was given and found.
std::vector<CheckStep> Checklist(const DoctorInput& input, const Findings& findings);

// Everything that one run of the doctor says.
struct DoctorReport {
  DoctorInput input;
  const LaunchInput* launch_input = nullptr;  // with input.launch
  Findings findings;
  std::vector<CheckStep> checklist;  // empty: not asked for
};

// schema haypile.doctor/1, docs/schemas/haypile.doctor-1.schema.json. Its member "probe" is null: whoever ran one puts
// it there.
Json DoctorJson(const std::string& tool_version, const DoctorReport& report);

}  // namespace haypile
