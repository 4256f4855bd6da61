#pragma once

#include <cstdint>
#include <string>

namespace haypile {

std::string Grouped(int64_t value);         // 235074 -> "235,074"
std::string GibText(int64_t bytes);         // bytes / 2^30 rounded to two places, no trailing zeros, as vLLM prints it
std::string Decimals(double value, int n);  // fixed point with n places, round half to even as printf

}  // namespace haypile
