// Where the threads of one process meet: the rendezvous behind the thread communicator.
//
// On the host a collective runs when its stream gets there. On a CUDA device it is issued: the
// issuing threads meet, and what they enqueue waits on the device for the events that they show
// each other. No thread waits for a device.
//
// A collective is two meetings. Before the first each rank posts what it is about to do and where
// its buffers are; between the two every rank may read every posted buffer; after the second the
// buffers are the ranks' own again. A meeting ends in one of: all are there; the deadline passed; a
// missing rank has left for good; someone called abort. All but the first throw CommError. A rank
// whose work between the two fails aborts the group. Who throws frees its buffers, so it first
// waits for those who are between the two meetings.
//
// Thread-safety: each rank's calls come from one thread at a time; abort and leave from any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "zero/communicator.hpp"

namespace zero::detail {

class LocalGroup {
 public:
  // What a rank shows to the others during a collective.
  struct Post {
    OpFingerprint op;
    void* data = nullptr;
    Event ready = {};  // device memory: its owner's stream is done with it
  };

  // Throws UsageError unless the timeout is above 0.
  LocalGroup(int world_size, std::chrono::duration<double> timeout);

  int world_size() const { return static_cast<int>(ranks_.size()); }

  // Posts, meets all, runs `work`, meets all again. Throws unless all ranks posted the same
  // operation. What `work` throws is rethrown, and ends the others with a CommError that names it.
  template <class Work>
  void collective(int rank, Post post, const Work& work) {
    open(rank, std::move(post));
    try {
      work();
    } catch (const std::exception& error) {
      fail(rank, error.what());
      throw;
    } catch (...) {
      fail(rank, "an exception that is no std::exception");
      throw;
    }
    close(rank);
  }
  // REQUIRES: inside the work of a collective.
  const Post& post(int rank) const { return ranks_[static_cast<std::size_t>(rank)]->post; }

  // Device memory only: the point where a rank's stream has done its part. Set inside the work,
  // read after the collective and before the rank's next one.
  void set_done(int rank, Event event) { state(rank).done = std::move(event); }
  const Event& done(int rank) const { return ranks_[static_cast<std::size_t>(rank)]->done; }

  // Throws UsageError unless the timeout is above 0.
  void set_timeout(int rank, std::chrono::duration<double> timeout);
  // The rank will not come back: who waits for it, now or later, ends with an error.
  void leave(int rank) noexcept;
  void abort(int rank, const std::string& reason) noexcept;
  // The rank whose failure came first; -1: none.
  int first_failed_rank() const;

 private:
  struct alignas(128) RankState {
    mutable std::mutex mutex;  // guards post, against readers that gave up waiting
    Post post;
    Event done;
    std::atomic<std::uint64_t> meetings{0};  // arrived at
    std::atomic<bool> left{false};
    std::atomic<bool> reading{false};  // from before the first meeting until arrival at the second
    std::atomic<double> timeout_s{0};
  };
  RankState& state(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  // First meeting: posts and waits for all.
  void open(int rank, Post post);
  // Second meeting: buffers may be touched by their owners again after it.
  void close(int rank);
  // Instead of close(), after an error: ends the group.
  void fail(int rank, const char* what) noexcept;
  void meet(int rank);
  void sleep_until_met(int rank, std::uint64_t generation, std::uint64_t my_meetings);
  void wait_for_readers(int rank) const;
  // With mutex_ held: either everyone passes a meeting, or who gives up has aborted before.
  void check_alive(int rank, std::uint64_t my_meetings);
  void abort_locked(int rank, const std::string& reason);
  std::string doing(int rank);

  std::vector<std::unique_ptr<RankState>> ranks_;
  int spins_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<bool> trouble_{false};  // someone left or aborted

  mutable std::mutex mutex_;  // guards what follows, and sleeping
  std::condition_variable wake_;
  int sleepers_ = 0;
  bool aborted_ = false;
  int failed_rank_ = -1;
  std::string reason_;
};

// A rank's end of the group. Who runs the rank calls leave() when it is over.
std::unique_ptr<Communicator> make_local_communicator(std::shared_ptr<LocalGroup> group, int rank);

}  // namespace zero::detail
