#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace haypile {

// SHA-256 (FIPS 180-4) of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  // 64 lower-case hexadecimal digits; the object takes no more bytes afterwards.
  std::string FinishHex();

 private:
  void* context_;  // EVP_MD_CTX, kept out of the header
};

std::string Sha256Hex(std::string_view bytes);

// Digest of a file, read in pieces. `progress`, if given, hears the bytes read so far. kNotFound, kIo, kInterrupted.
Result<std::string> Sha256OfFile(const std::string& path,
                                 const std::function<void(uint64_t done_bytes)>& progress = {});

}  // namespace haypile
