#include "version.h"

namespace haypile {

const char* const kVersion = HAYPILE_VERSION;
const char* const kCommit = HAYPILE_COMMIT;

}  // namespace haypile
