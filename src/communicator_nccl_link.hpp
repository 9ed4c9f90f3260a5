// An ncclComm that cannot hang for ever: calls on it are issued here, and a watchdog thread looks
// after what they put on a stream.
//
// NCCL calls are made under a lock that is held for the time of a call only, since the
// communicator is non-blocking. Only the watchdog aborts or destroys, so that no one else waits for
// NCCL to do so. It shares the state with the owner: should NCCL never return from an abort, the
// thread is left to itself.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "src/cuda_check.hpp"
#include "zero/communicator.hpp"

namespace zero::detail {

class NcclLink {
 public:
  // What is enqueued; returns what NCCL said.
  using Calls = std::function<ncclResult_t(ncclComm_t comm)>;

  // Takes over a communicator that may still be connecting; owned: it is destroyed in the end.
  NcclLink(ncclComm_t comm, bool owned, int rank, int world_size, int device_index,
           double timeout_s);
  // Waits until what was enqueued is done or late. During an exception, and after a failure, the
  // communicator is aborted.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Blocks until the ranks are connected. Throws CommError.
  void connect();
  // Issues the calls of one operation. Returns when they are on the stream. Throws CommError.
  void issue(const OpFingerprint& op, cudaStream_t stream, const Calls& calls);
  // Throws the CommError of an earlier failure.
  void check() const;
  // The communicator has failed: ends all waits. Does not block; the first reason stays.
  void fail(const std::string& reason) const noexcept;
  void set_timeout(double timeout_s);

 private:
  struct EventDeleter {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using OwnedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

  // A call whose work is on a stream.
  struct Watched {
    OpFingerprint op;
    OwnedEvent begin;
    OwnedEvent end;
    std::optional<std::chrono::steady_clock::time_point> begun;  // seen by the watchdog
  };

  enum class End { kNone, kGentle, kHurry };

  struct State {
    void watch();
    // Makes calls, unless the communicator is gone; then it is as if they were in progress, and
    // check() throws. What went wrong is in `reason`.
    ncclResult_t ask(const Calls& calls, std::string& reason);
    // These REQUIRE that the mutex is held.
    void fail(std::string text);
    void fail_late(const std::string& what);
    void look_at_events();
    void look_at_nccl();
    bool look_at(Watched& oldest);  // true: it is done
    OwnedEvent take_event();
    std::string place() const;  // "rank 1 of 4: "
    // Without the mutex, when no one else has the communicator any more.
    void leave(ncclComm_t last, bool gently) const;

    int rank = 0;
    int world_size = 1;
    int device_index = 0;
    bool owned = true;

    std::mutex mutex;
    std::condition_variable wake;
    double timeout_s = 0;
    std::deque<Watched> watched;  // in the order of issue
    std::vector<OwnedEvent> spare;
    bool failed = false;
    std::string failure;
    End end = End::kNone;  // asked for by the owner
    bool leaving = false;  // the watchdog does it
    bool left = false;

    std::mutex nccl_mutex;  // under `mutex` only tried
    ncclComm_t comm = nullptr;
  };

  // Polls until NCCL is done with what it was asked for and gave this result.
  void settle(ncclResult_t result, std::string reason, const std::function<std::string()>& what);

  std::shared_ptr<State> state_;
  std::thread watchdog_;
};

}  // namespace zero::detail
