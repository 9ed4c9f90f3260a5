// The loop of sum_slices, cast and add, for the instruction set of the including file.
#pragma once

#include "kernels/elementwise_math.hpp"
#include "kernels/host_kernels.hpp"
#include "kernels/number.hpp"

namespace zero::kernels {

inline constexpr int kMaxTreeLevels = 11;  // 2^10 sources
inline constexpr std::int64_t kSumPrefetchBytes = 1536;

// The lines that a block of a source will read some iterations later.
template <class N, class S, int kNumbers>
ZERO_MATH void prefetch_block(const S* source) {
  if constexpr (Lanes<N>::kWidth > 1) {
    constexpr std::int64_t kBytes = kNumbers * Lanes<N>::kWidth * static_cast<int>(sizeof(S));
    const char* from = reinterpret_cast<const char*>(source) + kSumPrefetchBytes;
    for (std::int64_t line = 0; line < kBytes; line += 64) __builtin_prefetch(from + line);
  }
}

// Sums one block of kNumbers numbers per source into `sum`. All sources are read before the caller
// writes, so a destination may be a source.
template <class N, class S, int kNumbers>
ZERO_MATH void sum_sequential(const SumTask& t, std::int64_t i, N* sum) {
  constexpr std::int64_t kWidth = Lanes<N>::kWidth;
  const S* first = static_cast<const S*>(t.sources[0]) + i;
  prefetch_block<N, S, kNumbers>(first);
  for (int k = 0; k < kNumbers; ++k) sum[k] = load<N>(first + k * kWidth);
  for (std::int64_t s = 1; s < t.source_count; ++s) {
    const S* source = static_cast<const S*>(t.sources[s]) + i;
    prefetch_block<N, S, kNumbers>(source);
    for (int k = 0; k < kNumbers; ++k) sum[k] = sum[k] + load<N>(source + k * kWidth);
  }
}

// The pairwise tree as a binary counter: a source is added to the waiting sums of the levels below
// it that are complete.
template <class N, class S, int kNumbers>
ZERO_MATH void sum_tree(const SumTask& t, std::int64_t i, N* sum) {
  constexpr std::int64_t kWidth = Lanes<N>::kWidth;
  N waiting[kMaxTreeLevels][kNumbers];
  for (int k = 0; k < kNumbers; ++k) sum[k] = spread<N>(0.0f);
  for (std::int64_t s = 0; s < t.source_count; ++s) {
    const S* source = static_cast<const S*>(t.sources[s]) + i;
    prefetch_block<N, S, kNumbers>(source);
    for (int k = 0; k < kNumbers; ++k) sum[k] = load<N>(source + k * kWidth);
    int level = 0;
    for (std::int64_t bits = s; (bits & 1) != 0; bits >>= 1, ++level) {
      for (int k = 0; k < kNumbers; ++k) sum[k] = waiting[level][k] + sum[k];
    }
    for (int k = 0; k < kNumbers; ++k) waiting[level][k] = sum[k];
  }
}

template <class N, class S, class D, int kNumbers>
ZERO_MATH void sum_block(const SumTask& t, std::int64_t i, N operand, N* sum) {
  constexpr std::int64_t kWidth = Lanes<N>::kWidth;
  if (t.tree) {
    sum_tree<N, S, kNumbers>(t, i, sum);
  } else {
    sum_sequential<N, S, kNumbers>(t, i, sum);
  }
  for (int k = 0; k < kNumbers; ++k) sum[k] = scale_element(t.scaling, sum[k], operand);
  if (t.accumulate) {
    const D* before = static_cast<const D*>(t.destinations[0]) + i;
    for (int k = 0; k < kNumbers; ++k) sum[k] = load<N>(before + k * kWidth) + sum[k];
  }
}

template <class S, class D>
static void sum_scalars(const SumTask& t, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    float sum[1] = {0};
    sum_block<float, S, D, 1>(t, i, t.operand, sum);
    for (std::int64_t d = 0; d < t.destination_count; ++d) {
      static_cast<D*>(t.destinations[d])[i] = from_float<D>(sum[0]);
    }
  }
}

template <class N, class S, class D>
static void sum_loop(const SumTask& t) {
  constexpr int kNumbers = 4;
  constexpr std::int64_t kWidth = Lanes<N>::kWidth;
  std::int64_t i = 0;
  if (t.streamed) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(t.destinations[0]) % 64;
    i = misaligned == 0 ? 0 : static_cast<std::int64_t>((64 - misaligned) / sizeof(D));
    if (i > t.elems) i = t.elems;
    sum_scalars<S, D>(t, 0, i);
  }
  const N operand = spread<N>(t.operand);
  for (; i + kNumbers * kWidth <= t.elems; i += kNumbers * kWidth) {
    N sum[kNumbers];
    sum_block<N, S, D, kNumbers>(t, i, operand, sum);
    for (std::int64_t d = 0; d < t.destination_count; ++d) {
      D* to = static_cast<D*>(t.destinations[d]) + i;
      if (t.streamed) {
        for (int k = 0; k < kNumbers; k += 2) stream_pair(to + k * kWidth, sum[k], sum[k + 1]);
      } else {
        for (int k = 0; k < kNumbers; k += 2) store_pair(to + k * kWidth, sum[k], sum[k + 1]);
      }
    }
  }
  if (t.streamed) stream_fence<N>();
  sum_scalars<S, D>(t, i, t.elems);
}

template <class N, class S>
static void sum_to(const SumTask& t) {
  switch (t.destination_dtype) {
    case DType::kFloat32:
      return sum_loop<N, S, float>(t);
    case DType::kFloat16:
      return sum_loop<N, S, fp16>(t);
    case DType::kBFloat16:
      return sum_loop<N, S, bf16>(t);
  }
}

template <class N>
static void sum_range(const SumTask& t) {
  switch (t.source_dtype) {
    case DType::kFloat32:
      return sum_to<N, float>(t);
    case DType::kFloat16:
      return sum_to<N, fp16>(t);
    case DType::kBFloat16:
      return sum_to<N, bf16>(t);
  }
}

}  // namespace zero::kernels
