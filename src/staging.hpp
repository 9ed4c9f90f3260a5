// Host memory of one rank that a device copies from and to on its own, counted in its ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "zero/device.hpp"
#include "zero/ledger.hpp"

namespace zero {

class Staging {
 public:
  Staging() = default;
  // Contents undefined. REQUIRES: device and ledger outlive it.
  Staging(Device& device, Ledger& ledger, std::size_t bytes)
      : device_(&device),
        ledger_(&ledger),
        data_(static_cast<std::byte*>(device.allocate_staging(bytes))),
        bytes_(bytes) {
    ledger.charge(Category::kWorkspace, static_cast<std::int64_t>(bytes));
  }
  ~Staging() {
    if (data_ == nullptr) return;
    ledger_->release(Category::kWorkspace, static_cast<std::int64_t>(bytes_));
    device_->deallocate_staging(data_, bytes_);
  }
  Staging(Staging&& other) noexcept
      : device_(other.device_),
        ledger_(other.ledger_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_) {}
  Staging& operator=(Staging&&) = delete;

  std::byte* data() const { return data_; }

 private:
  Device* device_ = nullptr;
  Ledger* ledger_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace zero
