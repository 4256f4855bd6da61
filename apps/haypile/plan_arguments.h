#pragma once

#include <string>
#include <vector>

namespace haypile {

// The arguments of `haypile plan` and `haypile doctor` in one spelling, so that flags can be pasted from any engine's
// command line: '_' in names of long flags becomes '-' (vLLM and TensorRT-LLM take both), and llama.cpp's short flags
// of several letters
// ("-ctk") their long names. Other commands' arguments are left alone.
std::vector<std::string> NormalizedArguments(int argc, const char* const* argv);

}  // namespace haypile
