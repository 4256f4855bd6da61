#include "spec/kv_dtype.h"

namespace haypile {
namespace {

Result<KvFormat> ParsePart(std::string_view part, std::string_view whole) {
  if (const auto format = KvFormatByName(part)) return *format;
  return Error(ErrorCode::kInvalidArgument, "unknown KV cache dtype '" + std::string(part) + "' in '" +
                                                std::string(whole) + "'; known: " + KvFormatNames() +
                                                ", or K/V as in q8_0/nvfp4_4over6");
}

}  // namespace

std::string KvDtype::Name() const {
  const std::string k_name(InfoOf(k).name);
  return k == v ? k_name : k_name + "/" + std::string(InfoOf(v).name);
}

Result<KvDtype> ParseKvDtype(std::string_view name) {
  const size_t slash = name.find('/');
  KvDtype dtype;
  HAYPILE_TRY_ASSIGN(dtype.k, ParsePart(name.substr(0, slash), name));
  if (slash == std::string_view::npos) {
    dtype.v = dtype.k;
    return dtype;
  }
  HAYPILE_TRY_ASSIGN(dtype.v, ParsePart(name.substr(slash + 1), name));
  return dtype;
}

}  // namespace haypile
