// Collectives among processes: who calls what is compared first, then data travels in messages
// between two ranks each, and every wait looks at the clock and at what the others say.
//
// A collective begins with a small message from every rank to every other, which says what it is
// about to do. Data is sent only when all say the same, so it is what is waited for, and no rank
// goes on before all have come. Nothing here calls MPI so that it may wait for another rank.
//
// Thread-safety: one thread at a time; set_timeout from any.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "src/communicator_mpi_board.hpp"
#include "src/communicator_mpi_watch.hpp"
#include "zero/communicator.hpp"
#include "zero/error.hpp"

namespace zero::detail {

class MpiLink {
 public:
  // The communicators are for this alone. `crowded`: more ranks than cores.
  MpiLink(MPI_Comm comm, MPI_Comm beside, int rank, int world_size, bool crowded);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  MpiBoard& board() { return board_; }
  void set_timeout(double timeout_s) { timeout_s_ = timeout_s; }
  double timeout_s() const { return timeout_s_; }
  void set_most_bytes_at_once(std::int64_t bytes) { most_bytes_at_once_ = bytes; }
  // For one issuing thread.
  std::uint64_t next_sequence() { return ++issued_; }
  // The calls of MPI of its thread.
  const MpiCalls& calls() const { return calls_; }
  // Whether a collective is under way; by any thread.
  bool busy() const { return busy_; }

  // Compares, then runs `work`. Throws the CommError of a wait that came to no good end, or of
  // ranks that differ, and what the work throws; the other ranks are told, and from then on every
  // collective throws.
  template <class Work>
  void collective(const OpFingerprint& op, const Work& work) {
    busy_ = true;
    begin(op);
    try {
      compare(op);
      work();
    } catch (const CommError& error) {
      give_up(error.what());
      throw;
    } catch (const std::exception& error) {
      give_up(concat("rank ", rank_, " failed in ", doing_, ": ", error.what()));
      throw;
    }
    end();
  }

  // Inside the work. Between send or receive and finish() the memory is the link's.
  void send(int to, const void* data, std::int64_t bytes);
  void receive(int from, void* data, std::int64_t bytes);
  // Waits until all of it is done.
  void finish();

 private:
  void begin(const OpFingerprint& op);
  void end();
  void compare(const OpFingerprint& op);
  void give_up(const std::string& reason) noexcept;
  void check(int code, const char* what, int peer) const;
  void look_at_others() const;
  [[noreturn]] void late(double waited_s);
  void begin_send(int to, const void* data, std::size_t bytes, int tag);
  void begin_receive(int from, void* data, std::size_t bytes, int tag);
  void post(int peer, MPI_Request request);
  int test_some(int& count);
  // The ranks of requests that are not done.
  std::vector<int> outstanding() const;
  void take_back() noexcept;
  std::string place() const;  // "rank 1 was in #12 barrier of x when: "

  const MPI_Comm comm_;
  const int rank_;
  const int world_size_;
  const bool crowded_;
  std::atomic<double> timeout_s_{300};
  std::int64_t most_bytes_at_once_ = std::int64_t{1} << 30;
  MpiBoard board_;
  MpiCalls calls_;
  std::uint64_t issued_ = 0;
  std::atomic<bool> busy_{false};

  // Of the collective that is under way.
  std::uint64_t sequence_ = 0;
  std::string doing_;
  bool in_work_ = false;  // requests are on memory of the caller's
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // of the requests
  std::size_t pending_ = 0;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;

  std::vector<std::byte> mine_;     // what is sent first
  std::vector<std::byte> theirs_;   // received, by rank
  std::vector<std::string> heard_;  // the last operation that a rank has begun
};

}  // namespace zero::detail
