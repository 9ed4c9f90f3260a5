#include "tools/train_progress.hpp"

#include <algorithm>
#include <cstdio>

namespace train {

namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kRedraw{100};

}  // namespace

Progress::Progress(std::int64_t steps, std::int64_t tokens_per_step, Verbosity verbosity,
                   bool on_terminal)
    : steps_(steps),
      tokens_per_step_(tokens_per_step),
      verbosity_(verbosity),
      on_terminal_(on_terminal) {}

std::string Progress::duration(double seconds) {
  const auto total = static_cast<long long>(seconds + 0.5);
  char text[32];
  if (total >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", total / 3600, total / 60 % 60,
                  total % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", total / 60, total % 60);
  }
  return text;
}

void Progress::clear() {
  if (shown_) std::fputs("\x1b[K", stderr);
  shown_ = false;
}

void Progress::update(const StepLine& line) {
  if (verbosity_ == Verbosity::kQuiet) return;
  const auto now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(line.step * tokens_per_step_) / std::max(elapsed, 1e-9);
  const double left =
      elapsed / static_cast<double>(line.step) * static_cast<double>(steps_ - line.step);
  const auto step = static_cast<long long>(line.step);
  const auto steps = static_cast<long long>(steps_);

  if (verbosity_ == Verbosity::kNormal && on_terminal_) {
    if (now - drawn_ < kRedraw && line.step != steps_) return;
    drawn_ = now;
    shown_ = true;
    const int filled = static_cast<int>(kBarWidth * line.step / steps_);
    const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                            std::string(static_cast<std::size_t>(kBarWidth - filled), '.');
    // The cursor goes back to the start, so that a message of the library overwrites the bar.
    std::fprintf(stderr, "\x1b[K[%s] %lld/%lld  loss %.4f  %.0f tokens/s  %s left\r", bar.c_str(),
                 step, steps, line.loss, rate, duration(left).c_str());
    std::fflush(stderr);
    return;
  }
  const std::int64_t every = std::max<std::int64_t>(1, steps_ / 20);
  if (verbosity_ == Verbosity::kNormal && line.step % every != 0 && line.step != 1 &&
      line.step != steps_) {
    return;
  }
  std::fprintf(stderr, "step %lld/%lld  loss %.4f  grad norm %.3f  %.0f tokens/s  %s left", step,
               steps, line.loss, line.grad_norm, rate, duration(left).c_str());
  if (verbosity_ == Verbosity::kVerbose) {
    std::fprintf(stderr, "  lr %s  loss scale %g  %.1f ms", line.lr.c_str(), line.loss_scale,
                 line.ms);
  }
  std::fputc('\n', stderr);
}

}  // namespace train
