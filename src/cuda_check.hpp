// What CUDA says goes on as a CudaError.
#pragma once

#include <cuda_runtime.h>

#include "zero/error.hpp"

namespace zero::detail {

// `what` was being done, in a word or two.
inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw CudaError(
      concat("CUDA: ", what, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
}

}  // namespace zero::detail
