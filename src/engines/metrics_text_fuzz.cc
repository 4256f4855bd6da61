#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engines/doctor.h"
#include "engines/metrics_text.h"

// The bytes as metrics text: no crash, and always an answer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto samples = haypile::ParseMetricsText({reinterpret_cast<const char*>(data), size});
  if (samples.ok() && haypile::DiagnoseMetrics(haypile::PoolMetricsOf(*samples)).empty()) std::abort();
  return 0;
}
