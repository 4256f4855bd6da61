#include "spec/model_spec.h"

namespace haypile {

std::string FamilyName(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "llama";
    case ModelFamily::kQwen2:
      return "qwen2";
    case ModelFamily::kQwen3:
      return "qwen3";
    case ModelFamily::kGemma3:
      return "gemma3";
  }
  return "unknown";
}

}  // namespace haypile
