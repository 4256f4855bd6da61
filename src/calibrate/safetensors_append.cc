#include "calibrate/safetensors_append.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace haypile {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Error IoError(const std::string& action, const std::string& path) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, "cannot " + action + " '" + path + "': " + std::strerror(errno));
}

std::string LengthBytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

// Length and header, padded with spaces so that the data begin at a multiple of 8.
std::string HeaderText(const Json& header) {
  std::string text = DumpJson(header, -1);
  text.append((8 - text.size() % 8) % 8, ' ');
  return LengthBytes(text.size()) + text;
}

// Adds the tensors' entries, the first of which begins at byte `end` of the data, and returns their bytes.
std::string AddEntries(const std::vector<F32Tensor>& tensors, uint64_t end, Json& header) {
  std::string data;
  for (const F32Tensor& tensor : tensors) {
    const uint64_t begin = end + data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", Json(tensor.shape)}, {"data_offsets", {begin, end + data.size()}}};
  }
  return data;
}

// Reads the header and leaves the file at the first byte of the data.
Result<Json> ReadHeader(std::FILE* file, const std::string& path) {
  uint8_t length_bytes[8];
  if (std::fread(length_bytes, 1, 8, file) != 8) return Error(ErrorCode::kMalformed, "'" + path + "': no header");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | length_bytes[i];
  if (length > kLongestSafetensorsHeader) return Error(ErrorCode::kMalformed, "'" + path + "': the header is too long");
  std::string text(length, '\0');
  if (std::fread(text.data(), 1, length, file) != length) {
    return Error(ErrorCode::kMalformed, "'" + path + "': the file ends within the header");
  }
  HAYPILE_TRY_ASSIGN(Json header, ParseJson(text));
  if (!header.is_object()) return Error(ErrorCode::kMalformed, "'" + path + "': the header is no JSON object");
  return header;
}

Status CopyRest(std::FILE* from, const std::string& from_path, std::FILE* to, const std::string& to_path) {
  std::vector<char> piece(1 << 20);
  while (true) {
    const size_t got = std::fread(piece.data(), 1, piece.size(), from);
    if (got == 0) break;
    if (std::fwrite(piece.data(), 1, got, to) != got) return IoError("write", to_path);
  }
  if (std::ferror(from) != 0) return IoError("read", from_path);
  return {};
}

Status WriteAppended(const std::string& from, const std::string& temporary, const std::vector<F32Tensor>& tensors) {
  const File input(std::fopen(from.c_str(), "rbe"), std::fclose);
  if (input == nullptr) return IoError("open", from);
  HAYPILE_TRY_ASSIGN(Json header, ReadHeader(input.get(), from));
  for (const F32Tensor& tensor : tensors) {
    if (header.contains(tensor.name)) {
      return Error(ErrorCode::kMalformed, "'" + from + "' holds tensor '" + tensor.name + "' already");
    }
  }
  const long data_begin = std::ftell(input.get());
  if (std::fseek(input.get(), 0, SEEK_END) != 0) return IoError("read", from);
  const long file_end = std::ftell(input.get());
  if (std::fseek(input.get(), data_begin, SEEK_SET) != 0) return IoError("read", from);
  const std::string data = AddEntries(tensors, static_cast<uint64_t>(file_end - data_begin), header);
  const std::string head = HeaderText(header);

  const File output(std::fopen(temporary.c_str(), "wbe"), std::fclose);
  if (output == nullptr) return IoError("create", temporary);
  if (std::fwrite(head.data(), 1, head.size(), output.get()) != head.size()) return IoError("write", temporary);
  HAYPILE_TRY(CopyRest(input.get(), from, output.get(), temporary));
  if (std::fwrite(data.data(), 1, data.size(), output.get()) != data.size()) return IoError("write", temporary);
  if (std::fflush(output.get()) != 0 || fsync(fileno(output.get())) != 0) return IoError("write", temporary);
  return {};
}

}  // namespace

std::string SafetensorsText(const std::vector<F32Tensor>& tensors) {
  Json header = Json::object();
  const std::string data = AddEntries(tensors, 0, header);
  return HeaderText(header) + data;
}

Status AppendToSafetensors(const std::string& from, const std::string& to, const std::vector<F32Tensor>& tensors) {
  const std::string temporary = to + ".tmp." + std::to_string(getpid());
  Status status = WriteAppended(from, temporary, tensors);
  if (status.ok() && std::rename(temporary.c_str(), to.c_str()) != 0) status = IoError("rename to", to);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace haypile
