#include "base/bytes.h"
#include "base/text.h"
#include "engines/engine_log.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

// A calibration run allocates a small pool before the real one: the last figures stand.
PoolLine& Pool(LogRecord& record, const LogLine& line) {
  if (record.pools.empty()) record.pools.push_back({.what = "pool", .line = line});
  return record.pools.back();
}

std::string RankOf(std::string_view text) {
  const auto rank = Between(text.substr(0, 120), "[RANK ", "]");
  return rank ? "rank " + std::string(*rank) : "";
}

bool ReadDtype(std::string_view text, const LogLine& line, LogRecord& record) {
  if (const auto dtype = Between(text, "against kv_cache_dtype=\"", "\"")) {
    SayOnce(record.kv_dtype_requested, std::string(*dtype), line);
    return true;
  }
  if (const auto dtype = Between(text, "KV cache quantization set to \"", "\"")) {
    SayOnce(record.kv_dtype_requested, std::string(*dtype), line);
    if (*dtype != "auto") record.kv_dtype_used.push_back({LowerCase(*dtype), line});
    return true;
  }
  if (const auto value = Between(text, "Setting kv_cache_quant_algo=", " f")) {
    record.kv_dtype_used.push_back({LowerCase(*value), line});
    return true;
  }
  if (const auto value = Between(text, "Setting quant_algo=", " f")) {
    SayOnce(record.quantization, std::string(*value), line);
    return true;
  }
  return Contains(text, "hf_quant_config.json, pre-quantized checkpoint is used");
}

bool ReadPool(std::string_view text, const LogLine& line, LogRecord& record) {
  if (const auto blocks = CountAfter(text, "Number of blocks in KV cache primary pool: ")) {
    PoolLine& pool = Pool(record, line);
    pool.blocks = *blocks;
    pool.line = line;
    if (pool.tokens_per_block) pool.tokens = *blocks * *pool.tokens_per_block;
    return true;
  }
  if (const auto tokens = CountAfter(text, "Number of tokens per block: ")) {
    PoolLine& pool = Pool(record, line);
    pool.tokens_per_block = *tokens;
    if (pool.blocks && *pool.blocks < int64_t{1} << 40 && *tokens < int64_t{1} << 20) {
      pool.tokens = *pool.blocks * *tokens;
    }
    return true;
  }
  if (const auto gib = NumberAfter(text, "Allocated "); gib && Contains(text, "paged KV cache")) {
    PoolLine& pool = Pool(record, line);
    pool.bytes = *gib * kGib;
    pool.tokens = CountAfter(text, "paged KV cache (");
    pool.line = line;
    return true;
  }
  if (const auto gib = NumberAfter(text, "KV cache manager v2 device quota set to ")) {
    PoolLine& pool = Pool(record, line);
    pool.bytes = *gib * kGib;
    pool.line = line;
    return true;
  }
  if (Contains(text, "paged kv cache: total:")) {
    const auto available = NumberAfter(text, "available: ");
    if (available) record.memory.push_back({MemoryLine::Kind::kForPool, *available, RankOf(text), line});
    return true;
  }
  for (const std::string_view known :
       {"KV cache secondary pool", "Max KV cache pages per sequence", "host cache quota set to",
        "The smaller value will be used", "exceeds upper bound", "max_gpu_total_bytes is provided",
        "Allowed quota from max_tokens"}) {
    if (Contains(text, known)) return true;
  }
  return false;
}

bool ReadLengths(std::string_view text, const LogLine& line, LogRecord& record) {
  if (const auto adjusted = CountAfter(text, "Adjusted max_seq_len to ")) {
    record.max_model_len = Said<int64_t>{*adjusted, line};
    return true;
  }
  if (!Contains(text, "max_seq_len=")) return false;
  if (const auto length = CountAfter(text, "max_seq_len=")) SayOnce(record.max_model_len, *length, line);
  if (const auto batch = CountAfter(text, "max_batch_size=")) SayOnce(record.max_num_seqs, *batch, line);
  return true;
}

}  // namespace

bool ReadTrtllmLine(std::string_view text, const LogLine& line, LogRecord& record) {
  for (const std::string_view marker : {"TensorRT-LLM version: ", "TensorRT LLM version: ", "tensorrt_llm version: "}) {
    if (const auto version = After(text, marker)) {
      SayOnce(record.version, Trimmed(*version), line);
      return true;
    }
  }
  if (ReadDtype(text, line, record) || ReadPool(text, line, record) || ReadLengths(text, line, record)) return true;
  if (Contains(text, "attn_backend")) {
    if (const auto backend = DumpValue(text, "attn_backend")) SayOnce(record.backend_requested, *backend, line);
    return true;
  }
  if (Contains(text, "TRTLLM_LOAD_KV_SCALES")) {
    record.scales.push_back({ScaleNote::kQuery, "", line});
    return true;
  }
  auto error = PythonError(text, line);
  if (!error || error->message.empty()) return false;
  record.errors.push_back(std::move(*error));
  return true;
}

}  // namespace haypile
