#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "engines/log_record.h"

namespace haypile {

// Reads a start-up log of vLLM, SGLang, TensorRT-LLM or llama.cpp (whichever its lines tell) into one record. Lines
// that no rule reads are counted, never an error: a log of another program is a record with engine kUnknown. kMalformed
// only for an empty text.
Result<LogRecord> ParseStartLog(std::string_view text);

// A file, or "-" for standard input. kNotFound, kIo; kMalformed beyond kMaxLogBytes.
Result<LogRecord> ReadStartLog(const std::string& path);
inline constexpr uint64_t kMaxLogBytes = uint64_t{256} << 20;

}  // namespace haypile
