// Where the ranks of a test hold their memory, and how a test's model, which computes on the host,
// reaches it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tools/host_view.hpp"
#include "zero/world.hpp"

namespace zero::test {

// The environment's ZERO_TEST_DEVICE: "cuda", or the host.
inline DeviceKind test_device() {
  const char* const device = std::getenv("ZERO_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda" ? DeviceKind::kCuda
                                                                 : DeviceKind::kHost;
}

// run_ranks() on that device.
inline void run_on_device(int world_size, const std::function<void(World&)>& body,
                          std::chrono::duration<double> timeout = std::chrono::seconds(60)) {
  RunOptions options;
  options.device = test_device();
  options.timeout = timeout;
  run_ranks(world_size, body, options);
}

using zero::HostView;

// A world of one rank there.
inline World test_world() {
  return test_device() == DeviceKind::kCuda ? World::cuda() : World::from_environment();
}

inline std::unique_ptr<Device> make_test_device() {
  return test_device() == DeviceKind::kCuda ? make_cuda_device() : make_host_device();
}

// Memory of a device for data that a test hands over, zeroed. Blocks to do so. REQUIRES: nothing
// uses it any more at its end; on CUDA another rank may, since the device keeps what it was given
// back.
class Room {
 public:
  Room(Device& device, std::size_t bytes) : device_(device), host_(bytes) {
    if (device.kind() != DeviceKind::kCuda) return;
    memory_ = static_cast<std::byte*>(device.allocate(bytes));
    copy(memory_, host_.data(), bytes, device.caller_stream());
    device.caller_stream().synchronize();
  }
  ~Room() {
    if (memory_ != nullptr) device_.deallocate(memory_, host_.size());
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // On the host from the heap, where the sanitizers see a use that is too late or too far.
  void* data() { return memory_ == nullptr ? host_.data() : memory_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }

 private:
  Device& device_;
  std::vector<std::byte> host_;
  std::byte* memory_ = nullptr;
};

}  // namespace zero::test
