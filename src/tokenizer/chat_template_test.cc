#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

using Messages = std::vector<ChatMessage>;

const Messages kTurns = {{"user", " Hi "}, {"assistant", "Hello"}, {"user", "Bye"}};
const Messages kWithSystem = {{"system", "Be brief."}, {"user", "Hi"}};

std::string Render(std::string_view source, const Messages& messages, bool prompt = true) {
  auto result = ChatTemplate::Recognize(source).Render(messages, prompt, "<s>", "</s>");
  return result.ok() ? *result : "error: " + result.error().message();
}

// Each source has the parts of the family's template that decide how it renders.
constexpr std::string_view kPlainChatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}";
constexpr std::string_view kQwen25 =
    R"({%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }})"
    R"({%- else %}{{- '<|im_start|>system\nYou are Qwen.<|im_end|>\n' }}{%- endif %})";
constexpr std::string_view kQwen3 =
    R"({{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- set ns = namespace(last_query_index=0) %})"
    R"({%- if '</think>' in content %}{%- endif %})";
constexpr std::string_view kLlama30 =
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
    "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}";
constexpr std::string_view kLlama31 =
    "{{- bos_token }}{%- set date_string = \"26 Jul 2024\" %}{{- \"<|start_header_id|>system<|end_header_id|>\" }}"
    "{{- \"Cutting Knowledge Date: December 2023\\n\" }}{{ message['content'] | trim }}";
constexpr std::string_view kMistralV3 =
    R"({{- bos_token }}{%- if loop.last and system_message is defined %}{{- "[INST] " + system_message + "\n\n" + )"
    R"(message["content"] + "[/INST]" }}{%- else %}{{- "[INST] " + message["content"] + "[/INST]" }})"
    R"({{- " " + message["content"]|trim + eos_token}})";
constexpr std::string_view kMistralV1 =
    "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token + ' ' }}";
constexpr std::string_view kMistralV7 =
    R"({%- set default_system_message = "It is " + today %}{{- "[SYSTEM_PROMPT]" + system_message + )"
    R"("[/SYSTEM_PROMPT]" }}{{- "[INST]" + message["content"] + "[/INST]" }}{{- message["content"] + eos_token }})";
constexpr std::string_view kGemma2 = "{{ bos_token }}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim }}";
constexpr std::string_view kGemma3 =
    "{{ bos_token }}{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{{ '<start_of_turn>' + role }}";

TEST(ChatTemplate, Chatml) {
  EXPECT_EQ(
      Render(kPlainChatml, kTurns),
      "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
      "<|im_start|>assistant\n");
  EXPECT_EQ(Render(kPlainChatml, {{"user", "x"}}, false), "<|im_start|>user\nx<|im_end|>\n");
}

TEST(ChatTemplate, ChatmlDefaultSystemMessage) {
  EXPECT_EQ(Render(kQwen25, {{"user", "Hi"}}, false),
            "<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(Render(kQwen25, kWithSystem, false),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplate, Qwen3LeavesOutEarlierReasoning) {
  const Messages messages = {{"user", "1"}, {"assistant", "<think>\nhm\n</think>\n\nA"}, {"user", "2"}};
  EXPECT_EQ(Render(kQwen3, messages, false),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\n2<|im_end|>\n");
  EXPECT_NE(Render(kPlainChatml, messages, false).find("<think>"), std::string::npos);
}

TEST(ChatTemplate, Llama3) {
  EXPECT_EQ(Render(kLlama30, {{"user", " Hi "}}),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(Render(kLlama31, kWithSystem, false),
            "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
}

TEST(ChatTemplate, Mistral) {
  EXPECT_EQ(Render(kMistralV3, kTurns), "<s>[INST]  Hi [/INST] Hello</s>[INST] Bye[/INST]");
  EXPECT_EQ(Render(kMistralV3, kWithSystem), "<s>[INST] Be brief.\n\nHi[/INST]");
  EXPECT_EQ(Render(kMistralV1, kTurns), "<s>[INST]  Hi  [/INST]Hello</s> [INST] Bye [/INST]");
  EXPECT_EQ(Render(kMistralV7, kWithSystem), "[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]");
  EXPECT_EQ(ChatTemplate::Recognize(kMistralV7).Render(kTurns, true, "", "").error().code(), ErrorCode::kUnsupported);
}

TEST(ChatTemplate, Gemma) {
  EXPECT_EQ(Render(kGemma2, kTurns),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(Render(kGemma3, kWithSystem, false), "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n");
}

TEST(ChatTemplate, RefusesWhatTheTemplatesRefuse) {
  for (const auto source : {kMistralV1, kGemma2}) {
    const auto system = ChatTemplate::Recognize(source).Render(kWithSystem, true, "", "");
    ASSERT_FALSE(system.ok());
    EXPECT_EQ(system.error().code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(
      Render(kGemma3, {{"user", "a"}, {"user", "b"}}),
      "error: messages do not fit this model's chat template (gemma): message 2 after the system message has role "
      "'user' where 'assistant' must stand");
}

TEST(ChatTemplate, UnknownFamilyIsUnsupported) {
  for (const std::string_view source : {"{{ messages }}", "[INST] <<SYS>>", ""}) {
    const auto result = ChatTemplate::Recognize(source).Render(kTurns, true, "", "");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace haypile
