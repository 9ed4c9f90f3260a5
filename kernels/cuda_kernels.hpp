// The kernels on device memory, as the dispatcher sees them: no CUDA types, so that it compiles
// without a toolkit. Each enqueues its work on a stream and returns. Errors: CudaError.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/decision.hpp"

namespace zero::kernels {

struct CudaKernels {
  // `stream` is a cudaStream_t.
  void (*update_shard)(const UpdateRange& owned, PieceTable pieces,
                       const UpdateConstants* constants, UpdateConstants::Rule rule, void* stream);
  // As sum_slices(); at most kMostSources pointers of either kind.
  void (*sum)(std::span<const void* const> sources, DType source_dtype,
              std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
              float divisor, bool accumulate, SumOrder order, void* stream);
  void (*copy)(void* dst, const void* src, std::int64_t bytes, void* stream);
  void (*fill_bytes)(void* dst, unsigned char value, std::int64_t bytes, void* stream);
  void (*grad_stats)(ConstView grad, PieceTable pieces, std::int64_t first_elem,
                     std::int32_t fallback_param, GradStats* stats, std::uint64_t* bad_param,
                     void* stream);
  void (*begin_vote)(const StepRules& rules, const StepMemory& memory, void* stream);
  void (*decide)(const StepRules& rules, const StepMemory& memory, void* stream);
};

// Ranks whose slices one sum can read.
inline constexpr int kMostSources = 256;

// Null where the library is built without CUDA.
const CudaKernels* cuda_kernels();

}  // namespace zero::kernels
