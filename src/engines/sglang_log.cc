#include <algorithm>

#include "base/bytes.h"
#include "engines/engine_log.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

// "[2026-08-01 10:00:00 TP1] words" -> "TP1".
std::string RankOf(std::string_view text) {
  const auto prefix = Between(text.substr(0, 80), "[", "]");
  if (!prefix) return "";
  const size_t at = prefix->find("TP");
  if (at == std::string_view::npos) return "";
  return std::string(prefix->substr(at, prefix->find(' ', at) - at));
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
  say(record.model, "model_path");
  say(record.kv_dtype_requested, "kv_cache_dtype");
  say(record.backend_requested, "attention_backend");
  say(record.quantization, "quantization");
  say(record.speculative, "speculative_algorithm");
  count(record.tensor_parallel, "tp_size");
  count(record.max_model_len, "context_length");
  count(record.max_total_tokens_asked, "max_total_tokens");
  count(record.max_num_seqs, "max_running_requests");
  if (const auto value = DumpValue(text, "mem_fraction_static")) {
    if (const auto number = NumberAt(*value)) SayOnce(record.memory_fraction, *number, line);
  }
  const auto radix = DumpValue(text, "disable_radix_cache");
  if (radix == "True" || radix == "False") record.prefix_caching = radix == "False";
}

bool ReadCommandLine(std::string_view text, const LogLine& line, LogRecord& record) {
  bool any = false;
  const auto flag = [&](std::string_view name) -> std::string {
    const auto rest = After(text, name);
    if (!rest || rest->empty() || ((*rest)[0] != ' ' && (*rest)[0] != '=')) return "";
    const std::string value = Trimmed(rest->substr(1));
    any = true;
    return value.substr(0, value.find_first_of(" '\",\\"));
  };
  const auto say = [&](SaidText& slot, std::string_view name) {
    if (const std::string value = flag(name); !value.empty()) SayOnce(slot, value, line);
  };
  const auto count = [&](SaidCount& slot, std::string_view name) {
    if (const auto value = CountAt(flag(name))) SayOnce(slot, *value, line);
  };
  say(record.kv_dtype_requested, "--kv-cache-dtype");
  say(record.backend_requested, "--attention-backend");
  say(record.speculative, "--speculative-algorithm");
  say(record.speculative, "--speculative-algo");
  count(record.max_total_tokens_asked, "--max-total-tokens");
  count(record.max_num_seqs, "--max-running-requests");
  count(record.max_model_len, "--context-length");
  count(record.tensor_parallel, "--tp-size");
  count(record.tensor_parallel, "--tp");
  if (const auto value = NumberAt(flag("--mem-fraction-static"))) SayOnce(record.memory_fraction, *value, line);
  return any;
}

bool ReadPoolLine(std::string_view text, const LogLine& line, LogRecord& record) {
  if (Contains(text, "KV Cache is allocated")) {
    PoolLine pool{.what = "pool", .line = line};
    pool.tokens = CountAfter(text, "#tokens: ");
    if (const auto dtype = DumpValue(text, "dtype")) {
      pool.dtype = *dtype;
      record.kv_dtype_used.push_back({*dtype, line});
    }
    const auto k = NumberAfter(text, "K size: "), v = NumberAfter(text, "V size: ");
    const auto both = NumberAfter(text, "KV size: ");
    if (both) {
      pool.bytes = *both * kGib;
    } else if (k && v) {
      pool.k_bytes = *k * kGib;
      pool.v_bytes = *v * kGib;
      pool.bytes = *pool.k_bytes + *pool.v_bytes;
    }
    record.pools.push_back(std::move(pool));
    return true;
  }
  if (Contains(text, "Mamba Cache is allocated")) {
    PoolLine pool{.what = "state", .line = line};
    pool.blocks = CountAfter(text, "max_mamba_cache_size: ");
    const auto conv = NumberAfter(text, "conv_state size: "), ssm = NumberAfter(text, "ssm_state size: ");
    if (conv && ssm) pool.bytes = (*conv + *ssm) * kGib;
    record.pools.push_back(std::move(pool));
    return true;
  }
  if (const auto tokens = CountAfter(text, "full_layer_tokens=")) {
    record.pools.push_back({.what = "full", .tokens = *tokens, .line = line});
    if (const auto window = CountAfter(text, "swa_layer_tokens=")) {
      record.pools.push_back({.what = "sliding window", .tokens = *window, .line = line});
    }
    return true;
  }
  const auto total = CountAfter(text, "max_total_num_tokens=");
  if (!total) return false;
  PoolLine pool{.what = "scheduler", .tokens = *total, .line = line};
  pool.max_model_len = CountAfter(text, "context_len=");
  if (pool.max_model_len && *pool.max_model_len > 0) {
    pool.concurrency = static_cast<double>(*total) / static_cast<double>(*pool.max_model_len);
    SayOnce(record.max_model_len, *pool.max_model_len, line);
  }
  if (const auto free = NumberAfter(text, "available_gpu_mem=")) {
    record.memory.push_back({MemoryLine::Kind::kFreeAtEnd, *free, RankOf(text), line});
  }
  record.pools.push_back(std::move(pool));
  return true;
}

bool ReadMemoryLine(std::string_view text, const LogLine& line, LogRecord& record) {
  using Kind = MemoryLine::Kind;
  const auto memory = NumberAfter(text, "avail mem=");
  if (!memory) return false;
  const Kind kind = Contains(text, "Load weight begin") ? Kind::kBeforeWeights
                    : Contains(text, "Load weight end") ? Kind::kAfterWeights
                                                        : Kind::kFreeAtEnd;
  record.memory.push_back({kind, *memory, RankOf(text), line});
  if (const auto graphs = Between(text, "Capture ", "."); graphs && Contains(text, "graph end")) {
    SayOnce(record.graphs, "Capture " + std::string(*graphs), line);
  }
  if (const auto dtype = DumpValue(text, "dtype"); dtype && kind == Kind::kAfterWeights) {
    SayOnce(record.model_dtype, *dtype, line);
  }
  return true;
}

bool ReadScaleLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto add = [&](ScaleNote note, std::string tensor = "") {
    record.scales.push_back({note, std::move(tensor), line});
    return true;
  };
  if (Contains(text, "no scaling factors provided")) return add(ScaleNote::kNoFile);
  if (Contains(text, "Loaded KV cache scaling factors")) return add(ScaleNote::kLoaded);
  if (Contains(text, "Defaulting to KV cache scaling factors = 1.0")) return add(ScaleNote::kFileError);
  if (Contains(text, "not found in params_dict") && Contains(text, "scale")) {
    const auto name = Between(text, "arameter ", " not found");
    return add(ScaleNote::kDropped, name ? std::string(*name) : "");
  }
  if (const auto dtype = After(text, "Using KV cache dtype: ")) {
    record.kv_dtype_used.push_back({Trimmed(*dtype), line});
    return true;
  }
  return false;
}

bool ReadBackendLine(std::string_view text, const LogLine& line, LogRecord& record) {
  if (const auto backend = Between(text, "Attention backend not specified. Use ", " backend")) {
    record.backends.push_back({std::string(*backend), {}, line});
    return true;
  }
  if (const auto backend = After(text, "etting attention backend to ")) {
    const std::string name(backend->substr(0, backend->find_first_of(" .,;")));
    record.backends.push_back({name, {}, line});
    record.backend_changes.push_back({Trimmed(text), line});
    return true;
  }
  if (const auto dtype = Between(text, "overriding KV cache dtype ", " (")) {
    record.backend_changes.push_back({Trimmed(text), line});
    return true;
  }
  return false;
}

bool ReadLoadLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto usage = NumberAfter(text, "token usage: ");
  if (!usage) return false;
  LoadLine load;
  load.usage = *usage;
  load.running = NumberAfter(text, "#running-req: ");
  load.waiting = NumberAfter(text, "#queue-req: ");
  load.generation_tokens_s = NumberAfter(text, "gen throughput (token/s): ");
  load.line = line;
  record.load.push_back(std::move(load));
  return true;
}

bool ReadErrorLine(std::string_view text, const LogLine& line, LogRecord& record) {
  if (Contains(text, "exceeds the maximum allowed length")) {
    record.errors.push_back({"", Trimmed(text), false, line});
    return true;
  }
  if (Contains(text, "KV cache pool is full. Retract requests")) {
    if (record.load.empty()) {  // "is full", and no line of load yet
      LoadLine full;
      full.usage = 1.0;
      full.line = line;
      record.load.push_back(std::move(full));
    }
    LoadLine& load = record.load.back();
    load.preemptions = load.preemptions.value_or(0.0) + NumberAfter(text, "#retracted_reqs: ").value_or(1.0);
    return true;
  }
  auto error = PythonError(text, line);
  if (!error || error->message.empty()) return false;
  record.errors.push_back(std::move(*error));
  return true;
}

}  // namespace

bool ReadSglangLine(std::string_view text, const LogLine& line, LogRecord& record) {
  if (Contains(text, "server_args=") || Contains(text, "ServerArgs(")) {
    ReadArguments(text, line, record);
    return true;
  }
  for (const std::string_view marker : {"sglang version ", "sglang==", "sglang v", "SGLang v", "SGLang version "}) {
    const auto version = After(text, marker);
    if (version && NumberAt(*version)) {
      SayOnce(record.version, std::string(version->substr(0, version->find_first_of(" ,;)"))), line);
      return true;
    }
  }
  return ReadPoolLine(text, line, record) || ReadMemoryLine(text, line, record) || ReadScaleLine(text, line, record) ||
         ReadBackendLine(text, line, record) || ReadLoadLine(text, line, record) || ReadErrorLine(text, line, record) ||
         ReadCommandLine(text, line, record);
}

}  // namespace haypile
