#include "tools/train_signal.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace train {

namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher() {
  const sigset_t watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, &before_);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

SignalWatcher::~SignalWatcher() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatcher::watch(const std::stop_token& stop) {
  const sigset_t watched = watched_signals();
  const timespec patience = {.tv_sec = 0, .tv_nsec = 50'000'000};
  while (!stop.stop_requested()) {
    const int signal = sigtimedwait(&watched, nullptr, &patience);
    if (signal <= 0) continue;
    if (received_.exchange(signal) != 0) std::_Exit(128 + signal);
    std::fputs("\nzero-train: finishing this step; a second signal ends at once\n", stderr);
  }
}

}  // namespace train
