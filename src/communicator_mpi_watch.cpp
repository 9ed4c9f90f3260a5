#include "src/communicator_mpi_watch.hpp"

#include <signal.h>

#include <chrono>
#include <utility>

namespace zero::detail {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

double seconds(std::int64_t looks) {
  return std::chrono::duration<double>(kPeriod).count() * static_cast<double>(looks);
}

}  // namespace

void MpiWatch::start(std::vector<const MpiCalls*> watched, std::function<double()> limit_s,
                     std::function<void(double)> give_up) {
  thread_ = std::thread([this, watched = std::move(watched), limit_s = std::move(limit_s),
                         give_up = std::move(give_up)] { watch(watched, limit_s, give_up); });
}

void MpiWatch::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiWatch::watch(const std::vector<const MpiCalls*>& watched,
                     const std::function<double()>& limit_s,
                     const std::function<void(double)>& give_up) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // they are for the program's own threads
  // The calls at the last look, and how many looks ago they were first seen.
  std::vector<std::pair<std::uint64_t, std::int64_t>> seen(watched.size());
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kPeriod, [&] { return stopping_; })) {
    for (std::size_t i = 0; i < watched.size(); ++i) {
      auto& [turns, looks] = seen[i];
      const std::uint64_t now = watched[i]->turns();
      looks = now == turns ? looks + 1 : 0;
      turns = now;
      if (now % 2 == 1 && seconds(looks) > limit_s()) return give_up(seconds(looks));
    }
  }
}

}  // namespace zero::detail
