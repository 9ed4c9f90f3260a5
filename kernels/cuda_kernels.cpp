#include "kernels/cuda_kernels.hpp"

#include "kernels/cuda_kernels_impl.hpp"

namespace zero::kernels {

const CudaKernels* cuda_kernels() {
  static constexpr CudaKernels kKernels = {cuda_update_shard, cuda_sum,        cuda_copy,
                                           cuda_fill_bytes,   cuda_grad_stats, cuda_begin_vote,
                                           cuda_decide};
  return &kKernels;
}

}  // namespace zero::kernels
