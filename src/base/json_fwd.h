#pragma once

#include <nlohmann/json_fwd.hpp>

namespace haypile {
using Json = nlohmann::ordered_json;
}  // namespace haypile
