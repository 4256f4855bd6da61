#include "base/sha256.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/interrupt.h"

namespace haypile {
namespace {

EVP_MD_CTX* Context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  HAYPILE_CHECK(context_ != nullptr);
  HAYPILE_CHECK_EQ(EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr), 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(Context(context_)); }

void Sha256::Update(std::string_view bytes) {
  HAYPILE_CHECK_EQ(EVP_DigestUpdate(Context(context_), bytes.data(), bytes.size()), 1);
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HAYPILE_CHECK_EQ(EVP_DigestFinal_ex(Context(context_), digest, &size), 1);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

Result<std::string> Sha256OfFile(const std::string& path, const std::function<void(uint64_t)>& progress) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error(code, "cannot open '" + path + "': " + std::strerror(errno));
  }
  Sha256 hash;
  std::vector<char> chunk(1 << 20);
  uint64_t done = 0;
  while (const size_t got = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    if (Interrupted()) return Error(ErrorCode::kInterrupted, "interrupted while reading '" + path + "'");
    hash.Update({chunk.data(), got});
    done += got;
    if (progress) progress(done);
  }
  if (std::ferror(file.get())) return Error(ErrorCode::kIo, "cannot read '" + path + "': " + std::strerror(errno));
  return hash.FinishHex();
}

}  // namespace haypile
