#include "src/local_group.hpp"

#include <thread>
#include <utility>

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
  for (int rank = 0; rank < world_size; ++rank) {
    ranks_.push_back(std::make_unique<RankState>());
    ranks_.back()->timeout_s = timeout.count();
  }
  // More ranks than cores: spinning would only keep the awaited rank off its core.
  spins_ = static_cast<unsigned>(world_size) <= std::thread::hardware_concurrency() ? kSpins : 0;
}

void LocalGroup::open(int rank, Post post) {
  {
    RankState& mine = state(rank);
    const std::lock_guard lock(mine.mutex);
    mine.post = std::move(post);
  }
  meet(rank);
  // All ranks compare with rank 0, so all come to the same verdict.
  const OpFingerprint& reference = this->post(0).op;
  for (int other = 1; other < world_size(); ++other) {
    if (this->post(other).op == reference) continue;
    fail(rank, concat("the ranks differ: rank 0 is at ", to_string(reference), "; rank ", other,
                      " is at ", to_string(this->post(other).op)));
  }
}

void LocalGroup::close(int rank) { meet(rank); }

void LocalGroup::meet(int rank) {
  if (world_size() == 1 && !trouble_.load(std::memory_order_acquire)) return;
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  const std::uint64_t my_meetings = state(rank).meetings.fetch_add(1) + 1;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == world_size() &&
      !trouble_.load(std::memory_order_acquire)) {
    arrived_.store(0, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    generation_.store(generation + 1, std::memory_order_release);
    if (sleepers_ > 0) wake_.notify_all();
    return;
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
  for (;;) {
    if (generation_.load(std::memory_order_acquire) != generation) return;
    if (trouble_.load(std::memory_order_acquire)) {
      lock.unlock();
      check_alive(rank, my_meetings);
      lock.lock();
      if (generation_.load(std::memory_order_acquire) != generation) return;
    }
    ++sleepers_;
    const auto status = wake_.wait_until(lock, deadline);
    --sleepers_;
    if (generation_.load(std::memory_order_acquire) != generation) return;
    if (status == std::cv_status::timeout) break;
  }
  lock.unlock();
  check_alive(rank, my_meetings);
  std::string late;
  for (int other = 0; other < world_size(); ++other) {
    if (state(other).meetings.load() >= my_meetings) continue;
    late += concat(late.empty() ? "" : "; ", "rank ", other, ", whose last operation was ",
                   doing(other));
  }
  fail(rank,
       concat("rank ", rank, " waited ", timeout.count(), " s in ", doing(rank), " for ", late));
}

// Throws if the group was aborted, or if a rank that has not arrived will never do so.
void LocalGroup::check_alive(int rank, std::uint64_t my_meetings) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) {
      throw CommError(concat("rank ", rank, " was in ", doing(rank), " when: ", reason_));
    }
  }
  for (int other = 0; other < world_size(); ++other) {
    if (state(other).left.load() && state(other).meetings.load() < my_meetings) {
      fail(rank, concat("rank ", other, " has ended; its last operation was ", doing(other),
                        ", while rank ", rank, " waits in ", doing(rank)));
    }
  }
}

std::string LocalGroup::doing(int rank) {
  RankState& other = state(rank);
  const std::lock_guard lock(other.mutex);
  return other.post.op.sequence == 0 ? "none yet" : to_string(other.post.op);
}

void LocalGroup::fail(int rank, const std::string& reason) {
  abort(rank, reason);
  throw CommError(reason);
}

void LocalGroup::set_timeout(int rank, std::chrono::duration<double> timeout) {
  state(rank).timeout_s = timeout.count();
}

void LocalGroup::leave(int rank) noexcept {
  state(rank).left = true;
  const std::lock_guard lock(mutex_);
  trouble_.store(true, std::memory_order_release);
  wake_.notify_all();
}

void LocalGroup::abort(int rank, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
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
