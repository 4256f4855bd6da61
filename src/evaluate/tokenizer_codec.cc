#include "evaluate/tokenizer_codec.h"

namespace haypile {
namespace {

std::vector<int32_t> EncodeWithStart(const Tokenizer& tokenizer, std::string_view text, bool start, bool markup) {
  std::vector<int32_t> ids = tokenizer.Encode(text, markup);
  if (start && tokenizer.bos()) ids.insert(ids.begin(), *tokenizer.bos());
  return ids;
}

}  // namespace

TextCodec TokenizerCodec(const Tokenizer& tokenizer) {
  TextCodec codec;
  codec.encode = [&tokenizer](std::string_view text, bool start) {
    return EncodeWithStart(tokenizer, text, start, /*markup=*/false);
  };
  codec.decode = [&tokenizer](std::span<const int32_t> ids) { return tokenizer.Decode(ids, /*skip_special=*/true); };
  if (!tokenizer.has_chat_template()) return codec;
  codec.encode_chat = [&tokenizer](std::string_view user_message) -> Result<std::vector<int32_t>> {
    const ChatMessage message{"user", std::string(user_message)};
    HAYPILE_TRY_ASSIGN(const std::string text, tokenizer.ApplyChatTemplate(std::span(&message, 1), true));
    return EncodeWithStart(tokenizer, text, /*start=*/true, /*markup=*/true);
  };
  return codec;
}

}  // namespace haypile
