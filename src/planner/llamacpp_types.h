#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace haypile {

// A type that llama.cpp can store K or V in.
struct LlamacppType {
  std::string_view name;   // as in -ctk, -ctv and the log
  int block_elements = 1;  // elements that share one scale; 1: no scales
  int block_bytes = 0;     // elements and scales of one block

  bool quantized() const { return block_elements > 1; }
  // Bytes of a row of `elements`, a multiple of block_elements.
  int64_t RowBytes(int64_t elements) const { return elements / block_elements * block_bytes; }
};

// Empty for a name that -ctk does not take. "auto" is f16; "fp16", "fp32" and "bfloat16" are taken for their short
// names, so that one list of dtypes serves several engines.
std::optional<LlamacppType> FindLlamacppType(std::string_view name);
std::string LlamacppTypeNames();  // "f32, f16, bf16, ..." for messages

}  // namespace haypile
