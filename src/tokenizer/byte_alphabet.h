#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace haypile {

// Byte-level vocabularies write each byte as one printable character: the printable Latin-1 bytes (0x21-0x7E,
// 0xA1-0xAC, 0xAE-0xFF) as themselves, the other 68 in ascending order as U+0100, U+0101, ... (space is U+0120).
// Source: the GPT-2 tokenizer's bytes_to_unicode.
char32_t ByteToAlphabet(uint8_t byte);
std::optional<uint8_t> AlphabetToByte(char32_t code_point);

// A vocabulary entry's bytes; nothing if it holds a character outside the alphabet or is not UTF-8.
std::optional<std::string> BytesFromAlphabet(std::string_view token);
std::string AlphabetFromBytes(std::string_view bytes);

}  // namespace haypile
