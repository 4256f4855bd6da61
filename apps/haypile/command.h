#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace haypile {

// A command registers its flags with the parser and says what to run once they are parsed.
using CommandBody = std::function<Status()>;

inline constexpr int kMostRanks = 65536;                          // a flag's most ranks or slots
inline constexpr uint64_t kLargestTextFile = uint64_t{64} << 20;  // bytes of a file that a flag names

inline Error Invalid(const std::string& message) { return Error(ErrorCode::kInvalidArgument, message); }

// Adds a subcommand; `chosen` gets its body when the user names it.
void AddBenchCommand(CLI::App& app, CommandBody& chosen);
void AddCalibrateCommand(CLI::App& app, CommandBody& chosen);
void AddCompareCommand(CLI::App& app, CommandBody& chosen);
void AddDoctorCommand(CLI::App& app, CommandBody& chosen);
void AddGenerateCommand(CLI::App& app, CommandBody& chosen);
void AddFormatsCommand(CLI::App& app, CommandBody& chosen);
void AddInspectCommand(CLI::App& app, CommandBody& chosen);
void AddModelCommand(CLI::App& app, CommandBody& chosen);
void AddPlanCommand(CLI::App& app, CommandBody& chosen);
void AddReportCommand(CLI::App& app, CommandBody& chosen);

}  // namespace haypile
