// Where the ranks of a test hold their memory, and how a test's model, which computes on the host,
// reaches it.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/kernels.hpp"
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

// `count` elements of a model's memory for host code to read and, unless const, to write. On a CUDA
// device it is a copy: made in the order of the caller's stream, and written back at the end. Both
// block.
template <class T>
class HostView {
 public:
  HostView(Device& device, T* memory, std::int64_t count)
      : memory_(memory), count_(count), stream_(device.caller_stream()), data_(memory) {
    if (device.kind() == DeviceKind::kHost || count == 0) return;
    copy_.resize(static_cast<std::size_t>(count));
    data_ = copy_.data();
    kernels::copy(copy_.data(), memory, bytes(), stream_);
    stream_.synchronize();
  }
  ~HostView() {
    if constexpr (!std::is_const_v<T>) {
      if (copy_.empty()) return;
      kernels::copy(memory_, copy_.data(), bytes(), stream_);
      stream_.synchronize();
    }
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  T* data() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  std::int64_t bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

  T* memory_;
  std::int64_t count_;
  Stream& stream_;
  std::vector<std::remove_const_t<T>> copy_;
  T* data_;
};

}  // namespace zero::test
