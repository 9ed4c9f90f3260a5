// The host device: an arena for memory, the calling thread and worker threads for streams.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#endif

#include "src/arena.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

// The calling thread as a stream: everything happens at once.
class CallerStream final : public Stream {
 public:
  CallerStream() : Stream(DeviceKind::kHost) {}
  void enqueue(Task task) override { task(); }
  Event record() override { return {}; }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}
};

// Queue, worker and the clock of its events: ticket t is reached when t tasks are done.
class WorkQueue final : public EventSource {
 public:
  void push(Stream::Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++issued_;
    }
    work_.notify_one();
  }

  std::uint64_t issued() const {
    const std::lock_guard lock(mutex_);
    return issued_;
  }

  bool done(std::uint64_t ticket) const override {
    const std::lock_guard lock(mutex_);
    return completed_ >= ticket;
  }

  void wait(std::uint64_t ticket) override {
    std::unique_lock lock(mutex_);
    ++waiters_;
    progress_.wait(lock, [&] { return completed_ >= ticket; });
    --waiters_;
    if (error_ != nullptr && ticket > failed_before_) std::rethrow_exception(error_);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      Stream::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      if (error_ == nullptr) {
        lock.unlock();
        std::exception_ptr error;
        try {
          task();
        } catch (...) {
          error = std::current_exception();
        }
        task = nullptr;  // captured values go before the task counts as done
        lock.lock();
        if (error != nullptr) {
          error_ = error;
          failed_before_ = completed_;
        }
      }
      ++completed_;
      if (waiters_ > 0) progress_.notify_all();
    }
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::deque<Stream::Task> tasks_;
  std::uint64_t issued_ = 0;
  std::uint64_t completed_ = 0;
  int waiters_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;         // of the first task that threw; later tasks are dropped
  std::uint64_t failed_before_ = 0;  // tickets up to here were reached without error
};

class WorkerStream final : public Stream {
 public:
  explicit WorkerStream(const std::string& name)
      : Stream(DeviceKind::kHost),
        queue_(std::make_shared<WorkQueue>()),
        thread_([queue = queue_] { queue->run(); }) {
#if defined(__linux__)
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
#endif
  }

  // Finishes what was enqueued; errors have been seen by those who waited.
  ~WorkerStream() override {
    queue_->stop();
    thread_.join();
  }

  void enqueue(Task task) override { queue_->push(std::move(task)); }
  Event record() override { return {queue_, queue_->issued()}; }

  void wait(const Event& event) override {
    if (!event.done()) {
      queue_->push([event] { event.synchronize(); });
      return;
    }
    try {
      event.synchronize();
    } catch (...) {  // it is this stream's error from here on, as if it had happened later
      queue_->push([error = std::current_exception()] { std::rethrow_exception(error); });
    }
  }

  void synchronize() override { queue_->wait(queue_->issued()); }

 private:
  std::shared_ptr<WorkQueue> queue_;
  std::thread thread_;
};

class HostDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kHost; }
  Stream& caller_stream() override { return caller_stream_; }
  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<WorkerStream>(name);
  }
  void* allocate(std::size_t bytes) override { return arena_.allocate(bytes); }
  void deallocate(void* pointer, std::size_t bytes) noexcept override {
    arena_.deallocate(pointer, bytes);
  }
  std::size_t reserved_bytes() const override { return arena_.reserved_bytes(); }

 private:
  detail::Arena arena_;
  CallerStream caller_stream_;
};

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace zero
