#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace haypile {

// Progress of long work on standard error: on a terminal one redrawn bar with rate and time left, otherwise a plain
// line every few seconds. Nothing is printed when quiet.
class Progress {
 public:
  // `total` in units of the work (seconds of estimated work, bytes, tokens); `unit` names them for the rate, may be "".
  Progress(std::string title, double total, std::string unit, bool quiet = false);
  ~Progress();

  // Work done so far, and what is being done now.
  void Update(double done, const std::string& what);
  void Finish();

 private:
  void Draw(bool force);
  double ElapsedSeconds() const;

  std::string title_;
  double total_;
  std::string unit_;
  bool quiet_;
  bool terminal_;
  bool finished_ = false;
  double done_ = 0;
  std::string what_;
  std::chrono::steady_clock::time_point start_, last_draw_;
};

}  // namespace haypile
