#include "evaluate/evaluation_text.h"

#include "evaluate/embedded_text.h"

namespace haypile {

std::vector<std::string_view> EvaluationTextNames() {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kEvaluationTextsCount; ++i) names.push_back(kEvaluationTexts[i].name);
  return names;
}

std::string_view EvaluationText(std::string_view name) {
  for (size_t i = 0; i < kEvaluationTextsCount; ++i) {
    if (kEvaluationTexts[i].name == name) return kEvaluationTexts[i].content;
  }
  return {};
}

}  // namespace haypile
