// Values in the memory of any device, for tests that compare them bit for bit and look for stray
// writes beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/kernels.hpp"
#include "zero/device.hpp"
#include "zero/dtype.hpp"

namespace zero::contract {

// Elements of a dtype between two rows of guards, all of it poison (NaN in every dtype) at first,
// in the memory of a device. Addresses are of that memory; values are written and read on the host,
// and what was written is on the device when an address is next asked for. REQUIRES: no work on
// them is under way when values are written or read.
class Cells {
 public:
  Cells(Device& device, std::int64_t elems, DType dtype)
      : device_(device.kind() == DeviceKind::kHost ? nullptr : &device),
        elems_(elems),
        dtype_(dtype),
        bytes_(static_cast<std::size_t>((elems + 2 * kGuard) * width()), kPoison) {
    if (device_ != nullptr) memory_ = static_cast<std::byte*>(device_->allocate(bytes_.size()));
  }
  ~Cells() {
    if (device_ != nullptr) device_->deallocate(memory_, bytes_.size());
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  std::byte* at(std::int64_t i) {
    if (device_ == nullptr) return on_host(i);
    if (newer_on_host_) move(memory_, bytes_.data());
    newer_on_host_ = false;
    return memory_ + (kGuard + i) * width();
  }
  std::byte* data() { return at(0); }
  void set(std::int64_t i, float value) {
    fetch();
    newer_on_host_ = true;
    with_dtype(dtype_, [&](auto tag) {
      tag = from_float<decltype(tag)>(value);
      std::memcpy(on_host(i), &tag, sizeof tag);
    });
  }
  template <class Value>
  void fill(Value value) {
    for (std::int64_t i = 0; i < elems_; ++i) set(i, value(i));
  }
  // The first element of [begin, end) that is not as told; -1 if all are, -2 if a guard was hit.
  template <class Value>
  std::int64_t mismatch(std::int64_t begin, std::int64_t end, Value value) {
    fetch();
    for (std::int64_t i = 1; i <= kGuard * width(); ++i) {
      if (bytes_[static_cast<std::size_t>(i - 1)] != kPoison) return -2;
      if (bytes_[bytes_.size() - static_cast<std::size_t>(i)] != kPoison) return -2;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      if (!(get(i) == value(i))) return i;
    }
    return -1;
  }
  template <class Value>
  std::int64_t mismatch(Value value) {
    return mismatch(0, elems_, value);
  }

  std::vector<float> values() {
    fetch();
    std::vector<float> all;
    for (std::int64_t i = 0; i < elems_; ++i) all.push_back(get(i));
    return all;
  }

 private:
  static constexpr std::int64_t kGuard = 16;
  static constexpr unsigned char kPoison = 0xff;
  std::int64_t width() const { return static_cast<std::int64_t>(dtype_bytes(dtype_)); }
  std::byte* on_host(std::int64_t i) {
    return reinterpret_cast<std::byte*>(bytes_.data()) + (kGuard + i) * width();
  }
  float get(std::int64_t i) {
    return with_dtype(dtype_, [&](auto tag) {
      std::memcpy(&tag, on_host(i), sizeof tag);
      return to_float(tag);
    });
  }
  void fetch() {
    if (device_ == nullptr || newer_on_host_) return;
    move(bytes_.data(), memory_);
    newer_on_host_ = true;  // until an address is asked for, it stays as it is
  }
  void move(void* to, const void* from) {
    kernels::copy(to, from, static_cast<std::int64_t>(bytes_.size()), device_->caller_stream());
    device_->caller_stream().synchronize();
  }

  Device* const device_;  // null: the host, and there is no memory but `bytes_`
  const std::int64_t elems_;
  const DType dtype_;
  std::vector<unsigned char> bytes_;
  std::byte* memory_ = nullptr;
  bool newer_on_host_ = true;
};

}  // namespace zero::contract
