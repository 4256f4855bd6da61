#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace haypile {

enum class LogEngine { kUnknown, kVllm, kSglang, kTrtllm, kLlamacpp };
std::string LogEngineName(LogEngine engine);  // "unknown", "vllm", "sglang", "trtllm", "llamacpp"

// A line of the log as evidence: its number from 1, and its text without colour codes and control characters, cut to
// kMaxEvidenceBytes.
struct LogLine {
  int number = 0;
  std::string text;
};
inline constexpr size_t kMaxEvidenceBytes = 400;

// A value and the line that says it.
template <typename T>
struct Said {
  T value;
  LogLine line;
};
using SaidText = std::optional<Said<std::string>>;
using SaidCount = std::optional<Said<int64_t>>;
using SaidNumber = std::optional<Said<double>>;

// What a line says about KV scales.
enum class ScaleNote {
  kUnit,       // the engine runs at 1.0 (vLLM's "Using KV cache scaling factor 1.0")
  kNoFile,     // SGLang: no scaling factors were given; printed whether the checkpoint has them or not
  kDropped,    // a scale tensor of the checkpoint that was not loaded
  kFileError,  // a file of scales could not be read; 1.0 instead
  kLoaded,     // scales were loaded
  kGeneral,    // "may cause accuracy drop without a proper scaling factor": printed for every FP8 cache
  kOldName,    // the deprecated single kv_scale
  kQuery,      // the query's scale, not the cache's
};
struct ScaleLine {
  ScaleNote note;
  std::string tensor;  // kDropped: as the log spells it
  LogLine line;
};

struct BackendLine {
  std::string backend;
  std::vector<std::string> candidates;  // those it was chosen out of, where the line says
  LogLine line;
};

// One pool, or one cache of a pool.
struct PoolLine {
  std::string what;  // "pool", "full", "sliding window", "state", "draft"
  std::optional<int64_t> tokens = {}, blocks = {}, tokens_per_block = {}, max_model_len = {}, layers = {}, streams = {};
  std::optional<double> concurrency = {};
  std::optional<double> bytes = {};                  // K and V together
  std::optional<double> k_bytes = {}, v_bytes = {};  // apart
  std::string dtype = {};                            // of the pool; llama.cpp: "q8_0/q4_0" when K and V differ
  LogLine line = {};
};

// Memory in GiB that one rank names.
struct MemoryLine {
  enum class Kind { kForPool, kBeforeWeights, kAfterWeights, kFreeAtEnd, kWeights, kGraphs } kind;
  double gib = 0.0;
  std::string rank;  // as the logger names it, empty where it does not
  LogLine line;
};

// The periodic line of a server under load. Shares are 0..1.
struct LoadLine {
  double usage = 0.0;
  std::optional<double> running, waiting, preemptions, prefix_hits, generation_tokens_s;
  LogLine line;
};

struct ErrorLine {
  std::string type;      // "ValueError", "" where the line names none
  std::string message;   // one line
  bool summary = false;  // says only that something failed ("see root cause above")
  LogLine line;
};

// Any engine's log, in one shape. What the log does not say is empty.
struct LogRecord {
  LogEngine engine = LogEngine::kUnknown;
  SaidText version, model, model_dtype, quantization;
  SaidText kv_dtype_requested;                   // as the flag or the config dump gives it
  std::vector<Said<std::string>> kv_dtype_used;  // every line that names the dtype of the cache
  SaidText backend_requested;
  std::vector<BackendLine> backends;
  std::vector<Said<std::string>> backend_changes;  // lines that say that a request was overridden
  std::vector<ScaleLine> scales;
  std::vector<PoolLine> pools;
  std::vector<MemoryLine> memory;
  std::vector<LoadLine> load;
  SaidCount max_model_len, tensor_parallel, attention_block, kv_cache_bytes, max_num_seqs, max_total_tokens_asked,
      head_dim, query_heads, kv_heads, layers;
  SaidNumber memory_fraction, state_padding_percent;
  SaidText speculative;      // method, or the config dump's words; empty when there is none
  SaidText graphs;           // what the log says of captured graphs
  SaidText flash_attention;  // llama.cpp
  bool on_cpu = false;
  std::optional<bool> prefix_caching;
  std::vector<ErrorLine> errors;
  int lines = 0;
  int recognised = 0;
  int unrecognised_about_cache = 0;   // lines that speak of the cache and that no rule reads
  std::vector<LogLine> unrecognised;  // the first of these
};
inline constexpr size_t kMaxUnrecognisedShown = 5;

}  // namespace haypile
