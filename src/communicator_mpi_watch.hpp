// An end for calls of MPI that do not return.
//
// No call is made so that it may wait for another rank. But a peer that is stopped in the midst of
// a queue in shared memory can keep whoever uses the queue inside of the library, where no deadline
// of ours is looked at. So a thread that calls nothing of MPI looks at those that do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zero::detail {

// The calls of one thread at a time.
class MpiCalls {
 public:
  // As long as it lives, the thread is inside of a call.
  class Inside {
   public:
    explicit Inside(MpiCalls& calls) : calls_(calls) { ++calls_.turns_; }
    ~Inside() { ++calls_.turns_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    MpiCalls& calls_;
  };

  // Odd: inside. The same odd number as before: inside of the same call.
  std::uint64_t turns() const { return turns_; }

 private:
  std::atomic<std::uint64_t> turns_{0};
};

// Thread-safety: start and stop by one thread at a time.
class MpiWatch {
 public:
  // Calls `give_up`, in its own thread, when a call has lasted longer than `limit_s()` seconds in
  // which this process ran: time in which it was stopped does not count.
  void start(std::vector<const MpiCalls*> watched, std::function<double()> limit_s,
             std::function<void(double lasted_s)> give_up);
  void stop() noexcept;
  ~MpiWatch() { stop(); }

 private:
  void watch(const std::vector<const MpiCalls*>& watched, const std::function<double()>& limit_s,
             const std::function<void(double)>& give_up);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace zero::detail
