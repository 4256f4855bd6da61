#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "planner/gpu_catalogue.h"
#include "planner/plan_request.h"

namespace haypile {

// The small language that rows of support tables are written in. A text is words between spaces.

std::vector<std::string_view> WordsOf(std::string_view text);
bool HasWord(std::string_view text, std::string_view word);

enum class Match { kNo, kYes, kUnknown };

// Devices, any of the words: "any"; "cpu"; "gpu"; "cuda"; "sm90" (that capability), "sm9x" (its family), "sm80+",
// "sm80-88"; "amd"; "gaudi"; "gfx942". kUnknown: a GPU that is not named, where the words do not all agree.
Match DeviceMatches(std::string_view words, DeviceKind device, const std::optional<GpuSpec>& gpu);

// Versions, any of the words: "" or "any"; "0.20+"; "..0.18" (0.18.x included); "0.19..0.22"; "0.27.1".
bool VersionMatches(std::string_view words, const EngineVersion& version);

// Head sizes, each word: "%32", "<=256", ">=32", "64,128" (one of), "pow2". `holds` of one size.
bool HeadWordHolds(std::string_view word, int head_dim);
// Every word of every size.
bool HeadsMatch(std::string_view words, const std::set<int>& head_dims);
// The first size that some word, or with "!" its opposite, holds of: "256", "!pow2", "!%32". Nothing: none.
std::optional<int> HeadWith(std::string_view words, const std::set<int>& head_dims);

// Whether every word can be read at all; tests hold the tables to it.
bool DeviceWordsAreKnown(std::string_view words);
bool VersionWordsAreKnown(std::string_view words);
bool HeadWordsAreKnown(std::string_view words);

// For people: "compute capability 8.9 or newer", "CUDA 10.x or an AMD GPU".
std::string DeviceWordsText(std::string_view words);

}  // namespace haypile
