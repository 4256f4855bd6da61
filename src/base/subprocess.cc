#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>

#include "base/interrupt.h"

namespace haypile {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMilliseconds = 100;
constexpr int kTickMilliseconds = 200;
constexpr size_t kChunkBytes = 1 << 14;
constexpr int kPipeChunks = (1 << 16) / kChunkBytes;  // Linux pipes hold 64 KiB

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    Close(read_end);
    Close(write_end);
  }
  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  static void Close(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (auto& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> MergedEnvironment(const SubprocessSpec& spec) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string::npos) merged[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : spec.environment) merged[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : merged) entries.push_back(name + "=" + value);
  return entries;
}

// 0 or an errno.
int Spawn(const SubprocessSpec& spec, const Pipe& out, const Pipe& err, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> environment = MergedEnvironment(spec);
  const int status = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes, Pointers(arguments).data(),
                                  Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return status;
}

// Takes what is there to read; closes the descriptor at the end of the stream.
void Drain(int& fd, std::string& text, size_t limit) {
  char chunk[kChunkBytes];
  const ssize_t got = read(fd, chunk, sizeof(chunk));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    Pipe::Close(fd);
    return;
  }
  text.append(chunk, static_cast<size_t>(got));
  if (text.size() > limit) text.erase(0, text.size() - limit);
}

class Runner {
 public:
  Runner(const SubprocessSpec& spec, pid_t pid, Pipe& out, Pipe& err)
      : spec_(spec), pid_(pid), out_(out), err_(err), start_(Clock::now()) {}

  Result<SubprocessResult> Wait() {
    while (true) {
      if (Interrupted()) return Kill(ErrorCode::kInterrupted, "was interrupted");
      if (OverTime()) return Kill(ErrorCode::kIo, fmt::format("took longer than {} s", spec_.time_limit_seconds));
      ReadFor(kPollMilliseconds);
      Tick();
      int status = 0;
      const pid_t ended = waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) return Finish(status);
      if (ended < 0 && errno != EINTR) {
        return Error(ErrorCode::kIo, "cannot wait for '" + spec_.argv[0] + "': " + std::strerror(errno));
      }
    }
  }

 private:
  bool OverTime() const {
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    return spec_.time_limit_seconds > 0 && elapsed.count() > spec_.time_limit_seconds;
  }

  void Tick() {
    const auto now = Clock::now();
    if (!spec_.on_tick || now - last_tick_ < std::chrono::milliseconds(kTickMilliseconds)) return;
    last_tick_ = now;
    spec_.on_tick();
  }

  // Reads a chunk of each stream that has one, waiting `milliseconds` for the first. False: nothing came.
  bool ReadFor(int milliseconds) {
    pollfd fds[2] = {{out_.read_end, POLLIN, 0}, {err_.read_end, POLLIN, 0}};
    const int ready = poll(fds, 2, milliseconds);
    if (ready <= 0) return false;
    if (fds[0].revents != 0) Drain(out_.read_end, result_.output, spec_.capture_limit_bytes);
    if (fds[1].revents != 0) Drain(err_.read_end, result_.error_output, spec_.capture_limit_bytes);
    return true;
  }

  // The program has ended; what it wrote is in the pipes, which hold kPipeChunks chunks at most. A grandchild that
  // keeps them open, or goes on writing, is not waited for.
  SubprocessResult Finish(int status) {
    for (int i = 0; i < 2 * kPipeChunks && ReadFor(0); ++i) {
    }
    result_.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return std::move(result_);
  }

  Error Kill(ErrorCode code, const std::string& why) {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    return Error(code, "'" + spec_.argv[0] + "' " + why);
  }

  const SubprocessSpec& spec_;
  pid_t pid_;
  Pipe& out_;
  Pipe& err_;
  Clock::time_point start_, last_tick_;
  SubprocessResult result_;
};

}  // namespace

Result<SubprocessResult> RunSubprocess(const SubprocessSpec& spec) {
  HAYPILE_CHECK(!spec.argv.empty());
  Pipe out, err;
  if (!out.Open() || !err.Open()) {
    return Error(ErrorCode::kIo, std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  pid_t pid = -1;
  if (const int status = Spawn(spec, out, err, pid); status != 0) {
    const ErrorCode code = status == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error(code, "cannot run '" + spec.argv[0] + "': " + std::strerror(status));
  }
  Pipe::Close(out.write_end);
  Pipe::Close(err.write_end);
  return Runner(spec, pid, out, err).Wait();
}

std::string LastLines(const std::string& text, int count) {
  std::string lines;
  size_t end = text.size();
  while (count > 0 && end > 0) {
    const size_t newline = text.rfind('\n', end - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const std::string line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      lines = lines.empty() ? line : line + "\n" + lines;
      --count;
    }
    end = newline == std::string::npos ? 0 : newline;
  }
  return lines;
}

}  // namespace haypile
