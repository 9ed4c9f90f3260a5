// The loop over a range of the optimizer update, for the instruction set of the including file.
#pragma once

#include "kernels/adam_math.hpp"
#include "kernels/host_kernels.hpp"

namespace zero::kernels {

// Software prefetch, in bytes of an fp32 stream: the hardware's own prefetchers stop at page ends
// and follow too few streams. Four fp32 streams gain 10 % from two distances: far ahead into the
// second level, where many lines can be on their way, and from there into the first. With 16-bit
// streams among them one distance is better by 3 %.
inline constexpr std::int64_t kPrefetchBytes = 1536;
inline constexpr std::int64_t kNearBytes = 1024;
inline constexpr std::int64_t kFarBytes = 8192;

template <bool kTwoDistances, class T>
ZERO_MATH void prefetch(const T* from) {
  const char* const at = reinterpret_cast<const char*>(from);
  constexpr std::int64_t kPart = sizeof(T);  // narrower elements: as many elements ahead
  if constexpr (kTwoDistances) __builtin_prefetch(at + kFarBytes * kPart / 4, 0, 2);
  __builtin_prefetch(at + (kTwoDistances ? kNearBytes : kPrefetchBytes) * kPart / 4);
}

struct NoParams {};  // master is the parameter: nothing else to write

template <UpdateConstants::Rule kRule, class N, class G>
ZERO_MATH N update_number(const UpdateNumbers<N>& c, const UpdateRange& r, const G* grad,
                          std::int64_t i, N* exp_avg, N* exp_avg_sq) {
  N master = load<N>(r.master + i);
  const N g = load<N>(grad + i);
  if constexpr (kRule == UpdateConstants::Rule::kSgd) {
    sgd_element(c, master, g);
  } else {
    *exp_avg = load<N>(r.exp_avg + i);
    *exp_avg_sq = load<N>(r.exp_avg_sq + i);
    adam_element<kRule>(c, master, *exp_avg, *exp_avg_sq, g);
  }
  return master;
}

// Elements [begin, end), one at a time.
template <UpdateConstants::Rule kRule, class G, class P>
static void update_scalars(const UpdateNumbers<float>& c, const UpdateRange& r, std::int64_t begin,
                           std::int64_t end) {
  const G* grad = static_cast<const G*>(r.grad.data);
  for (std::int64_t i = begin; i < end; ++i) {
    float exp_avg = 0, exp_avg_sq = 0;
    const float master = update_number<kRule>(c, r, grad, i, &exp_avg, &exp_avg_sq);
    r.master[i] = master;
    if constexpr (kRule != UpdateConstants::Rule::kSgd) {
      r.exp_avg[i] = exp_avg;
      r.exp_avg_sq[i] = exp_avg_sq;
    }
    if constexpr (!std::is_same_v<P, NoParams>) {
      static_cast<P*>(r.params)[i] = from_float<P>(master);
    }
  }
}

template <UpdateConstants::Rule kRule, class N, class G, class P, bool kStreamed>
static void update_loop(const UpdateRange& r, const UpdateConstants& constants) {
  constexpr std::int64_t kWidth = Lanes<N>::kWidth;
  constexpr bool kAdam = kRule != UpdateConstants::Rule::kSgd;
  constexpr bool kHasParams = !std::is_same_v<P, NoParams>;
  const std::int64_t elems = r.grad.elems;
  const UpdateNumbers<float> scalar = make_update_numbers<float>(constants);
  std::int64_t i = 0;
  if constexpr (kStreamed) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(r.params) % 64;
    i = misaligned == 0 ? 0 : static_cast<std::int64_t>((64 - misaligned) / sizeof(P));
    if (i > elems) i = elems;
    update_scalars<kRule, G, P>(scalar, r, 0, i);
  }
  const G* grad = static_cast<const G*>(r.grad.data);
  const UpdateNumbers<N> c = make_update_numbers<N>(constants);
  // As many numbers at once as make a whole line of the narrowest elements, but two at most.
  constexpr bool kAllFp32 = !kHasParams && sizeof(G) == 4;
  constexpr std::int64_t kNumbers = !kAllFp32 || kWidth < 16 ? 2 : 1;
  for (; i + kNumbers * kWidth <= elems; i += kNumbers * kWidth) {
    if constexpr (kWidth > 1) {
      if constexpr (sizeof(G) == 2) prefetch<false>(grad + i);
      if constexpr (kHasParams && !kStreamed) prefetch<false>(static_cast<P*>(r.params) + i);
    }
    N master[2];
    for (std::int64_t k = 0; k < kNumbers; ++k) {
      const std::int64_t at = i + k * kWidth;
      if (kWidth > 1 && at % 16 == i % 16) {  // once a line
        prefetch<kAllFp32>(r.master + at);
        if constexpr (kAdam) {
          prefetch<kAllFp32>(r.exp_avg + at);
          prefetch<kAllFp32>(r.exp_avg_sq + at);
        }
        if constexpr (sizeof(G) == 4) prefetch<kAllFp32>(grad + at);
      }
      N exp_avg, exp_avg_sq;
      master[k] = update_number<kRule>(c, r, grad, at, &exp_avg, &exp_avg_sq);
      store(r.master + at, master[k]);
      if constexpr (kAdam) {
        store(r.exp_avg + at, exp_avg);
        store(r.exp_avg_sq + at, exp_avg_sq);
      }
    }
    if constexpr (kHasParams) {
      P* params = static_cast<P*>(r.params) + i;
      if constexpr (kStreamed) {
        stream_pair(params, master[0], master[1]);
      } else {
        store_pair(params, master[0], master[1]);
      }
    }
  }
  if constexpr (kStreamed) stream_fence<N>();
  update_scalars<kRule, G, P>(scalar, r, i, elems);
}

template <UpdateConstants::Rule kRule, class N, class G>
static void update_params(const UpdateRange& r, const UpdateConstants& c, bool streamed) {
  if (r.params == nullptr) return update_loop<kRule, N, G, NoParams, false>(r, c);
  switch (r.params_dtype) {
    case DType::kFloat32:
      return update_loop<kRule, N, G, float, false>(r, c);
    case DType::kFloat16:
      return streamed ? update_loop<kRule, N, G, fp16, true>(r, c)
                      : update_loop<kRule, N, G, fp16, false>(r, c);
    case DType::kBFloat16:
      return streamed ? update_loop<kRule, N, G, bf16, true>(r, c)
                      : update_loop<kRule, N, G, bf16, false>(r, c);
  }
}

template <UpdateConstants::Rule kRule, class N>
static void update_grads(const UpdateRange& r, const UpdateConstants& c, bool streamed) {
  switch (r.grad.dtype) {
    case DType::kFloat32:
      return update_params<kRule, N, float>(r, c, streamed);
    case DType::kFloat16:
      return update_params<kRule, N, fp16>(r, c, streamed);
    case DType::kBFloat16:
      return update_params<kRule, N, bf16>(r, c, streamed);
  }
}

template <class N>
static void update_range(const UpdateRange& r, const UpdateConstants& c, bool streamed) {
  switch (c.rule) {
    case UpdateConstants::Rule::kAdamDecoupled:
      return update_grads<UpdateConstants::Rule::kAdamDecoupled, N>(r, c, streamed);
    case UpdateConstants::Rule::kAdamL2:
      return update_grads<UpdateConstants::Rule::kAdamL2, N>(r, c, streamed);
    case UpdateConstants::Rule::kSgd:
      return update_grads<UpdateConstants::Rule::kSgd, N>(r, c, streamed);
  }
}

}  // namespace zero::kernels
