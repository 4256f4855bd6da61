#include "compare/state_store.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"

namespace haypile {
namespace {

constexpr const char* kSchema = "haypile.compare_state/1";

}  // namespace

struct StateStore::Content {
  Json json;
};

StateStore::StateStore(std::string path, std::string key)
    : path_(std::move(path)), content_(std::make_unique<Content>()) {
  content_->json = Json{{"schema", kSchema}, {"key", key}, {"steps", Json::object()}};
  if (path_.empty()) return;
  const auto text = ReadFile(path_);
  if (!text.ok()) return;
  auto stored = ParseJson(*text);
  if (!stored.ok() || !stored->is_object() || stored->value("schema", "") != kSchema) return;
  if (stored->value("key", "") != key || !stored->contains("steps") || !(*stored)["steps"].is_object()) return;
  content_->json = std::move(*stored);
}

StateStore::StateStore(StateStore&&) noexcept = default;
StateStore::~StateStore() = default;

const Json* StateStore::Find(const std::string& step) const {
  const Json& steps = content_->json["steps"];
  const auto found = steps.find(step);
  return found == steps.end() ? nullptr : &*found;
}

Status StateStore::Put(const std::string& step, Json payload) {
  content_->json["steps"][step] = std::move(payload);
  if (path_.empty()) return {};
  std::error_code ignored;  // the write below reports what is wrong
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  return WriteFileAtomic(path_, DumpJson(content_->json, -1));
}

size_t StateStore::finished_steps() const { return content_->json["steps"].size(); }

void StateStore::Remove() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace haypile
