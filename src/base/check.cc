#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace haypile {

void CheckFailed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "haypile: check failed at %s:%d: %s%s\n", file, line, condition, values.c_str());
  std::abort();
}

}  // namespace haypile
