// Statistics of gradients on device memory: the exact sum of squares, the largest magnitude, and
// where something is not finite. Whole numbers add in any order, so blocks may come in any.
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"
#include "kernels/reduce_math.hpp"

namespace zero::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kBins = 256;                   // one per exponent field
constexpr std::int64_t kBlockElems = 65536;  // squares below 2^48 that surely fit 64 bits
constexpr std::int64_t kNone = -1;

// One block: a bin of shared memory for each exponent, added to the digits at its end.
template <class G>
__global__ void __launch_bounds__(kThreads)
    stats_kernel(const G* grad, std::int64_t elems, GradStats* stats) {
  __shared__ std::uint64_t bins[kBins];
  __shared__ std::uint64_t digits[GradStats::kDigits];
  __shared__ std::uint32_t largest[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  bins[thread] = 0;
  if (thread < GradStats::kDigits) digits[thread] = 0;
  __syncthreads();

  const std::int64_t begin = std::int64_t{blockIdx.x} * kBlockElems;
  const std::int64_t end = begin + kBlockElems < elems ? begin + kBlockElems : elems;
  std::uint32_t most = 0;
  for (std::int64_t i = begin + thread; i < end; i += kThreads) {
    const std::uint32_t bits =
        std::bit_cast<std::uint32_t>(to_float(global_load(grad + i))) & kAbsMask;
    most = bits > most ? bits : most;
    if (bits < kInfinityBits) shared_atomic_add(&bins[exponent_field(bits)], mantissa_square(bits));
  }
  largest[thread] = most;
  __syncthreads();

  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half && largest[thread + half] > largest[thread]) {
      largest[thread] = largest[thread + half];
    }
    __syncthreads();
  }
  // A bin is below 2^64 and lands in three digits, each part below 2^32: no digit overflows.
  if (bins[thread] != 0) {
    std::uint64_t part[3] = {};
    const int position = square_position(static_cast<std::uint32_t>(thread));
    add_at_bit(part, bins[thread], position % 32);
    for (int k = 0; k < 3; ++k) shared_atomic_add(&digits[position / 32 + k], part[k]);
  }
  __syncthreads();
  // Digits of all blocks are added as they are; 2^31 blocks of 2^40 would not fill one.
  if (thread < GradStats::kDigits && digits[thread] != 0) {
    global_atomic_add(&stats->sum_squares[static_cast<std::size_t>(thread)], digits[thread]);
  }
  if (thread == 0) global_atomic_max(&stats->max_abs_bits, largest[0]);
}

__global__ void begin_search(std::int64_t* index) { global_store(index, kNone); }

// The lowest index: as unsigned, -1 is above all.
template <class G>
__global__ void __launch_bounds__(kThreads)
    search_kernel(const G* grad, std::int64_t elems, std::uint64_t* index) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elems) return;
  const std::uint32_t bits =
      std::bit_cast<std::uint32_t>(to_float(global_load(grad + i))) & kAbsMask;
  if (bits >= kInfinityBits) global_atomic_min(index, static_cast<std::uint64_t>(i));
}

}  // namespace

void cuda_grad_stats(ConstView grad, GradStats* stats, void* stream) {
  with_dtype(grad.dtype, [&](auto tag) {
    using G = decltype(tag);
    launch("grad_stats", stats_kernel<G>, (grad.elems + kBlockElems - 1) / kBlockElems, kThreads,
           static_cast<cudaStream_t>(stream), static_cast<const G*>(grad.data), grad.elems, stats);
  });
}

void cuda_first_nonfinite(ConstView grad, std::int64_t* index, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  launch("first_nonfinite", begin_search, 1, 1, on, index);
  if (grad.elems == 0) return;
  with_dtype(grad.dtype, [&](auto tag) {
    using G = decltype(tag);
    launch("first_nonfinite", search_kernel<G>, (grad.elems + kThreads - 1) / kThreads, kThreads,
           on, static_cast<const G*>(grad.data), grad.elems,
           reinterpret_cast<std::uint64_t*>(index));
  });
}

}  // namespace zero::kernels
