#pragma once

#include <string_view>

namespace haypile {

// What kind of thing went wrong. The one table in error_code.cc gives each code its name, exit status,
// HTTP status and OpenAI error type; docs/errors.md is the same table for people.
enum class ErrorCode {
  kInvalidArgument,  // a flag, a request field or a combination of them
  kNotFound,         // a file, model, tensor or layer that was named does not exist
  kMalformed,        // a file's content breaks its own format
  kUnsupported,      // valid, but not something this program can run rightly
  kOutOfBudget,      // memory budget, context length or pool too small
  kIo,               // the operating system refused a read, write or process
  kNetwork,          // a download or a server did not answer as needed
  kInterrupted,      // the user stopped the work
  kInternal,         // a third-party library failed in a way input should not cause
};

struct ErrorCodeInfo {
  ErrorCode code;
  std::string_view name;  // e.g. "invalid_argument"
  int exit_status;        // of the process
  int http_status;
  std::string_view openai_type;
};

// Never fails: every code has a row.
const ErrorCodeInfo& InfoOf(ErrorCode code);

}  // namespace haypile
