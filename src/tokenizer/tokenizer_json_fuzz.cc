#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

// Any bytes as tokenizer.json: an error, or a tokenizer that encodes and decodes without fault.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  haypile::HuggingFaceFiles files;
  files.tokenizer_json.assign(reinterpret_cast<const char*>(data), size);
  auto spec = haypile::TokenizerSpecFromHuggingFace(files);
  if (!spec.ok()) return 0;
  auto tokenizer = haypile::Tokenizer::FromSpec(std::move(*spec));
  if (!tokenizer.ok()) return 0;
  for (const std::string& text : {std::string("ab a\xC3\xA9 12\n<s>"), files.tokenizer_json.substr(0, 256)}) {
    for (const bool parse_special : {false, true}) {
      for (const int32_t id : (*tokenizer)->Encode(text, parse_special)) {
        HAYPILE_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
        (*tokenizer)->Decode({&id, 1}, false);
      }
    }
  }
  return 0;
}
