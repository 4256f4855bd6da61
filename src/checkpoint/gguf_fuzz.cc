#include <cstdint>
#include <cstdlib>
#include <string>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_spec.h"

// A GGUF file from anywhere: no crash, and whatever parses can be read through every accessor.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = haypile::GgufFile::Parse("fuzz", {data, size});
  if (!file.ok()) return 0;
  const haypile::GgufFile& gguf = *file.value();
  for (const char* key : {"general.alignment", "general.architecture", "a", "b", "llama.rope.freq_base"}) {
    if (!gguf.Has(key)) continue;
    (void)gguf.GetString(key);
    (void)gguf.GetInt(key);
    (void)gguf.GetFloat(key);
    (void)gguf.GetBool(key);
    (void)gguf.GetStringArray(key);
    (void)gguf.GetIntArray(key);
    (void)gguf.GetFloatArray(key);
  }
  uint64_t sum = 0;
  for (const haypile::StoredTensor& tensor : gguf.tensors()) {
    if (tensor.bytes.empty() || gguf.FindTensor(tensor.name) != &tensor) std::abort();
    sum += tensor.bytes.front() + tensor.bytes.back();
  }
  (void)haypile::ModelSpecFromGguf(gguf);
  return sum == UINT64_MAX ? 1 : 0;
}
