#include "zero/copy.hpp"

#include "kernels/kernels.hpp"

namespace zero {

void copy(void* to, const void* from, std::size_t bytes, Stream& stream) {
  kernels::copy(to, from, static_cast<std::int64_t>(bytes), stream);
}

}  // namespace zero
