// The kernels in AVX-512 F, BW, VL and DQ.
//
// The target is set by pragma, for the code below only: what is included above it may be merged by
// the linker with code that has to run on every machine.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/host_kernels.hpp"

#if defined(__x86_64__)
#include "kernels/intrinsics.hpp"
#if defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
#endif

#include "kernels/copy_loops.hpp"
#include "kernels/stats_loops.hpp"
#include "kernels/sum_loops.hpp"
#include "kernels/update_loops.hpp"
#include "kernels/vector_avx512.hpp"

namespace zero::kernels {
namespace {

constexpr HostKernels kKernels{update_range<Avx512>, sum_range<Avx512>, copy_past_caches<Avx512>,
                               stats_in_bins, largest_magnitude};

}  // namespace
}  // namespace zero::kernels

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace zero::kernels {
const HostKernels* host_kernels_avx512() {
  static const HostKernels kernels = [] {
    HostKernels result = kKernels;
    if (const GradStatsFunction windowed = grad_stats_avx512ifma()) result.grad_stats = windowed;
    return result;
  }();
  return &kernels;
}
}  // namespace zero::kernels

#else
namespace zero::kernels {
const HostKernels* host_kernels_avx512() { return nullptr; }
}  // namespace zero::kernels
#endif
