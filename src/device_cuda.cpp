// The CUDA device: streams and events of the runtime, memory from a pool that keeps what it was
// given.
#include <cuda_runtime.h>

#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "src/cuda_check.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

constexpr auto check = detail::check_cuda;

// What the tasks of a stream threw. Tasks run on a thread of the runtime.
class TaskErrors {
 public:
  bool failed() const {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }
  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::move(error);
  }
  void rethrow() const {
    std::exception_ptr error;
    {
      const std::lock_guard lock(mutex_);
      error = error_;
    }
    if (error != nullptr) std::rethrow_exception(error);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "stream");
  return status != cudaStreamCaptureStatusNone;
}

// The events of one stream. One that has been reached is used again. Thread-safe: another rank's
// stream may wait for them.
class CudaClock final : public EventSource {
 public:
  CudaClock() = default;
  ~CudaClock() override {
    for (const Point& point : points_) cudaEventDestroy(point.event);
    for (cudaEvent_t event : spare_) cudaEventDestroy(event);
  }
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  std::uint64_t record(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    const bool captured = is_capturing(stream);
    if (!captured) recycle();  // what is captured must not be asked for
    cudaEvent_t event = nullptr;
    if (spare_.empty()) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    } else {
      event = spare_.back();
      spare_.pop_back();
    }
    points_.push_back({++issued_, event, captured});
    check(cudaEventRecord(event, stream), "event");
    return issued_;
  }

  // What the stream does from now on comes after the ticket. The event must not be used again
  // before the wait is issued, so it is done here.
  void hold_back(cudaStream_t stream, std::uint64_t ticket) const {
    const std::lock_guard lock(mutex_);
    if (cudaEvent_t event = find(ticket)) check(cudaStreamWaitEvent(stream, event, 0), "wait");
  }

  bool done(std::uint64_t ticket) const override {
    const std::lock_guard lock(mutex_);
    cudaEvent_t event = find_real(ticket);
    if (event == nullptr) return true;
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaErrorNotReady) return false;
    check(state, "event");
    return true;
  }

  // By the thread that records.
  void wait(std::uint64_t ticket) override {
    cudaEvent_t event = nullptr;
    {
      const std::lock_guard lock(mutex_);
      event = find_real(ticket);
    }
    if (event != nullptr) check(cudaEventSynchronize(event), "event");
    errors.rethrow();
  }

  TaskErrors errors;

 private:
  struct Point {
    std::uint64_t ticket;
    cudaEvent_t event;
    bool captured;  // a place in a graph, at no time of its own
  };

  // Null once it has been reached.
  cudaEvent_t find(std::uint64_t ticket) const {
    if (points_.empty() || ticket < points_.front().ticket) return nullptr;
    return points_[static_cast<std::size_t>(ticket - points_.front().ticket)].event;
  }
  cudaEvent_t find_real(std::uint64_t ticket) const {
    cudaEvent_t event = find(ticket);
    if (event == nullptr) return nullptr;
    return points_[static_cast<std::size_t>(ticket - points_.front().ticket)].captured ? nullptr
                                                                                       : event;
  }
  void recycle() {
    while (!points_.empty() &&
           (points_.front().captured || cudaEventQuery(points_.front().event) == cudaSuccess)) {
      spare_.push_back(points_.front().event);
      points_.pop_front();
    }
  }

  mutable std::mutex mutex_;
  std::deque<Point> points_;  // recorded and not known to be reached, one ticket after the other
  std::vector<cudaEvent_t> spare_;
  std::uint64_t issued_ = 0;
};

class CudaStream final : public Stream {
 public:
  CudaStream(int device, int priority) : Stream(DeviceKind::kCuda), device_(device) {
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), "stream");
  }
  // Finishes what was enqueued; errors have been seen by those who waited.
  ~CudaStream() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  // What is put on the stream next is put there from this device, whatever was current.
  void* native() const override {
    check(cudaSetDevice(device_), "device");
    return stream_;
  }
  bool capturing() const override { return is_capturing(stream_); }

  void enqueue(Task task) override {
    if (capturing()) {
      throw UsageError("a task of the host cannot be captured into a CUDA graph: it runs once");
    }
    struct Call {
      Task task;
      std::shared_ptr<CudaClock> clock;
    };
    auto call = std::make_unique<Call>(Call{std::move(task), clock_});
    const auto run = [](void* data) {
      const std::unique_ptr<Call> own(static_cast<Call*>(data));
      if (own->clock->errors.failed()) return;
      try {
        own->task();
      } catch (...) {
        own->clock->errors.keep(std::current_exception());
      }
    };
    check(cudaLaunchHostFunc(stream_, run, call.get()), "task");
    call.release();
  }

  Event record() override {
    check(cudaSetDevice(device_), "device");
    return {clock_, clock_->record(stream_)};
  }

  void wait(const Event& event) override {
    const auto* clock = dynamic_cast<const CudaClock*>(event.source().get());
    if (clock == nullptr) return event.synchronize();  // of a stream of the host
    if (clock->errors.failed()) return clock->errors.rethrow();
    clock->hold_back(stream_, event.ticket());
  }

  void synchronize() override {
    check(cudaStreamSynchronize(stream_), "synchronize");
    clock_->errors.rethrow();
  }

 private:
  const int device_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<CudaClock> clock_ = std::make_shared<CudaClock>();
};

// Device memory by its size. Sizes repeat from step to step, so what is given back fits again, and
// in steady state nothing is asked of the driver. Sizes are kept to the byte, so that tools see an
// access beyond one.
//
// Memory that was given out while a graph was captured is written by every replay, so from then on
// it is for captures alone.
class CudaPool {
 public:
  ~CudaPool() {
    for (const Spare* spare : {&spare_, &captured_spare_}) {
      for (const auto& [bytes, pointer] : *spare) cudaFree(pointer);
    }
  }

  void* allocate(std::size_t bytes, bool capturing) {
    bytes = nonzero(bytes);
    if (capturing) {
      if (void* const pointer = take(captured_spare_, bytes)) return pointer;
    }
    if (void* const pointer = take(spare_, bytes)) {
      if (capturing) captured_.insert(pointer);
      return pointer;
    }
    if (capturing) {
      throw UsageError(detail::concat(
          "a step is captured into a CUDA graph, and ", bytes,
          " bytes of memory are missing for it: make a step of the same kind before the capture"));
    }
    void* pointer = nullptr;
    cudaError_t error = cudaMalloc(&pointer, bytes);
    if (error == cudaErrorMemoryAllocation) {  // what is spare may be what is missing
      cudaGetLastError();
      release_spare();
      error = cudaMalloc(&pointer, bytes);
    }
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory(detail::concat("the CUDA device has no ", bytes, " bytes"));
    }
    check(error, "allocation");
    reserved_ += bytes;
    return pointer;
  }

  void deallocate(void* pointer, std::size_t bytes) {
    (captured_.contains(pointer) ? captured_spare_ : spare_).emplace(nonzero(bytes), pointer);
  }
  std::size_t reserved_bytes() const { return reserved_; }

 private:
  using Spare = std::multimap<std::size_t, void*>;  // by bytes

  static std::size_t nonzero(std::size_t bytes) { return bytes == 0 ? 1 : bytes; }
  static void* take(Spare& spare, std::size_t bytes) {
    const auto found = spare.find(bytes);
    if (found == spare.end()) return nullptr;
    void* const pointer = found->second;
    spare.erase(found);
    return pointer;
  }
  void release_spare() {
    for (const auto& [bytes, pointer] : spare_) {
      cudaFree(pointer);
      reserved_ -= bytes;
    }
    spare_.clear();
  }

  Spare spare_, captured_spare_;
  std::set<void*> captured_;
  std::size_t reserved_ = 0;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    check(cudaSetDevice(index), "device");
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "device");
    comm_priority_ = greatest;
    caller_stream_ = std::make_unique<CudaStream>(index, least);
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  Stream& caller_stream() override { return *caller_stream_; }
  // Communication goes before compute where both could run.
  std::unique_ptr<Stream> create_stream(const std::string&) override {
    check(cudaSetDevice(index_), "device");
    return std::make_unique<CudaStream>(index_, comm_priority_);
  }
  void* allocate(std::size_t bytes) override {
    check(cudaSetDevice(index_), "device");
    return pool_.allocate(bytes, caller_stream_->capturing());
  }
  bool reaches(const void* memory) const override {
    cudaPointerAttributes attributes = {};
    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess) {
      return attributes.devicePointer != nullptr;
    }
    cudaGetLastError();
    return false;
  }
  void deallocate(void* pointer, std::size_t bytes) noexcept override {
    pool_.deallocate(pointer, bytes);
  }
  void* allocate_staging(std::size_t bytes) override {
    check(cudaSetDevice(index_), "device");
    void* pointer = nullptr;
    if (cudaMallocHost(&pointer, bytes) == cudaSuccess && pointer != nullptr) {
      pinned_.insert(pointer);
      return pointer;
    }
    cudaGetLastError();  // pages may not be locked: copies then wait for the host
    return Device::allocate_staging(bytes);
  }
  void deallocate_staging(void* pointer, std::size_t bytes) noexcept override {
    if (pinned_.erase(pointer) == 0) return Device::deallocate_staging(pointer, bytes);
    cudaFreeHost(pointer);
  }
  std::size_t reserved_bytes() const override { return pool_.reserved_bytes(); }

 private:
  const int index_;
  std::set<void*> pinned_;
  int comm_priority_ = 0;
  CudaPool pool_;
  std::unique_ptr<CudaStream> caller_stream_;
};

}  // namespace

int cuda_device_count() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void connect_cuda_devices(int count) {
  for (int device = 0; device < count; ++device) {
    for (int peer = 0; peer < count; ++peer) {
      if (peer == device) continue;
      int can = 0;
      check(cudaDeviceCanAccessPeer(&can, device, peer), "peer access");
      if (can == 0) {
        throw CudaError(detail::concat("CUDA device ", device,
                                       " cannot reach the memory of device ", peer,
                                       "; ranks as threads need devices that can"));
      }
      check(cudaSetDevice(device), "device");
      const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
      if (error == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
      } else {
        check(error, "peer access");
      }
    }
  }
}

namespace {

// Throws unless there is such a device.
void check_index(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    throw CudaError(detail::concat("no CUDA device here: ", error == cudaSuccess
                                                                ? "none is installed"
                                                                : cudaGetErrorString(error)));
  }
  if (index < 0 || index >= count) {
    throw CudaError(detail::concat("CUDA device ", index, ": there is no such device; valid: 0 to ",
                                   count - 1));
  }
}

}  // namespace

CudaMemory cuda_memory(int index) {
  check_index(index);
  int current = 0;  // stays what it was: the caller's kernels go there
  check(cudaGetDevice(&current), "device");
  check(cudaSetDevice(index), "device");
  CudaMemory memory;
  const cudaError_t error = cudaMemGetInfo(&memory.free, &memory.total);
  check(cudaSetDevice(current), "device");
  check(error, "memory");
  return memory;
}

std::unique_ptr<Device> make_cuda_device(int index) {
  check_index(index);
  return std::make_unique<CudaDevice>(index);
}

}  // namespace zero
