#include "formats/e4m3fnuz.h"

namespace haypile {

constexpr std::array<float, 256> kE4m3fnuzValues = [] {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t bits =
        code == 0x80u ? minifloat::kFloatQuietNan : std::bit_cast<uint32_t>(minifloat::FiniteValue<3, 8>(code & 0x7fu));
    values[code] = std::bit_cast<float>(bits | (code & 0x80u) << 24);
  }
  return values;
}();

}  // namespace haypile
