#include "tokenizer/byte_alphabet.h"

#include <array>

#include "tokenizer/utf8.h"

namespace haypile {
namespace {

constexpr int kAlphabetSize = 256 + 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> MakeForward() {
  std::array<char32_t, 256> table{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) table[byte] = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  return table;
}
constexpr std::array<char32_t, 256> kForward = MakeForward();

constexpr std::array<int16_t, kAlphabetSize> MakeBackward() {
  std::array<int16_t, kAlphabetSize> table{};
  for (auto& entry : table) entry = -1;
  for (int byte = 0; byte < 256; ++byte) table[kForward[byte]] = static_cast<int16_t>(byte);
  return table;
}
constexpr std::array<int16_t, kAlphabetSize> kBackward = MakeBackward();

}  // namespace

char32_t ByteToAlphabet(uint8_t byte) { return kForward[byte]; }

std::optional<uint8_t> AlphabetToByte(char32_t code_point) {
  if (code_point >= kAlphabetSize || kBackward[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBackward[code_point]);
}

std::optional<std::string> BytesFromAlphabet(std::string_view token) {
  std::string bytes;
  for (size_t position = 0; position < token.size();) {
    const size_t length = Utf8CharacterLength(token.substr(position));
    if (length == 0) return std::nullopt;
    const auto byte = AlphabetToByte(DecodeUtf8(token.substr(position), length));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    position += length;
  }
  return bytes;
}

std::string AlphabetFromBytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) AppendUtf8(ByteToAlphabet(static_cast<uint8_t>(byte)), &token);
  return token;
}

}  // namespace haypile
