#include "inspect/scale_convention.h"

#include <cmath>
#include <set>
#include <string_view>

namespace haypile {
namespace {

struct Divisor {
  std::string_view name;
  double value;
};

constexpr Divisor kDivisors[] = {
    {"amax/448", 448.0}, {"amax/2688", 2688.0}, {"amax/240", 240.0},
    {"amax/127", 127.0}, {"amax/127.5", 127.5}, {"amax/6", 6.0},
};

// How far a division and a rounding to float32 may move scale * divisor from amax, relatively.
constexpr double kRoundings = 0x1p-22;

bool HasSignificantBits(double value, int bits) {
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), bits);  // in [2^(bits-1), 2^bits)
  return std::fabs(scaled - std::round(scaled)) <= kRoundings * scaled;
}

void AddDistinct(const ScalesByLayer& by_layer, std::set<double>* values) {
  for (const auto& [layer, of_layer] : by_layer) {
    for (const double value : of_layer) {
      // Constants, and what an exporter clamped to 1.0, were not divided by anything.
      if (std::isfinite(value) && value > 0 && value != 1.0) values->insert(value);
    }
  }
}

}  // namespace

std::string DivisorOfValues(const std::vector<const FamilySummary*>& families) {
  std::set<double> values;
  for (const FamilySummary* family : families) {
    for (const std::string& dtype : family->dtypes) {
      if (dtype != "F32" && dtype != "F64") return "";
    }
    AddDistinct(family->k_values, &values);
    AddDistinct(family->v_values, &values);
  }
  for (const auto& [bits, wanted] : {std::pair(8, 2), std::pair(11, 4)}) {
    if (static_cast<int>(values.size()) < wanted) continue;
    std::string found;
    int fitting = 0;
    for (const Divisor& divisor : kDivisors) {
      bool fits = true;
      for (const double value : values) fits = fits && HasSignificantBits(value * divisor.value, bits);
      if (!fits) continue;
      found = divisor.name;
      ++fitting;
    }
    if (fitting > 0) return fitting == 1 ? found : "";
  }
  return "";
}

}  // namespace haypile
