#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/header_file.h"

namespace haypile {

// A tensor as a safetensors header describes it. Unlike StoredTensor it has no data, and its dtype may be one that
// this program does not know.
struct HeaderTensor {
  std::string name;
  std::string dtype;  // as the file spells it: "BF16", "F8_E4M3"
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of the first byte, from the start of the file
  uint64_t bytes = 0;
  size_t file = 0;  // position in CheckpointHeaders::files
};

struct SafetensorsHeader {
  std::vector<HeaderTensor> tensors;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

// Parses the JSON of a header that ends at byte `data_start` of a file of `file_bytes`. kMalformed names file, tensor
// and byte: not JSON, a key twice, a range outside the file, a size that does not fit shape and dtype (known dtypes).
// Whether ranges overlap is not looked at: the loaders tell.
Result<SafetensorsHeader> ParseSafetensorsHeader(const std::string& name, std::string_view json, uint64_t data_start,
                                                 uint64_t file_bytes);

// kMalformed at `where` (a quoted file name) unless a tensor's name is UTF-8, as the format has it.
Status CheckTensorName(const std::string& where, const std::string& tensor);

// Reads length and header, nothing else.
Result<SafetensorsHeader> ReadSafetensorsHeader(const HeaderFile& file);

}  // namespace haypile
