#include "base/bytes.h"
#include "base/text.h"
#include "engines/engine_log.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

// The type in "K (q8_0):   6.38 MiB", and its bytes.
struct Side {
  std::string type;
  std::optional<double> bytes;
};
std::optional<Side> SideOf(std::string_view text, std::string_view marker) {
  const auto rest = After(text, marker);
  if (!rest) return std::nullopt;
  const size_t end = rest->find(')');
  if (end == std::string_view::npos || end > 16) return std::nullopt;
  Side side{std::string(rest->substr(0, end)), std::nullopt};
  if (const auto mib = NumberAfter(rest->substr(end), "):")) side.bytes = *mib * kMib;
  return side;
}

// "size =   50.62 MiB (  4096 cells,  30 layers,  2/2 seqs), K (q4_0): 25.31 MiB, V (q4_0): 25.31 MiB"; older builds
// leave cells, layers and seqs out.
bool ReadCacheLine(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto k = SideOf(text, "K ("), v = SideOf(text, "V (");
  if (!k) return false;
  PoolLine pool{.what = "pool", .line = line};
  for (const std::string_view marker : {"size = ", "size: "}) {
    if (const auto mib = NumberAfter(text, marker)) pool.bytes = *mib * kMib;
  }
  if (const auto body = Between(text, "MiB (", ")")) {
    pool.tokens = CountAt(*body);
    pool.layers = CountAfter(*body, "cells,");
    pool.streams = CountAfter(*body, "layers,");
  }
  pool.dtype = v && v->type != k->type ? k->type + "/" + v->type : k->type;
  pool.k_bytes = k->bytes;
  if (v) pool.v_bytes = v->bytes;
  record.kv_dtype_used.push_back({pool.dtype, line});
  // Two caches of one model: the line before each says which one is coming.
  if (!record.pools.empty() && record.pools.back().line.number == 0) {
    pool.what = record.pools.back().what;
    record.pools.back() = std::move(pool);
  } else {
    record.pools.push_back(std::move(pool));
  }
  return true;
}

bool ReadContext(std::string_view text, const LogLine& line, LogRecord& record) {
  const auto value = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto rest = After(text, name);
    if (!rest) return std::nullopt;
    const size_t equals = rest->find_first_not_of(' ');
    if (equals == std::string_view::npos || (*rest)[equals] != '=') return std::nullopt;
    return rest->substr(equals + 1);
  };
  const auto count = [&](SaidCount& slot, std::string_view name) {
    const auto said = value(name);
    const auto number = said ? CountAt(*said) : std::nullopt;
    if (number) SayOnce(slot, *number, line);
    return number.has_value();
  };
  if (const auto said = value("flash_attn")) {
    SayOnce(record.flash_attention, Trimmed(*said), line);
    return true;
  }
  return count(record.max_model_len, ": n_ctx_seq") || count(record.max_num_seqs, "n_seq_max") ||
         count(record.head_dim, "n_embd_head_k") || count(record.query_heads, ": n_head ") ||
         count(record.kv_heads, "n_head_kv") || count(record.layers, ": n_layer ");
}

// A cache type asked for on a command line above the log.
bool ReadCommandLine(std::string_view text, const LogLine& line, LogRecord& record) {
  std::string k, v;
  const auto flag = [&](std::string_view name, std::string& slot) {
    const auto rest = After(text, name);
    if (!rest || rest->empty() || ((*rest)[0] != ' ' && (*rest)[0] != '=')) return;
    const std::string value = Trimmed(rest->substr(1));
    slot = value.substr(0, value.find_first_of(" '\",\\"));
  };
  flag("--cache-type-k", k);
  flag("-ctk", k);
  flag("--cache-type-v", v);
  flag("-ctv", v);
  if (k.empty() && v.empty()) return false;
  if (k.empty()) k = "f16";
  if (v.empty()) v = "f16";
  SayOnce(record.kv_dtype_requested, k == v ? k : k + "/" + v, line);
  return true;
}

bool ReadError(std::string_view text, const LogLine& line, LogRecord& record) {
  for (const std::string_view words :
       {"requires Flash Attention", "requires flash_attn", "forcing off", "failed to create context",
        "failed to allocate buffer for kv cache", "failed to initialize the context", "GGML_ASSERT", "ggml_abort",
        "unsupported cache type", "Unsupported cache type", "failed to load model", "not divisible by the block size",
        "not a multiple of"}) {
    if (!ContainsNoCase(text, LowerCase(words))) continue;
    const bool summary = Contains(words, "failed to create context") || Contains(words, "failed to initialize") ||
                         Contains(words, "failed to load");
    record.errors.push_back({"", Trimmed(text), summary, line});
    return true;
  }
  return false;
}

}  // namespace

bool ReadLlamacppLine(std::string_view text, const LogLine& line, LogRecord& record) {
  for (const std::string_view marker : {"print_info: build ", "build: "}) {
    const auto build = CountAfter(text, marker);
    if (build) {
      SayOnce(record.version, "b" + std::to_string(*build), line);
      return true;
    }
  }
  if (Contains(text, "creating non-SWA KV cache") || Contains(text, "creating     SWA KV cache")) {
    const bool window = Contains(text, "creating     SWA");
    record.pools.push_back({.what = window ? "sliding window" : "full", .line = {}});
    return true;
  }
  if (const auto model = Between(text, "loading model '", "'")) {
    SayOnce(record.model, std::string(*model), line);
    return true;
  }
  if (Contains(text, "CPU KV buffer size")) {
    record.on_cpu = true;
    return true;
  }
  if (ReadError(text, line, record) || ReadCacheLine(text, line, record) || ReadContext(text, line, record))
    return true;
  for (const std::string_view known : {"attn_rot_", "KV buffer size", "kv_unified", "compute buffer size"}) {
    if (Contains(text, known)) return true;
  }
  return ReadCommandLine(text, line, record);
}

}  // namespace haypile
