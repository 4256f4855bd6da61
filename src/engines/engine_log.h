#pragma once

#include <string_view>

#include "engines/log_record.h"

namespace haypile {

// One reader per engine: takes one line (plain, without colour codes) into the record; whether a rule read it.
bool ReadVllmLine(std::string_view text, const LogLine& line, LogRecord& record);
bool ReadSglangLine(std::string_view text, const LogLine& line, LogRecord& record);
bool ReadTrtllmLine(std::string_view text, const LogLine& line, LogRecord& record);
bool ReadLlamacppLine(std::string_view text, const LogLine& line, LogRecord& record);

}  // namespace haypile
