#pragma once

#include <string>
#include <vector>

#include "engines/launch_input.h"

namespace haypile {

// FLASH_ATTN, flash_attn and FlashAttn are one.
std::string PlainBackend(std::string_view backend);

// What the rows of the support matrix say of one dtype of a start.
struct LaunchSupport {
  Match match = Match::kUnknown;
  std::string backend;  // the one that serves it, or that was asked for
  std::string what;     // a whole sentence
  std::string source;
  std::string arithmetic;                 // kYes: of the row
  std::vector<std::string> alternatives;  // kNo with a backend asked for: others that serve the dtype
};
LaunchSupport SupportOfLaunch(const LaunchInput& input, const std::string& dtype);

}  // namespace haypile
