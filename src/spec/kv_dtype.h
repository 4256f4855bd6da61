#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/kv_format.h"

namespace haypile {

// The formats of K and of V: "nvfp4" for both, or "K/V" as in "q8_0/nvfp4_4over6".
struct KvDtype {
  KvFormat k = KvFormat::kBf16;
  KvFormat v = KvFormat::kBf16;

  bool operator==(const KvDtype&) const = default;
  // The canonical name: one name when both agree (aliases resolved).
  std::string Name() const;
};

// kInvalidArgument names the unknown part and lists the known formats.
Result<KvDtype> ParseKvDtype(std::string_view name);

}  // namespace haypile
