// What ranks that are processes tell each other beside their collectives: that one has failed, that
// one has come to its end, and, when a wait was too long, what each of them is at.
//
// Messages are small and no one waits for them to arrive. Someone has to look for what has come:
// the service thread of the process (MpiProcess), also while the rank computes.
//
// Thread-safety: from any thread.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/communicator_mpi_watch.hpp"

namespace zero::detail {

class MpiBoard {
 public:
  // The communicator is for this alone.
  MpiBoard(MPI_Comm comm, int rank, int world_size);

  // Takes what has come, and answers questions. Throws nothing: an error of MPI fails the rank.
  void pump() noexcept;

  // What this rank does, for those who ask. `bytes`: of the operation, per rank.
  void begin(std::uint64_t sequence, const std::string& operation);
  void end();
  // So many messages from or to the rank are outstanding, more (1) or less (-1) than before.
  void await(int rank, int count) { awaited_[static_cast<std::size_t>(rank)] += count; }

  // Whether there is anything to look at: a failure, or a rank that has ended.
  bool trouble() const { return trouble_.load(std::memory_order_acquire); }
  // Why no rank can go on; empty: there is no such reason.
  std::string failure() const;
  // Ends the waits of all ranks. The first reason stays.
  void fail(const std::string& reason) noexcept;
  // The rank has ended, and has not begun this operation: what it was at last.
  std::optional<std::string> ended_before(int rank, std::uint64_t sequence) const;

  // Asks all ranks what they are at, and waits up to so many seconds for their answers, or for a
  // failure.
  void ask(double patience_s);
  // What the rank answered; none: it did not.
  std::optional<std::string> answer_of(int rank) const;
  // What this rank is at.
  std::string describe() const;

  // This rank has come to its end.
  void say_goodbye() noexcept;
  // Whether all others have said so, but those that did not answer when they were asked.
  bool all_have_ended(bool but_silent_ones) const;
  // Those that had not ended and did not answer when they were asked.
  std::vector<int> silent() const;

  // No calls of MPI any more: a request is left that may write to memory that is someone else's.
  // Returns when no thread is inside such a call.
  void freeze() {
    const std::lock_guard lock(mpi_mutex_);
    frozen_ = true;
  }
  bool frozen() const { return frozen_; }
  // Its calls of MPI.
  const MpiCalls& calls() const { return calls_; }
  // Takes back the receive that is posted. Afterwards pump() does nothing.
  void close() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint32_t { kFailure, kQuestion, kAnswer, kEnd };
  struct Message {
    MPI_Request request;
    std::vector<char> bytes;
  };
  struct Peer {
    std::optional<std::string> answer;
    bool silent = false;
    std::optional<std::uint64_t> end;  // operations it had begun
    std::string last_words;            // what it was at then
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  // These REQUIRE mpi_mutex_.
  void post_receive();
  void send(int to, Kind kind, const std::string& text);
  void handle(int from, const std::vector<char>& bytes);

  void send_all(Kind kind, const std::string& text) noexcept;
  void note_failure(const std::string& reason);
  std::string describe_locked() const;

  const MPI_Comm comm_;
  const int rank_;
  const int world_size_;

  std::mutex mpi_mutex_;  // taken before mutex_
  MpiCalls calls_;        // by who has mpi_mutex_
  std::vector<char> incoming_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::list<Message> outgoing_;
  bool closed_ = false;

  std::atomic<bool> trouble_{false};
  std::atomic<bool> frozen_{false};
  std::vector<std::atomic<int>> awaited_;

  mutable std::mutex mutex_;
  bool failed_ = false;
  std::string failure_;
  std::vector<Peer> peers_;
  std::uint64_t sequence_ = 0;
  bool inside_ = false;
  Clock::time_point since_ = Clock::now();
  std::deque<std::string> operations_;  // the last ones, the newest first
};

}  // namespace zero::detail
