#include "zero/device.hpp"

#include <new>

#include "zero/error.hpp"

namespace zero {

void* Device::allocate_staging(std::size_t bytes) {
  try {
    return ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{kAlignment});
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(detail::concat("the host has no ", bytes, " bytes for staging"));
  }
}

void Device::deallocate_staging(void* pointer, std::size_t) noexcept {
  ::operator delete (pointer, std::align_val_t{kAlignment});
}

}  // namespace zero
