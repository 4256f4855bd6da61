#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace haypile {

// A program to run to its end. There is no shell: each entry of argv reaches the program as it is.
struct SubprocessSpec {
  std::vector<std::string> argv;                                 // argv[0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // set over the inherited one
  double time_limit_seconds = 0;                                 // 0: none
  size_t capture_limit_bytes = size_t{1} << 20;                  // of each stream; the last bytes are kept
  std::function<void()> on_tick;                                 // called a few times a second while it runs
};

struct SubprocessResult {
  int exit_status = 0;  // 128 + signal when a signal ended it
  std::string output;
  std::string error_output;
};

// Runs the program with an empty standard input and captures both outputs. A program that ran is a result, whatever its
// exit status. Errors: kNotFound (no such program), kIo (cannot start, or over the time limit), kInterrupted (Ctrl-C).
// The program leads a process group of its own that is killed as a whole on the time limit and on Ctrl-C.
Result<SubprocessResult> RunSubprocess(const SubprocessSpec& spec);

// The last `count` lines that are not blank, for error messages.
std::string LastLines(const std::string& text, int count);

}  // namespace haypile
