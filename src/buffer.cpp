#include "zero/buffer.hpp"

#include <limits>
#include <utility>

#include "zero/error.hpp"

namespace zero {

Buffer::Buffer(Device& device, Ledger& ledger, Category category, std::int64_t elems, DType dtype,
               std::string_view owner)
    : elems_(elems), dtype_(dtype), category_(category) {
  const auto most =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(dtype_bytes(dtype));
  if (elems < 0 || elems > most) {
    throw UsageError(detail::concat("a buffer of ", elems, " elements of ", dtype_name(dtype),
                                    " for ", owner, ": 0 to ", most, " are valid"));
  }
  try {
    data_ = static_cast<std::byte*>(device.allocate(static_cast<std::size_t>(bytes())));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(detail::concat("out of memory: ", bytes(), " bytes of ",
                                     category_name(category), " for ", owner, ": ", error.what(),
                                     "\n", ledger.table()));
  }
  device_ = &device;
  ledger_ = &ledger;
  ledger.charge(category, bytes());
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  device_ = other.device_;
  ledger_ = other.ledger_;
  data_ = std::exchange(other.data_, nullptr);
  elems_ = std::exchange(other.elems_, 0);
  dtype_ = other.dtype_;
  category_ = other.category_;
  return *this;
}

void Buffer::reset() noexcept {
  if (data_ == nullptr) return;
  // The account goes down before the memory goes back, so that no one sees it counted twice.
  ledger_->release(category_, bytes());
  device_->deallocate(data_, static_cast<std::size_t>(bytes()));
  data_ = nullptr;
  elems_ = 0;
}

}  // namespace zero
