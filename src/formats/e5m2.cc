#include "formats/e5m2.h"

namespace haypile {

constexpr std::array<float, 256> kE5m2Values = [] {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t magnitude = code & 0x7fu;
    uint32_t bits = std::bit_cast<uint32_t>(minifloat::FiniteValue<2, 15>(magnitude));
    if (magnitude == 0x7cu) bits = minifloat::kFloatInf;
    if (magnitude > 0x7cu) bits = minifloat::kFloatQuietNan;
    values[code] = std::bit_cast<float>(bits | (code & 0x80u) << 24);
  }
  return values;
}();

}  // namespace haypile
