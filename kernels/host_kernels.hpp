// The host kernels of one instruction set, as the dispatcher sees them.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"

namespace zero::kernels {

// How a sum is divided. A power of two is divided by through its reciprocal: the same real number
// rounded once, hence the same bits as the division.
enum class Scaling : std::uint8_t { kNone, kMultiply, kDivide };

// What sum_slices works on. `sources` and `destinations` are tables of pointers.
struct SumTask {
  const void* const* sources;
  std::int64_t source_count;
  DType source_dtype;
  void* const* destinations;
  std::int64_t destination_count;
  DType destination_dtype;
  std::int64_t elems;
  Scaling scaling;
  float operand;  // of the scaling
  bool accumulate;
  bool tree;
  bool streamed;  // write past the caches. REQUIRES: destinations aligned alike to 64 bytes
};

using GradStatsFunction = void (*)(ConstView grad, GradStats* stats);

struct HostKernels {
  // `streamed`: the 16-bit parameters are written past the caches.
  void (*update)(const UpdateRange& range, const UpdateConstants& constants, bool streamed);
  void (*sum)(const SumTask& task);
  // Copies past the caches.
  void (*copy_streamed)(void* dst, const void* src, std::int64_t bytes);
  GradStatsFunction grad_stats;
  std::uint32_t (*max_abs_bits)(ConstView grad);
};

const HostKernels& host_kernels_baseline();
// Null where the compiler's target has no such instructions.
const HostKernels* host_kernels_avx2();
const HostKernels* host_kernels_avx512();

// A faster grad_stats for AVX-512 machines that have IFMA; null on others.
GradStatsFunction grad_stats_avx512ifma();

// The selected ones.
const HostKernels& host_kernels();

}  // namespace zero::kernels
