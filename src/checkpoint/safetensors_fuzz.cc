#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/config_spec.h"
#include "checkpoint/safetensors.h"

// The bytes as a safetensors file, as a shard index and as a config.json: no crash, and tensors lie inside the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)haypile::ParseSafetensorsIndex("fuzz", text);
  (void)haypile::ModelSpecFromConfig("fuzz", text);
  const auto tensors = haypile::ParseSafetensors("fuzz", {data, size});
  if (!tensors.ok()) return 0;
  for (const haypile::StoredTensor& tensor : tensors.value()) {
    if (tensor.file_offset + tensor.bytes.size() > size) std::abort();
  }
  return 0;
}
