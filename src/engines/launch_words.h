#pragma once

#include <string_view>

#include "engines/launch_rows.h"

// Names that the tables of launch rows share.
namespace haypile::launch_words {

inline constexpr LaunchOutcome kRefused = LaunchOutcome::kRefused, kWrong = LaunchOutcome::kWrong,
                               kRisk = LaunchOutcome::kRisk, kNote = LaunchOutcome::kNote;
inline constexpr std::string_view kFp8 = "fp8 fp8_e4m3 fp8_e5m2", kNvfp4 = "nvfp4 nvfp4_4over6";
inline constexpr std::string_view kFirstRequest =
    "the first request is answered, and its text is the one of the model's dtype";
inline constexpr std::string_view kSameText =
    "the same text as with the model's dtype, from the same prompts at temperature 0";

}  // namespace haypile::launch_words
