#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace haypile {

// Flags of the commands that run Haypile's own cache: layers that keep bf16, scales from a file, tokens of a page.
void AddCacheFlags(CLI::App& command, std::string& skip_layers, std::string& scales_path, int& page_tokens);

void AddThreadsFlag(CLI::App& command, int& threads);

}  // namespace haypile
