#pragma once

#include <memory>
#include <string>

#include "base/json_fwd.h"
#include "base/result.h"

namespace haypile {

// What a comparison has finished so far, in one file, so that a stopped or killed run resumes. Steps are named; a
// step's payload is JSON of its own making. The file is rewritten atomically after every step.
class StateStore {
 public:
  // `key` names everything that results depend on (model, options, program version, machine); a file of another key, or
  // one that cannot be read, counts as empty. An empty path keeps the state in memory only.
  StateStore(std::string path, std::string key);
  StateStore(StateStore&&) noexcept;
  ~StateStore();

  // Null when the step is not done.
  const Json* Find(const std::string& step) const;
  Status Put(const std::string& step, Json payload);
  size_t finished_steps() const;
  // Removes the file: the comparison is complete.
  void Remove();

 private:
  struct Content;
  std::string path_;
  std::unique_ptr<Content> content_;
};

}  // namespace haypile
