// Owning memory of one rank, counted in its ledger.
//
// Move-only: a copy could not say on which stream it is made. Releasing is a decision of the
// issuing thread: whoever re-uses the memory orders its work after the last use. Thread-safety: one
// thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "zero/device.hpp"
#include "zero/dtype.hpp"
#include "zero/ledger.hpp"

namespace zero {

class Buffer {
 public:
  Buffer() = default;
  // `elems` elements of `dtype`, contents undefined. `owner` names parameter or bucket in errors.
  // Throws OutOfMemory naming category, owner, bytes asked, with the ledger table; UsageError for
  // sizes that no count of bytes can hold.
  // REQUIRES: device and ledger outlive the buffer.
  Buffer(Device& device, Ledger& ledger, Category category, std::int64_t elems, DType dtype,
         std::string_view owner);
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Gives the memory back. Does nothing on an empty buffer.
  void reset() noexcept;

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  // Address of element `index`. REQUIRES: 0 <= index <= elems().
  std::byte* at(std::int64_t index) const {
    return data_ + index * static_cast<std::int64_t>(dtype_bytes(dtype_));
  }
  float* floats() const { return reinterpret_cast<float*>(data_); }  // REQUIRES: dtype fp32
  std::int64_t elems() const { return elems_; }
  std::int64_t bytes() const { return elems_ * static_cast<std::int64_t>(dtype_bytes(dtype_)); }
  DType dtype() const { return dtype_; }

 private:
  Device* device_ = nullptr;
  Ledger* ledger_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t elems_ = 0;
  DType dtype_ = DType::kFloat32;
  Category category_ = Category::kWorkspace;
};

}  // namespace zero
