// Copies and fills of host memory.
#include <cstring>

#include "kernels/host_kernels.hpp"
#include "kernels/on_stream.hpp"

namespace zero::kernels {
namespace {

// Copies at or above this go past the caches.
constexpr std::int64_t kStreamedBytes = std::int64_t{8} << 20;

}  // namespace

void copy_now(void* dst, const void* src, std::int64_t bytes) {
  if (dst == src || bytes == 0) return;
  if (bytes >= kStreamedBytes) {
    host_kernels().copy_streamed(dst, src, bytes);
  } else {
    std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  }
}

void copy(void* dst, const void* src, std::int64_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("copy").copy(dst, src, bytes, stream.native());
  }
  on_stream("copy", stream, [=] { copy_now(dst, src, bytes); });
}

void fill_bytes(void* dst, unsigned char value, std::int64_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("fill_bytes").fill_bytes(dst, value, bytes, stream.native());
  }
  on_stream("fill_bytes", stream,
            [=] { std::memset(dst, value, static_cast<std::size_t>(bytes)); });
}

}  // namespace zero::kernels
