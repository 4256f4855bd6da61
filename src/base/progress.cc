#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace haypile {
namespace {

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace

Progress::Progress(std::string title, double total, std::string unit, bool quiet)
    : title_(std::move(title)),
      total_(total),
      unit_(std::move(unit)),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_draw_(start_ - std::chrono::hours(1)) {}

Progress::~Progress() { Finish(); }

double Progress::ElapsedSeconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::Update(double done, const std::string& what) {
  done_ = done;
  what_ = what;
  Draw(false);
}

void Progress::Draw(bool force) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  if (!force && now - last_draw_ < interval) return;
  last_draw_ = now;
  const double share = total_ > 0 ? std::clamp(done_ / total_, 0.0, 1.0) : 0.0;
  const double elapsed = ElapsedSeconds();
  const std::string left = share > 0.01 ? Duration(elapsed * (1 - share) / share) + " left" : "estimating";
  const std::string rate = unit_.empty() || elapsed <= 0 ? "" : fmt::format(", {:.1f} {}/s", done_ / elapsed, unit_);
  if (terminal_) {
    const int filled = static_cast<int>(share * 24);
    fmt::print(stderr, "\r\x1b[K{} [{}{}] {:3.0f}% {}{}  {}", title_, std::string(filled, '#'),
               std::string(24 - filled, '.'), share * 100, left, rate, what_);
  } else {
    fmt::print(stderr, "{}: {:.0f}%, {}{}: {}\n", title_, share * 100, left, rate, what_);
  }
  std::fflush(stderr);
}

void Progress::Finish() {
  if (finished_ || quiet_) return;
  finished_ = true;
  if (terminal_) fmt::print(stderr, "\r\x1b[K");
  fmt::print(stderr, "{}: done in {}\n", title_, Duration(ElapsedSeconds()));
}

}  // namespace haypile
