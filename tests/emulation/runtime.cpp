// Streams as threads, events as points in their queues.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/emulation/emulation.hpp"

namespace zero::emulation {
namespace {

std::atomic<std::uint64_t> waits = 0;

// The last error of a thread that a call without a result of its own left behind.
cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t failed(cudaError_t error) {
  last_error() = error;
  return error;
}

}  // namespace

class StreamThread {
 public:
  StreamThread() : thread_([this] { run(); }) {}
  ~StreamThread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_one();
    thread_.join();
  }

  void push(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++issued_;
    }
    work_.notify_one();
  }

  void synchronize() {
    std::unique_lock lock(mutex_);
    const std::uint64_t until = issued_;
    progress_.wait(lock, [&] { return done_ >= until; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      {
        const std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
      }
      lock.lock();
      ++done_;
      progress_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t issued_ = 0;
  std::uint64_t done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// What an event was last recorded as. Waits hold on to it, so the event may go before they end.
class EventPoint {
 public:
  struct Clock {
    std::mutex mutex;
    std::condition_variable progress;
    std::uint64_t recorded = 0;
    std::uint64_t reached = 0;

    std::uint64_t record() {
      const std::lock_guard lock(mutex);
      return ++recorded;
    }
    std::uint64_t last() {
      const std::lock_guard lock(mutex);
      return recorded;
    }
    void reach(std::uint64_t point) {
      const std::lock_guard lock(mutex);
      if (point > reached) reached = point;
      progress.notify_all();
    }
    bool has_reached(std::uint64_t point) {
      const std::lock_guard lock(mutex);
      return reached >= point;
    }
    void wait(std::uint64_t point) {
      std::unique_lock lock(mutex);
      progress.wait(lock, [&] { return reached >= point; });
    }
  };
  std::shared_ptr<Clock> clock = std::make_shared<Clock>();
};

cudaError_t launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   std::function<void()> thread) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  const bool valid = stream != nullptr && threads > 0 && threads <= 1024 && block.z <= 64 &&
                     grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu &&
                     grid.y <= 65535 && grid.z <= 65535 && shared_bytes == 0;
  if (!valid) return failed(cudaErrorInvalidConfiguration);
  stream->push([=] { run_grid(grid, block, thread); });
  return cudaSuccess;
}

std::uint64_t synchronizations() { return waits.load(); }

}  // namespace zero::emulation

using namespace zero::emulation;

namespace {

int& current_device() {
  thread_local int device = 0;
  return device;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device != 0) return failed(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return failed(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulation");
  properties->multiProcessorCount = 2;
  std::size_t free = 0;
  return cudaMemGetInfo(&free, &properties->totalGlobalMem);
}

// There is one device.
cudaError_t cudaDeviceCanAccessPeer(int*, int, int) { return failed(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return failed(cudaErrorInvalidDevice); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  // Checked when they are given, and again when they are followed: it may have been freed.
  resolve_any(to, bytes, "cudaMemcpyAsync to");
  resolve_any(from, bytes, "cudaMemcpyAsync from");
  stream->push([=] {
    std::memmove(resolve_any(to, bytes, "cudaMemcpyAsync to"),
                 resolve_any(from, bytes, "cudaMemcpyAsync from"), bytes);
  });
  // The real one may return before such a copy is done, or wait for all before it: so this waits.
  if (is_pageable(to) || is_pageable(from)) {
    ++waits;
    stream->synchronize();
  }
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  resolve(to, bytes, 1, "cudaMemsetAsync");
  stream->push([=] { std::memset(resolve(to, bytes, 1, "cudaMemsetAsync"), value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new StreamThread;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  ++waits;
  stream->synchronize();
  return cudaSuccess;
}

// There are no graphs.
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (stream == nullptr || event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  stream->push([clock = event->clock, point = event->clock->last()] { clock->wait(point); });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  stream->push([=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EventPoint;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream == nullptr || event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  stream->push([clock = event->clock, point = event->clock->record()] { clock->reach(point); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->clock->has_reached(event->clock->last()) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++waits;
  event->clock->wait(event->clock->last());
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error();
  last_error() = cudaSuccess;
  return error;
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unknown error";
}
