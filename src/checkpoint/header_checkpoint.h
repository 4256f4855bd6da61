#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/header_file.h"
#include "checkpoint/header_safetensors.h"

namespace haypile {

// A tensor that lies in more than one file; `used` is the one that the index names.
struct SupersededTensor {
  std::string name;
  std::string used;
  std::vector<std::string> ignored;
};

// All safetensors headers of a folder, and how they agree with model.safetensors.index.json.
struct CheckpointHeaders {
  std::string folder;
  std::vector<std::string> files;     // file names whose headers were read
  std::vector<HeaderTensor> tensors;  // one of each name, by name: the one in force
  bool has_index = false;
  size_t indexed_tensors = 0;
  std::vector<std::string> indexed_files;               // that the index names
  std::vector<std::string> missing_files;               // of those, not on disk
  std::vector<std::string> unindexed_files;             // on disk, not named by the index; read all the same
  std::vector<std::string> unread_files;                // a second copy in another layout (consolidated*): not read
  std::map<std::string, std::string> unreadable_files;  // unindexed and broken: name and what is wrong
  // The index names files or places that are not so, but the files on disk cover all of its tensors.
  bool stale_index = false;
  size_t misplaced_tensors = 0;                // in another file than the index says
  std::vector<std::string> unindexed_tensors;  // loaders that follow the index do not see them
  std::vector<SupersededTensor> superseded;
  std::map<std::string, std::string> metadata;  // of the first file
};

// Reads index and headers; of the data nothing. kNotFound: no safetensors file, or a shard that the index names is
// missing with tensors that no other file holds. kMalformed: a broken index or header, a tensor that the index names
// and no file holds, a tensor twice where no index says which counts.
Result<CheckpointHeaders> ReadCheckpointHeaders(const std::string& folder, ReadCount* count);

// The whole of a small file, counted.
Result<std::string> ReadSmallFile(const std::string& path, uint64_t limit_bytes, ReadCount* count);

}  // namespace haypile
