#pragma once

#include <sstream>
#include <string>

namespace haypile {

// Prints the failed condition with its place and aborts. Only for mistakes of the programmer: input never gets here.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line, const std::string& values);

namespace internal {
template <typename A, typename B>
std::string BothValues(const A& a, const B& b) {
  std::ostringstream out;
  out << " (" << +a << " vs " << +b << ")";
  return out.str();
}
}  // namespace internal
}  // namespace haypile

#define HAYPILE_CHECK(condition)                                                  \
  do {                                                                            \
    if (!(condition)) ::haypile::CheckFailed(#condition, __FILE__, __LINE__, ""); \
  } while (false)

#define HAYPILE_CHECK_OP(a, op, b)                                                   \
  do {                                                                               \
    const auto& haypile_a = (a);                                                     \
    const auto& haypile_b = (b);                                                     \
    if (!(haypile_a op haypile_b))                                                   \
      ::haypile::CheckFailed(#a " " #op " " #b, __FILE__, __LINE__,                  \
                             ::haypile::internal::BothValues(haypile_a, haypile_b)); \
  } while (false)

#define HAYPILE_CHECK_EQ(a, b) HAYPILE_CHECK_OP(a, ==, b)
#define HAYPILE_CHECK_LE(a, b) HAYPILE_CHECK_OP(a, <=, b)
#define HAYPILE_CHECK_LT(a, b) HAYPILE_CHECK_OP(a, <, b)
