// How a run shows itself while it goes on: a bar on a terminal, lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace train {

struct StepLine {
  std::int64_t step = 0;  // counted from 1
  double loss = 0;        // mean over the slots of the step, nats
  double grad_norm = 0;
  double loss_scale = 1;
  bool skipped = false;
  std::string lr;  // JSON: a number, or a list with one per group
  double ms = 0;
};

enum class Verbosity : std::uint8_t { kQuiet, kNormal, kVerbose };

// Writes to standard error. Skipped steps are told by the library itself.
class Progress {
 public:
  Progress(std::int64_t steps, std::int64_t tokens_per_step, Verbosity verbosity, bool on_terminal);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const StepLine& line);
  // Takes the bar away, so that other output starts on a clean line.
  void clear();

  // "1:05", "2:03:04".
  static std::string duration(double seconds);

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t steps_;
  std::int64_t tokens_per_step_;
  Verbosity verbosity_;
  bool on_terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
};

}  // namespace train
