#include "cache_flags.h"

namespace haypile {

void AddCacheFlags(CLI::App& command, std::string& skip_layers, std::string& scales_path, int& page_tokens) {
  command.add_option("--kv-cache-dtype-skip-layers", skip_layers,
                     "Layers that keep bf16: indices and/or sliding_window");
  command.add_option("--kv-scales", scales_path, "JSON file of KV scales (docs/kv-scales.md)");
  command.add_option("--block-size", page_tokens, "Tokens of a page, a multiple of 16")->capture_default_str();
}

void AddThreadsFlag(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Threads; 0: every core")->check(CLI::Range(0, 1024))->capture_default_str();
}

}  // namespace haypile
