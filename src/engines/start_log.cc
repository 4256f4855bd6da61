#include "engines/start_log.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <vector>

#include "base/file.h"
#include "engines/engine_log.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

constexpr size_t kMaxLineBytes = 1 << 16;  // what a rule needs stands at the start of a line; config dumps are shorter

using LineReader = bool (*)(std::string_view, const LogLine&, LogRecord&);
struct Reader {
  LogEngine engine;
  LineReader read;
  std::vector<std::string_view> marks;  // words that only this engine prints
};

const std::array<Reader, 4>& Readers() {
  static const std::array<Reader, 4> kReaders = {{
      {LogEngine::kVllm,
       ReadVllmLine,
       {"LLM engine (v", "(EngineCore", "(APIServer", "(Worker", "vllm", "VLLM",
        "KV cache size: ", "Available KV cache memory", "gpu_memory_utilization", "attention backend out of potential",
        "not found in params_dict", "attention page size is >= mamba", "Engine 000:"}},
      {LogEngine::kSglang,
       ReadSglangLine,
       {"ServerArgs(", "max_total_num_tokens=", "KV Cache is allocated", "sglang", "SGLang", "Load weight end",
        "Load weight begin", "Memory pool end", "mem-fraction-static", "Using FP8 KV cache but no scaling factors",
        "FlashAttention3 only supports fp8_e4m3", "The server is fired up"}},
      {LogEngine::kTrtllm,
       ReadTrtllmLine,
       {"[TensorRT-LLM]", "[TRT-LLM]", "tensorrt_llm", "paged KV cache", "KV cache manager v2",
        "in KV cache primary pool", "Setting quant_algo=", "KvCacheConfig", "TensorRT-LLM"}},
      {LogEngine::kLlamacpp,
       ReadLlamacppLine,
       {"llama_kv_cache", "llama_model_loader", "llama_context", "llama_init_from_model", "common_init_", "ggml_",
        "llama_new_context", "llama-server", "print_info:", "llm_load_print_meta", "V cache was requested",
        "V cache quantization"}},
  }};
  return kReaders;
}

std::vector<std::string> PlainLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(PlainLine(text.substr(0, std::min({end, text.size(), kMaxLineBytes}))));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

const Reader* ReaderOf(const std::vector<std::string>& lines) {
  std::array<int, 4> votes{};
  for (const std::string& line : lines) {
    for (size_t i = 0; i < votes.size(); ++i) {
      const auto& marks = Readers()[i].marks;
      votes[i] += std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) { return Contains(line, mark); });
    }
  }
  const auto best = std::max_element(votes.begin(), votes.end());
  return *best == 0 ? nullptr : &Readers()[static_cast<size_t>(best - votes.begin())];
}

// A line that a reader of KV cache troubles would want to see.
bool SpeaksOfCache(std::string_view line) {
  for (const std::string_view word :
       {"kv cache", "kv_cache", "kv-cache", "kvcache", "k_scale", "v_scale", "kv_scale", "preempt", "attention backend",
        "cache dtype", "cache type", "fp8 kv", "nvfp4 kv"}) {
    if (ContainsNoCase(line, word)) return true;
  }
  return false;
}

}  // namespace

std::string LogEngineName(LogEngine engine) {
  switch (engine) {
    case LogEngine::kVllm:
      return "vllm";
    case LogEngine::kSglang:
      return "sglang";
    case LogEngine::kTrtllm:
      return "trtllm";
    case LogEngine::kLlamacpp:
      return "llamacpp";
    case LogEngine::kUnknown:
      break;
  }
  return "unknown";
}

Result<LogRecord> ParseStartLog(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Error(ErrorCode::kMalformed, "the log is empty; give the engine's output from its first line on");
  }
  const std::vector<std::string> lines = PlainLines(text);
  LogRecord record;
  const Reader* reader = ReaderOf(lines);
  if (reader != nullptr) record.engine = reader->engine;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(' ') == std::string::npos) continue;
    ++record.lines;
    const LogLine line = Evidence(static_cast<int>(i + 1), lines[i]);
    if (reader != nullptr && reader->read(lines[i], line, record)) {
      ++record.recognised;
    } else if (SpeaksOfCache(lines[i])) {
      ++record.unrecognised_about_cache;
      if (record.unrecognised.size() < kMaxUnrecognisedShown) record.unrecognised.push_back(line);
    }
  }
  return record;
}

Result<LogRecord> ReadStartLog(const std::string& path) {
  if (path != "-") {
    HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(path, kMaxLogBytes));
    auto record = ParseStartLog(text);
    if (!record.ok()) return std::move(record).error().WithContext("reading '" + path + "'");
    return record;
  }
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (std::cin.read(buffer.data(), buffer.size()), std::cin.gcount() > 0) {
    text.append(buffer.data(), static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kMaxLogBytes) return Error(ErrorCode::kMalformed, "standard input: longer than 256 MiB");
  }
  auto record = ParseStartLog(text);
  if (!record.ok()) return std::move(record).error().WithContext("reading standard input");
  return record;
}

}  // namespace haypile
