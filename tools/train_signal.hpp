// SIGINT and SIGTERM as a flag that ranks look at between steps, without a global handler.
#pragma once

#include <signal.h>

#include <atomic>
#include <thread>

namespace train {

// While it lives, the first signal sets the flag and the second ends the process with 128 + signal.
// REQUIRES: made before any other thread of the process, so that all of them leave the signals to
// this one's thread.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // 0, or the number of the signal that came.
  const std::atomic<int>& received() const { return received_; }

 private:
  void watch(const std::stop_token& stop);

  std::atomic<int> received_ = 0;
  sigset_t before_;
  std::jthread thread_;
};

}  // namespace train
