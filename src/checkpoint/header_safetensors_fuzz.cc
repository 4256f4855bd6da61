#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/header_safetensors.h"
#include "checkpoint/kv_scale_name.h"
#include "checkpoint/safetensors.h"

// The bytes as a shard index and as a header: no crash, tensors lie inside the file, and names are read without harm.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = haypile::ParseSafetensorsIndex("fuzz", text);
  if (index.ok()) {
    for (const auto& [tensor, shard] : index.value()) {
      if (shard.empty() || shard.find('/') != std::string::npos) std::abort();
      (void)haypile::ParseKvScaleName(tensor);
    }
  }
  constexpr uint64_t kDataBytes = 4096;
  const auto header = haypile::ParseSafetensorsHeader("fuzz", text, 8 + size, 8 + size + kDataBytes);
  if (!header.ok()) return 0;
  for (const haypile::HeaderTensor& tensor : header->tensors) {
    if (tensor.offset < 8 + size || tensor.bytes > kDataBytes || tensor.offset + tensor.bytes > 8 + size + kDataBytes) {
      std::abort();
    }
    (void)haypile::ParseKvScaleName(tensor.name);
  }
  return 0;
}
