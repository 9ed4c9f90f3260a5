// How a model that computes on the host reaches memory that may be a CUDA device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "zero/copy.hpp"
#include "zero/device.hpp"

namespace zero {

// `count` elements of memory of a device for host code to read and, unless const, to write. On the
// host it is that memory. On a CUDA device it is a copy: made in the order of the caller's stream,
// and written back at the end of the view; both block.
template <class T>
class HostView {
 public:
  HostView(Device& device, T* memory, std::int64_t count)
      : memory_(memory), count_(count), stream_(device.caller_stream()), data_(memory) {
    if (device.kind() == DeviceKind::kHost || count == 0) return;
    copy_.resize(static_cast<std::size_t>(count));
    data_ = copy_.data();
    copy(copy_.data(), memory, bytes(), stream_);
    stream_.synchronize();
  }
  ~HostView() {
    if constexpr (!std::is_const_v<T>) {
      if (copy_.empty()) return;
      try {
        copy(memory_, copy_.data(), bytes(), stream_);
        stream_.synchronize();
      } catch (...) {  // an error of the stream: who next waits for it gets it
      }
    }
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  T* data() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }

  T* memory_;
  std::int64_t count_;
  Stream& stream_;
  std::vector<std::remove_const_t<T>> copy_;
  T* data_;
};

}  // namespace zero
