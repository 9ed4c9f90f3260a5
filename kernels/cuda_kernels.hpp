// The kernels on device memory, as the dispatcher sees them: no CUDA types, so that it compiles
// without a toolkit. Each enqueues its work on a stream and returns. Errors: CudaError.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernels.hpp"

namespace zero::kernels {

struct CudaKernels {
  // `stream` is a cudaStream_t.
  void (*update)(const UpdateRange& range, const UpdateConstants& constants, void* stream);
  // `scaling` and `operand` as in SumTask; at most kMostSources pointers.
  void (*sum)(std::span<const void* const> sources, DType source_dtype,
              std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
              float divisor, bool accumulate, SumOrder order, void* stream);
  void (*copy)(void* dst, const void* src, std::int64_t bytes, void* stream);
  void (*fill_bytes)(void* dst, unsigned char value, std::int64_t bytes, void* stream);
  // Adds to `stats`, which is in device memory.
  void (*grad_stats)(ConstView grad, GradStats* stats, void* stream);
  // Writes the index of the first element that is not finite, or -1, to device memory.
  void (*first_nonfinite)(ConstView grad, std::int64_t* index, void* stream);
};

// Ranks whose slices one sum can read.
inline constexpr int kMostSources = 256;

// Null where the library is built without CUDA.
const CudaKernels* cuda_kernels();

}  // namespace zero::kernels
