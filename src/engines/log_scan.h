#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/log_record.h"

namespace haypile {

// The pieces that log lines are read with. All are linear in the line's length.

// What follows the first `marker`, or nothing.
std::optional<std::string_view> After(std::string_view line, std::string_view marker);
// What stands between the first `begin` and the next `end` after it.
std::optional<std::string_view> Between(std::string_view line, std::string_view begin, std::string_view end);
bool Contains(std::string_view line, std::string_view part);
bool ContainsNoCase(std::string_view line, std::string_view lower_case_part);

// The number at the start of the text after spaces: "235,074 tokens" -> 235074, "-3.86 GiB" -> -3.86. Grouping commas
// must stand before three digits.
std::optional<double> NumberAt(std::string_view text);
std::optional<int64_t> CountAt(std::string_view text);  // a whole number that fits
std::optional<double> NumberAfter(std::string_view line, std::string_view marker);
std::optional<int64_t> CountAfter(std::string_view line, std::string_view marker);

// The value of `name` in a dump such as "a=1, b='x', 'c': 'y'": quotes are taken off; ends at a comma, a bracket or a
// space. `name` must not be the tail of a longer word. A value in brackets is returned with them.
std::optional<std::string> DumpValue(std::string_view line, std::string_view name);

// "['A', 'B']" or "[A, B]" -> A, B.
std::vector<std::string> ListAt(std::string_view text);

std::string Trimmed(std::string_view text);
// Without ANSI colour codes and control characters, tabs as spaces.
std::string PlainLine(std::string_view line);
LogLine Evidence(int number, std::string_view line);

// Keeps the first value that a log says.
template <typename T>
void SayOnce(std::optional<Said<T>>& slot, T value, const LogLine& line) {
  if (!slot) slot = Said<T>{std::move(value), line};
}

// "TypeError: words" or "RuntimeError" at the start of a message or after "...: "; nothing when there is none.
std::optional<ErrorLine> PythonError(std::string_view message, const LogLine& line);

}  // namespace haypile
