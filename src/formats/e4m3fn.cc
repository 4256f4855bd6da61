#include "formats/e4m3fn.h"

namespace haypile {

constexpr std::array<float, 256> kE4m3fnValues = [] {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t magnitude = code & 0x7fu;
    const uint32_t bits = magnitude == 0x7fu ? minifloat::kFloatQuietNan
                                             : std::bit_cast<uint32_t>(minifloat::FiniteValue<3, 7>(magnitude));
    values[code] = std::bit_cast<float>(bits | (code & 0x80u) << 24);
  }
  return values;
}();

}  // namespace haypile
