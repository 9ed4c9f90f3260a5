#include "src/local_group.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/communicator_deadline.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

constexpr int kSpins = 2000;  // about 20 us: longer than a rendezvous of running threads takes
constexpr int kYields = 16;

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

LocalGroup::LocalGroup(int world_size, std::chrono::duration<double> timeout) {
  const double timeout_s = checked_seconds(timeout);
  for (int rank = 0; rank < world_size; ++rank) {
    ranks_.push_back(std::make_unique<RankState>());
    ranks_.back()->timeout_s = timeout_s;
  }
  // More ranks than cores: spinning would only keep the awaited rank off its core.
  spins_ = static_cast<unsigned>(world_size) <= std::thread::hardware_concurrency() ? kSpins : 0;
}

void LocalGroup::open(int rank, Post post) {
  RankState& mine = state(rank);
  if (trouble_.load(std::memory_order_acquire)) {
    // The old post stays: others may still compare with it.
    const std::lock_guard lock(mutex_);
    if (aborted_) {
      throw CommError(concat("rank ", rank, " was in ", to_string(post.op), " when: ", reason_));
    }
  }
  {
    const std::lock_guard lock(mine.mutex);
    mine.post = std::move(post);
  }
  mine.reading.store(true);
  try {
    meet(rank);
    // All ranks compare with rank 0, so all come to the same verdict.
    const OpFingerprint& reference = this->post(0).op;
    for (int other = 1; other < world_size(); ++other) {
      if (this->post(other).op == reference) continue;
      const std::string reason =
          concat("the ranks differ: rank 0 is at ", to_string(reference), "; rank ", other,
                 " is at ", to_string(this->post(other).op));
      abort(rank, reason);
      throw CommError(reason);
    }
  } catch (...) {
    mine.reading.store(false, std::memory_order_release);
    throw;
  }
}

void LocalGroup::close(int rank) {
  state(rank).reading.store(false, std::memory_order_release);
  try {
    meet(rank);
  } catch (...) {
    wait_for_readers(rank);
    throw;
  }
}

void LocalGroup::fail(int rank, const char* what) noexcept {
  abort(rank, concat("rank ", rank, " failed in ", doing(rank), ": ", what));
  state(rank).reading.store(false, std::memory_order_release);
  wait_for_readers(rank);
}

// Bounded without a deadline: who reads is copying or summing, and whoever waits in a meeting of an
// aborted group leaves it at once.
void LocalGroup::wait_for_readers(int rank) const {
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank) continue;
    while (ranks_[static_cast<std::size_t>(other)]->reading.load(std::memory_order_acquire)) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void LocalGroup::meet(int rank) {
  if (world_size() == 1 && !trouble_.load(std::memory_order_acquire)) return;
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  const std::uint64_t my_meetings = state(rank).meetings.fetch_add(1) + 1;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == world_size()) {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      if (sleepers_ > 0) wake_.notify_all();
      return;
    }
  }
  const auto met = [&] { return generation_.load(std::memory_order_acquire) != generation; };
  for (int i = 0; i < spins_; ++i) {
    if (met()) return;
    cpu_pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (met()) return;
    std::this_thread::yield();
  }
  sleep_until_met(rank, generation, my_meetings);
}

void LocalGroup::sleep_until_met(int rank, std::uint64_t generation, std::uint64_t my_meetings) {
  const std::chrono::duration<double> timeout(state(rank).timeout_s.load());
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout);
  std::unique_lock lock(mutex_);
  for (auto status = std::cv_status::no_timeout;;) {
    if (generation_.load(std::memory_order_acquire) != generation) return;
    check_alive(rank, my_meetings);
    if (status == std::cv_status::timeout) break;
    ++sleepers_;
    status = wake_.wait_until(lock, deadline);
    --sleepers_;
  }
  std::string late;
  for (int other = 0; other < world_size(); ++other) {
    if (state(other).meetings.load() >= my_meetings) continue;
    late += concat(late.empty() ? "" : "; ", "rank ", other, ", whose last operation was ",
                   doing(other));
  }
  // All have come, and the last of them waits for the lock: no one is late.
  if (late.empty()) {
    ++sleepers_;
    wake_.wait(lock, [&] { return aborted_ || generation_.load() != generation; });
    --sleepers_;
    if (generation_.load() != generation) return;
    check_alive(rank, my_meetings);
  }
  const std::string reason =
      concat("rank ", rank, " waited ", timeout.count(), " s in ", doing(rank), " for ", late);
  abort_locked(rank, reason);
  throw CommError(reason);
}

// Throws if the group was aborted, or if a rank that has not arrived will never do so.
void LocalGroup::check_alive(int rank, std::uint64_t my_meetings) {
  if (!trouble_.load(std::memory_order_acquire)) return;
  if (aborted_) {
    throw CommError(concat("rank ", rank, " was in ", doing(rank), " when: ", reason_));
  }
  for (int other = 0; other < world_size(); ++other) {
    if (state(other).left.load() && state(other).meetings.load() < my_meetings) {
      const std::string reason =
          concat("rank ", other, " has ended; its last operation was ", doing(other),
                 ", while rank ", rank, " waits in ", doing(rank));
      abort_locked(rank, reason);
      throw CommError(reason);
    }
  }
}

std::string LocalGroup::doing(int rank) {
  RankState& other = state(rank);
  const std::lock_guard lock(other.mutex);
  return other.post.op.sequence == 0 ? "none yet" : to_string(other.post.op);
}

void LocalGroup::set_timeout(int rank, std::chrono::duration<double> timeout) {
  state(rank).timeout_s = checked_seconds(timeout);
}

void LocalGroup::leave(int rank) noexcept {
  state(rank).left = true;
  const std::lock_guard lock(mutex_);
  trouble_.store(true, std::memory_order_release);
  wake_.notify_all();
}

void LocalGroup::abort(int rank, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  abort_locked(rank, reason);
}

void LocalGroup::abort_locked(int rank, const std::string& reason) {
  if (!aborted_) {
    aborted_ = true;
    failed_rank_ = rank;
    reason_ = reason;
  }
  trouble_.store(true, std::memory_order_release);
  wake_.notify_all();
}

int LocalGroup::first_failed_rank() const {
  const std::lock_guard lock(mutex_);
  return failed_rank_;
}

}  // namespace zero::detail
