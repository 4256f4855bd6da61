#pragma once

#include <cstddef>
#include <string_view>

namespace haypile {

// What cmake/EmbedText.cmake generates from data/text; read it through evaluation_text.h.
struct EmbeddedText {
  std::string_view name;  // the file's name without ".txt"
  std::string_view content;
};

extern const EmbeddedText kEvaluationTexts[];
extern const size_t kEvaluationTextsCount;

}  // namespace haypile
