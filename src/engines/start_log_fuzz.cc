#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engines/doctor.h"
#include "engines/start_log.h"

// The bytes as a log: no crash, and no more lines read than there are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto log = haypile::ParseStartLog({reinterpret_cast<const char*>(data), size});
  if (!log.ok()) return 0;
  if (log->recognised > log->lines || log->unrecognised_about_cache > log->lines) std::abort();
  haypile::DoctorInput input;
  input.log = &*log;
  input.baseline = &*log;
  for (const haypile::Finding& finding : haypile::DiagnoseLog(input)) {
    if (finding.what.empty()) std::abort();
  }
  return 0;
}
