// Copies and fills of device memory. Either side of a copy may be host memory.
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"

namespace zero::kernels {

void cuda_copy(void* dst, const void* src, std::int64_t bytes, void* stream) {
  check_cuda(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                             static_cast<cudaStream_t>(stream)),
             "copy");
}

void cuda_fill_bytes(void* dst, unsigned char value, std::int64_t bytes, void* stream) {
  check_cuda(cudaMemsetAsync(dst, value, static_cast<std::size_t>(bytes),
                             static_cast<cudaStream_t>(stream)),
             "fill_bytes");
}

}  // namespace zero::kernels
