// Where memory lives and work is ordered.
//
// A Device belongs to one rank and gives memory and streams. Work handed to a Stream runs in order;
// an Event is a point in that order that another stream, or the calling thread, can wait for. On
// the host a stream is either a worker thread with a queue, so overlap and ordering faults are
// real, or the calling thread itself (`caller_stream`), where user code runs.
//
// Thread-safety: a Device and its streams are driven by one issuing thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "zero/device_kind.hpp"

namespace zero {

// The clockwork behind the events of one stream. Internal to device implementations.
class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual bool done(std::uint64_t ticket) const = 0;
  // Blocks the calling thread until the ticket is reached. Rethrows what the work before it threw.
  virtual void wait(std::uint64_t ticket) = 0;
};

// A point in the order of a stream: a cheap value. A default-made event is complete.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<EventSource> source, std::uint64_t ticket)
      : source_(std::move(source)), ticket_(ticket) {}

  bool done() const { return source_ == nullptr || source_->done(ticket_); }
  // Blocks the calling thread. Rethrows the error of the work before the event, if there was one.
  void synchronize() const {
    if (source_ != nullptr) source_->wait(ticket_);
  }
  // For device implementations.
  const std::shared_ptr<EventSource>& source() const { return source_; }
  std::uint64_t ticket() const { return ticket_; }

 private:
  std::shared_ptr<EventSource> source_;
  std::uint64_t ticket_ = 0;
};

class Stream {
 public:
  using Task = std::function<void()>;

  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  DeviceKind kind() const { return kind_; }
  // The backend's own stream, a cudaStream_t; null on the host and on the meta device. Makes its
  // CUDA device the current one of the calling thread.
  virtual void* native() const { return nullptr; }

  // Host work, run in order. If a task throws, the error is kept, later tasks are dropped, and
  // every wait for a later event rethrows it. The caller stream runs the task before it returns.
  virtual void enqueue(Task task) = 0;
  // A point after all work enqueued so far.
  virtual Event record() = 0;
  // Work enqueued from now on starts after the event. On the caller stream this blocks.
  virtual void wait(const Event& event) = 0;
  // Blocks until all work is done. Rethrows the error of a task.
  virtual void synchronize() = 0;
  // Whether what is enqueued now goes into a CUDA graph instead of being run.
  virtual bool capturing() const { return false; }

 protected:
  explicit Stream(DeviceKind kind) : kind_(kind) {}

 private:
  DeviceKind kind_;
};

class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual DeviceKind kind() const = 0;
  // False on the meta device: addresses may be compared and cut, never read or written.
  bool has_memory() const { return kind() != DeviceKind::kMeta; }
  // The order in which the user's own forward and backward code runs.
  virtual Stream& caller_stream() = 0;
  // A stream of its own, for communication beside compute. `name` shows in debuggers.
  virtual std::unique_ptr<Stream> create_stream(const std::string& name) = 0;

  // Memory aligned to kAlignment bytes, contents undefined. Never null, also for 0 bytes.
  // Throws OutOfMemory. Use Buffer, which counts in the ledger, rather than these.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer, std::size_t bytes) noexcept = 0;
  // Whether kernels on this device can follow an address. True on the host and the meta device.
  virtual bool reaches(const void* /*memory*/) const { return true; }
  // Host memory for copies from and to the device that no one waits for: pinned where that can be
  // had. Aligned and never null. Throws OutOfMemory.
  virtual void* allocate_staging(std::size_t bytes);
  virtual void deallocate_staging(void* pointer, std::size_t bytes) noexcept;
  // Bytes obtained from the system so far; steady once training has warmed up.
  virtual std::size_t reserved_bytes() const = 0;

  static constexpr std::size_t kAlignment = 128;
};

// The host: memory from an arena of huge pages that grows in the first step and is then re-used, so
// that a step in steady state causes no page fault.
std::unique_ptr<Device> make_host_device();

// A CUDA device of this machine: device memory that is kept once taken, streams of their own. The
// caller's kernels run on caller_stream().native(). Throws CudaError where there is no such device,
// or the library is built without CUDA.
std::unique_ptr<Device> make_cuda_device(int index = 0);

// CUDA devices that can be used; 0 where there is none, or the library is built without CUDA.
int cuda_device_count() noexcept;

// Bytes of a CUDA device's memory as the driver counts them, for all processes that use it.
struct CudaMemory {
  std::size_t free = 0;
  std::size_t total = 0;
};
// Does not wait for work on the device. Throws CudaError where there is no such device, or the
// library is built without CUDA.
CudaMemory cuda_memory(int index = 0);

// Lets kernels on each of the first `count` devices read and write the memory of the others. Throws
// CudaError naming two devices that cannot.
void connect_cuda_devices(int count);

// A device without memory and arithmetic: the same calls hand out distinct addresses that nothing
// stands behind, and drop all work. Running the library on it foretells what a real run will hold.
// Addresses are never handed out twice, so that misuse faults instead of hitting something.
std::unique_ptr<Device> make_meta_device();

}  // namespace zero
