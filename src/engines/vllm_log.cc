#include <algorithm>

#include "engines/engine_log.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

// Without "(EngineCore pid=1) INFO 11-29 15:59:25 [core.py:133] ".
std::string_view Message(std::string_view text) {
  const size_t source = text.find(".py:");
  if (source != std::string_view::npos && source < 160) {
    const size_t end = text.find("] ", source);
    if (end != std::string_view::npos && end - source < 12) return text.substr(end + 2);
  }
  return text;
}

// "(Worker_TP1 pid=7)", "(VllmWorker rank=1 pid=7)", "(VllmWorker TP1 pid=7)" -> "TP1", "rank 1", "TP1".
std::string RankOf(std::string_view text) {
  const auto prefix = Between(text.substr(0, 80), "(", ")");
  if (!prefix) return "";
  if (const auto rank = CountAfter(*prefix, "rank=")) return "rank " + std::to_string(*rank);
  const size_t at = prefix->find("TP");
  if (at != std::string_view::npos) return std::string(prefix->substr(at, prefix->find_first_of(" _)", at) - at));
  if (const auto rank = CountAfter(*prefix, "Worker-")) return "rank " + std::to_string(*rank);
  return "";
}

void ReadArguments(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto say = [&](SaidText& slot, std::string_view name) {
    const auto value = DumpValue(text, name);
    if (value && *value != "None" && !value->empty()) SayOnce(slot, *value, line);
  };
  const auto count = [&](SaidCount& slot, std::string_view name) {
    const auto value = DumpValue(text, name);
    const auto number = value ? CountAt(*value) : std::nullopt;
    if (number && *number > 0) SayOnce(slot, *number, line);
  };
  say(record.model, "model");
  say(record.kv_dtype_requested, "kv_cache_dtype");
  say(record.backend_requested, "attention_backend");
  say(record.speculative, "speculative_config");
  say(record.quantization, "quantization");
  count(record.max_model_len, "max_model_len");
  count(record.max_model_len, "max_seq_len");
  count(record.tensor_parallel, "tensor_parallel_size");
  count(record.kv_cache_bytes, "kv_cache_memory_bytes");
  count(record.max_num_seqs, "max_num_seqs");
  if (const auto value = DumpValue(text, "gpu_memory_utilization")) {
    if (const auto number = NumberAt(*value)) SayOnce(record.memory_fraction, *number, line);
  }
  const auto prefix = DumpValue(text, "enable_prefix_caching");
  if (prefix == "True" || prefix == "False") record.prefix_caching = prefix == "True";
}

// "--kv-cache-dtype fp8 --attention-backend=X": a command line that was pasted above its log.
bool ReadCommandLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto flag = [&](std::string_view name) -> std::optional<std::string> {
    const auto rest = After(text, name);
    if (!rest || rest->empty() || ((*rest)[0] != ' ' && (*rest)[0] != '=')) return std::nullopt;
    const std::string value = Trimmed(rest->substr(1));
    return value.substr(0, value.find_first_of(" '\",\\"));
  };
  bool any = false;
  const auto say = [&](SaidText& slot, std::string_view name) {
    const auto value = flag(name);
    if (!value || value->empty()) return;
    SayOnce(slot, *value, line);
    any = true;
  };
  say(record.kv_dtype_requested, "--kv-cache-dtype");
  say(record.backend_requested, "--attention-backend");
  say(record.backend_requested, "VLLM_ATTENTION_BACKEND");
  say(record.speculative, "--speculative-config");
  const auto count = [&](SaidCount& slot, std::string_view name) {
    const auto value = flag(name);
    const auto number = value ? CountAt(*value) : std::nullopt;
    if (!number) return;
    SayOnce(slot, *number, line);
    any = true;
  };
  count(record.max_model_len, "--max-model-len");
  count(record.tensor_parallel, "--tensor-parallel-size");
  count(record.max_num_seqs, "--max-num-seqs");
  count(record.kv_cache_bytes, "--kv-cache-memory-bytes");
  return any;
}

bool ReadConfig(std::string_view text, const LogLine& line, LogRecord& record) {
  if (Contains(text, "non-default args")) {
    ReadArguments(text, line, record);
    return true;
  }
  if (const auto version = Between(text, "LLM engine (v", ")")) {
    SayOnce(record.version, std::string(*version), line);
    ReadArguments(text, line, record);
    if (const auto dtype = DumpValue(text, "dtype")) SayOnce(record.model_dtype, *dtype, line);
    record.on_cpu = record.on_cpu || DumpValue(text, "device_config") == "cpu";
    const auto eager = DumpValue(text, "enforce_eager");
    if (eager == "True") SayOnce(record.graphs, std::string("none (enforce_eager)"), line);
    return true;
  }
  if (const auto version = After(text, "  version ")) {
    if (NumberAt(*version)) SayOnce(record.version, Trimmed(*version), line);
    return true;
  }
  if (Contains(text, "Graph capturing finished") || Contains(text, "CUDA graph memory")) {
    SayOnce(record.graphs, std::string(Message(text)), line);
    auto gib = NumberAfter(text, "Estimated CUDA graph memory: ");
    if (!gib) gib = NumberAfter(text, "secs, took ");
    if (gib) record.memory.push_back({MemoryLine::Kind::kGraphs, *gib, RankOf(text), line});
    return true;
  }
  if (const auto length = CountAfter(text, "Using max model len ")) {
    SayOnce(record.max_model_len, *length, line);
    return true;
  }
  return false;
}

bool ReadScaleLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto add = [&](ScaleNote note, std::string tensor = "") {
    record.scales.push_back({note, std::move(tensor), line});
    return true;
  };
  if (Contains(text, "Using KV cache scaling factor 1.0")) return add(ScaleNote::kUnit);
  if (Contains(text, "found in params_dict, skip") || Contains(text, "not found in params_dict")) {
    const auto name = Between(text, "arameter ", " not found");
    if (name && Contains(*name, "scale")) return add(ScaleNote::kDropped, std::string(*name));
  }
  if (Contains(text, "in the checkpoint (e.g.") && Contains(text, "not loaded")) {
    const auto name = Between(text, "(e.g. ", ")");
    return add(ScaleNote::kDropped, name ? std::string(*name) : "");
  }
  if (Contains(text, "Found kv_scale in the checkpoint")) return add(ScaleNote::kOldName);
  if (Contains(text, "provide a q scaling factor") || Contains(text, "uncalibrated q_scale")) {
    return add(ScaleNote::kQuery);
  }
  if (const auto dtype = Between(text, "Using ", " data type to store kv cache")) {
    record.kv_dtype_used.push_back({std::string(*dtype), line});
    return add(ScaleNote::kGeneral);
  }
  if (const auto dtype = Between(text, "Using ", " KV cache format for ")) {
    record.kv_dtype_used.push_back({std::string(*dtype), line});
    return true;
  }
  return false;
}

bool ReadBackendLine(std::string_view message, const LogLine& line, LogRecord& record) {
  for (const std::string_view marker :
       {" attention backend out of potential backends", " backend out of potential backends", " attention backend for",
        " attention backend."}) {
    const auto backend = Between(message, "Using ", marker);
    if (!backend || backend->find(' ') != std::string_view::npos) continue;
    record.backends.push_back({std::string(*backend), ListAt(*After(message, marker)), line});
    return true;
  }
  if (const auto backend = Between(message, "AttentionBackendEnum.", " backend")) {
    record.backends.push_back({std::string(*backend), {}, line});
    return true;
  }
  if (Contains(message, "Flash Attention backend") && Contains(message, "Using")) {
    record.backends.push_back({"FLASH_ATTN", {}, line});
    return true;
  }
  if (Contains(message, "Overriding with") || Contains(message, "precluded higher-priority backend")) {
    record.backend_changes.push_back({std::string(message), line});
    return true;
  }
  return false;
}

bool ReadPoolLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto last_pool = [&]() -> PoolLine& {
    // The older form is two lines, in this order; each worker may print its pair.
    if (record.pools.empty() || record.pools.back().concurrency) record.pools.push_back({.what = "pool", .line = line});
    return record.pools.back();
  };
  bool read = false;
  if (const auto tokens = CountAfter(text, "KV cache size: ")) {
    record.pools.push_back({.what = "pool", .tokens = *tokens, .line = line});
    record.on_cpu = record.on_cpu || Contains(text, "CPU KV cache size");
    read = true;
  }
  if (const auto rest = After(text, "Maximum concurrency for ")) {
    PoolLine& pool = last_pool();
    pool.max_model_len = CountAt(*rest);
    pool.concurrency = NumberAfter(*rest, "per request: ");
    read = true;
  }
  if (const auto blocks = CountAfter(text, "# GPU blocks: ")) {
    record.pools.push_back({.what = "pool", .blocks = *blocks, .line = line});
    read = true;
  }
  if (const auto block = CountAfter(text, "Setting attention block size to ")) {
    record.attention_block = Said<int64_t>{*block, line};
    read = true;
  }
  if (const auto percent = NumberAfter(text, "Padding mamba page size by ")) {
    record.state_padding_percent = Said<double>{*percent, line};
    read = true;
  }
  return read;
}

bool ReadMemoryLine(std::string_view text, const LogLine& line, LogRecord& record) {
  using Kind = MemoryLine::Kind;
  if (const auto gib = NumberAfter(text, "Available KV cache memory: ")) {
    record.memory.push_back({Kind::kForPool, *gib, RankOf(text), line});
    return true;
  }
  if (Contains(text, "GiB for KV cache on node")) {
    const auto gib = NumberAfter(text, "set (");
    if (gib) record.memory.push_back({Kind::kForPool, *gib, "", line});
    return true;
  }
  // "Model loading took 14.99 GiB memory and 3.1 seconds"; older: "... took 14.99 GB and ..."
  if (const auto weights = NumberAfter(text, "Model loading took ")) {
    record.memory.push_back({Kind::kWeights, *weights, RankOf(text), line});
    return true;
  }
  return Contains(text, "Model loading took") || Contains(text, "Loading weights took") ||
         Contains(text, "Starting to load model") || Contains(text, "init engine (profile");
}

bool ReadLoadLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto usage = NumberAfter(text, "KV cache usage: ");
  if (!usage || !Contains(text, "Running: ")) return false;
  LoadLine load;
  load.usage = *usage / 100.0;
  load.running = NumberAfter(text, "Running: ");
  load.waiting = NumberAfter(text, "Waiting: ");
  if (!load.waiting) load.waiting = NumberAfter(text, "Pending: ");
  load.preemptions = NumberAfter(text, "Preemptions: ");
  load.generation_tokens_s = NumberAfter(text, "generation throughput: ");
  if (const auto hits = NumberAfter(text, "Prefix cache hit rate: ")) load.prefix_hits = *hits / 100.0;
  load.line = line;
  record.load.push_back(std::move(load));
  return true;
}

bool IsSummary(const ErrorLine& error) {
  return Contains(error.message, "Engine core initialization failed") ||
         Contains(error.message, "WorkerProc initialization failed") || Contains(error.type, "EngineDead") ||
         Contains(error.message, "root cause above");
}

// After a clean shutdown the server still prints a dead engine; that is no failure of the start.
bool ReadErrorLine(std::string_view message, const LogLine& line, LogRecord& record) {
  if (Contains(message, "File \"")) return false;
  auto error = PythonError(message, line);
  if (!error || (error->message.empty() && error->type != "AssertionError" && error->type != "KeyboardInterrupt")) {
    return false;
  }
  error->summary = IsSummary(*error);
  record.errors.push_back(std::move(*error));
  return true;
}

}  // namespace

bool ReadVllmLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const std::string_view message = Message(text);
  if (ReadConfig(text, line, record) || ReadScaleLine(message, line, record) ||
      ReadBackendLine(message, line, record) || ReadPoolLine(message, line, record) ||
      ReadMemoryLine(text, line, record) || ReadLoadLine(message, line, record)) {
    return true;
  }
  return ReadErrorLine(message, line, record) || ReadCommandLine(text, line, record);
}

}  // namespace haypile
