// Sums of slices on device memory, in fp32 and in rank order or by a pairwise tree.
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"
#include "kernels/elementwise_math.hpp"
#include "kernels/sum_scaling.hpp"

namespace zero::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPack = 8;
constexpr int kMaxTreeLevels = 9;  // 2^8 sources

// Travels as a kernel argument: a little more than 4 KiB, which takes CUDA 12.1 and a driver of its
// time, or later ones.
struct Pointers {
  const void* sources[kMostSources];
  void* destinations[kMostSources];
  int source_count;
  int destination_count;
};

struct Sum {
  std::int64_t elems;
  std::int64_t head;  // elements before the first one that is aligned in every array
  float operand;
  Scaling scaling;
  bool accumulate;
};

// kCount elements from i on, read one by one or as packs.
template <class T, int kCount>
__device__ inline Pack<float, kCount> read(const void* array, std::int64_t i) {
  const T* const from = static_cast<const T*>(array) + i;
  Pack<float, kCount> out;
  if constexpr (kCount == 1) {
    out.at[0] = to_float(global_load(from));
  } else {
    const Pack<T, kCount> values = pack_load<kCount>(from);
    for (int k = 0; k < kCount; ++k) out.at[k] = to_float(values.at[k]);
  }
  return out;
}

template <class T, int kCount>
__device__ inline void write(void* array, std::int64_t i, const Pack<float, kCount>& values) {
  T* const to = static_cast<T*>(array) + i;
  Pack<T, kCount> out;
  for (int k = 0; k < kCount; ++k) out.at[k] = from_float<T>(values.at[k]);
  if constexpr (kCount == 1) {
    global_store(to, out.at[0]);
  } else {
    pack_store<kCount>(to, out);
  }
}

template <class S, int kCount>
__device__ inline Pack<float, kCount> sum_sequential(const Pointers& p, std::int64_t i) {
  Pack<float, kCount> sum = read<S, kCount>(p.sources[0], i);
  for (int s = 1; s < p.source_count; ++s) {
    const Pack<float, kCount> next = read<S, kCount>(p.sources[s], i);
    for (int k = 0; k < kCount; ++k) sum.at[k] = sum.at[k] + next.at[k];
  }
  return sum;
}

// A binary counter: a source is added to the waiting sums of the levels below it that are complete.
template <class S, int kCount>
__device__ inline Pack<float, kCount> sum_tree(const Pointers& p, std::int64_t i) {
  Pack<float, kCount> waiting[kMaxTreeLevels];
  Pack<float, kCount> sum = {};
  for (int s = 0; s < p.source_count; ++s) {
    sum = read<S, kCount>(p.sources[s], i);
    int level = 0;
    for (int bits = s; (bits & 1) != 0; bits >>= 1, ++level) {
      for (int k = 0; k < kCount; ++k) sum.at[k] = waiting[level].at[k] + sum.at[k];
    }
    waiting[level] = sum;
  }
  return sum;
}

template <class S, class D, bool kTree, int kCount>
__device__ inline void sum_at(const Pointers& p, const Sum& task, std::int64_t i) {
  Pack<float, kCount> sum = kTree ? sum_tree<S, kCount>(p, i) : sum_sequential<S, kCount>(p, i);
  for (int k = 0; k < kCount; ++k) {
    sum.at[k] = scale_element(task.scaling, sum.at[k], task.operand);
  }
  if (task.accumulate) {
    const Pack<float, kCount> before = read<D, kCount>(p.destinations[0], i);
    for (int k = 0; k < kCount; ++k) sum.at[k] = before.at[k] + sum.at[k];
  }
  for (int d = 0; d < p.destination_count; ++d) write<D, kCount>(p.destinations[d], i, sum);
}

template <class S, class D, bool kTree>
__global__ void __launch_bounds__(kThreads, 4) sum_kernel(Pointers p, Sum task) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t begin = task.head + thread * kPack;
  if (begin + kPack <= task.elems) {
    sum_at<S, D, kTree, kPack>(p, task, begin);
  } else {
    for (std::int64_t i = begin; i < task.elems; ++i) sum_at<S, D, kTree, 1>(p, task, i);
  }
  if (thread < task.head) sum_at<S, D, kTree, 1>(p, task, thread);
}

std::int64_t offset_of(const void* array, std::size_t element) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(array) / element % kPack);
}

}  // namespace

void cuda_sum(std::span<const void* const> sources, DType source_dtype,
              std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
              float divisor, bool accumulate, SumOrder order, void* stream) {
  if (sources.size() > kMostSources || destinations.size() > kMostSources) {
    throw UsageError(detail::concat("sum_slices on CUDA: ", sources.size(), " sources and ",
                                    destinations.size(), " destinations; at most ", kMostSources,
                                    " of each are valid"));
  }
  Pointers p = {};
  p.source_count = static_cast<int>(sources.size());
  p.destination_count = static_cast<int>(destinations.size());
  std::copy(sources.begin(), sources.end(), p.sources);
  std::copy(destinations.begin(), destinations.end(), p.destinations);

  const std::int64_t first = offset_of(sources[0], dtype_bytes(source_dtype));
  bool alike = true;
  for (const void* source : sources) {
    alike = alike && offset_of(source, dtype_bytes(source_dtype)) == first;
  }
  for (const void* destination : destinations) {
    alike = alike && offset_of(destination, dtype_bytes(destination_dtype)) == first;
  }
  const ScaledSum scaled = scaled_sum(divisor);
  Sum task = {elems, 0, scaled.operand, scaled.scaling, accumulate};
  const bool tree = order == SumOrder::kTree && sources.size() > 2;  // of two it is the sequence
  if (!alike) {
    task.head = elems;
  } else if (first != 0) {
    task.head = std::min<std::int64_t>(elems, kPack - first);
  }
  const std::int64_t threads = std::max((elems - task.head + kPack - 1) / kPack, task.head);
  with_dtype(source_dtype, [&](auto source) {
    with_dtype(destination_dtype, [&](auto destination) {
      using S = decltype(source);
      using D = decltype(destination);
      launch("sum_slices", tree ? sum_kernel<S, D, true> : sum_kernel<S, D, false>,
             (threads + kThreads - 1) / kThreads, kThreads, static_cast<cudaStream_t>(stream), p,
             task);
    });
  });
}

}  // namespace zero::kernels
