// Memory of a CUDA device for tests, real or emulated.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/kernels.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero::test {

// Null where there is no device; then the reason is in `why`.
inline std::unique_ptr<Device> cuda_device_or_null(std::string* why) {
  try {
    return make_cuda_device();
  } catch (const CudaError& error) {
    *why = error.what();
    return nullptr;
  }
}

// A test that needs a CUDA device, and is skipped where there is none.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    device = cuda_device_or_null(&why);
    if (device == nullptr) GTEST_SKIP() << why;
  }
  Stream& stream() { return device->caller_stream(); }

  std::unique_ptr<Device> device;
};

// A copy of a vector in device memory, of which the first element may be at any offset.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, const std::vector<T>& values, std::size_t offset = 0)
      : device_(device),
        count_(values.size()),
        offset_(offset),
        bytes_((values.size() + offset) * sizeof(T)),
        memory_(device.allocate(bytes_)) {
    kernels::copy(data(), values.data(), size_bytes(), device.caller_stream());
    device.caller_stream().synchronize();
  }
  ~OnDevice() { device_.deallocate(memory_, bytes_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return static_cast<T*>(memory_) + offset_; }
  kernels::View view() const { return {data(), *kDTypeOf<T>, static_cast<std::int64_t>(count_)}; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    kernels::copy(values.data(), data(), size_bytes(), device_.caller_stream());
    device_.caller_stream().synchronize();
    return values;
  }

 private:
  std::int64_t size_bytes() const { return static_cast<std::int64_t>(count_ * sizeof(T)); }

  Device& device_;
  std::size_t count_;
  std::size_t offset_;
  std::size_t bytes_;
  void* memory_;
};

}  // namespace zero::test
