#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/session.h"

namespace haypile {

// What a model is calibrated on. At most one of the two paths; none: the built-in texts.
struct CalibrationTextRequest {
  std::string text_path;   // plain text
  std::string chats_path;  // JSONL, one chat a line: {"messages": [{"role", "content"}]}, the same list alone, or
                           // {"conversations": [{"from", "value"}]}
  int64_t tokens = 0;      // at most so many in all; 0: all of a file, kBuiltInTokens of the built-in texts
  // Longest piece that is run as one sequence; 0: kSegmentTokens, or the model's context if that is shorter.
  int64_t segment_tokens = 0;
};
inline constexpr int64_t kBuiltInTokens = 16384;
inline constexpr int64_t kSegmentTokens = 2048;

// A stretch of text that is run as one sequence from position 0.
struct CalibrationSegment {
  std::string source;           // for people: "essays, piece 2", "chats.jsonl, line 7"
  std::vector<int32_t> tokens;  // with the model's BOS in front
};

struct CalibrationText {
  std::vector<CalibrationSegment> segments;
  int64_t tokens = 0;           // of all segments
  int64_t tokens_left_out = 0;  // by the limits
  // The longest piece that the limit on tokens left out whole, for measuring on what was not calibrated on; may be
  // empty.
  std::vector<int32_t> held_out;
};

// Texts are cut into pieces of segment_tokens; the built-in texts give pieces in turn. A chat is one piece, cut off at
// segment_tokens. kMalformed names the line of a chat that cannot be read; kUnsupported: the model has no chat template
// that is known; kInvalidArgument when nothing is left to run.
Result<CalibrationText> MakeCalibrationText(const Session& session, const CalibrationTextRequest& request);

}  // namespace haypile
