// The optimizer update on device memory: every byte of a range is read and written once.
#include "kernels/adam_math.hpp"
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"

namespace zero::kernels {
namespace {

using Rule = UpdateConstants::Rule;

constexpr int kThreads = 256;
constexpr int kPack = 8;  // elements of a thread: 16 bytes of the narrowest type

struct NoParams {};  // master is the parameter: nothing else to write

// Element i of every array is element i of the range.
template <class G, class P>
struct Arrays {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  const G* grad;
  P* params;
};

template <Rule kRule>
__device__ inline void update_element(const UpdateNumbers<float>& c, float& master, float& exp_avg,
                                      float& exp_avg_sq, float grad) {
  if constexpr (kRule == Rule::kSgd) {
    sgd_element(c, master, grad);
  } else {
    adam_element<kRule>(c, master, exp_avg, exp_avg_sq, grad);
  }
}

template <Rule kRule, class G, class P>
__device__ inline void update_one(const UpdateNumbers<float>& c, const Arrays<G, P>& a,
                                  std::int64_t i) {
  constexpr bool kAdam = kRule != Rule::kSgd;
  float master = global_load(a.master + i);
  float exp_avg = kAdam ? global_load(a.exp_avg + i) : 0.0f;
  float exp_avg_sq = kAdam ? global_load(a.exp_avg_sq + i) : 0.0f;
  update_element<kRule>(c, master, exp_avg, exp_avg_sq, to_float(global_load(a.grad + i)));
  global_store(a.master + i, master);
  if constexpr (kAdam) {
    global_store(a.exp_avg + i, exp_avg);
    global_store(a.exp_avg_sq + i, exp_avg_sq);
  }
  if constexpr (!std::is_same_v<P, NoParams>) {
    global_store(a.params + i, from_float<P>(master));
  }
}

template <Rule kRule, class G, class P>
__device__ inline void update_pack(const UpdateNumbers<float>& c, const Arrays<G, P>& a,
                                   std::int64_t i) {
  constexpr bool kAdam = kRule != Rule::kSgd;
  const Pack<G, kPack> grad = pack_load<kPack>(a.grad + i);
  Pack<float, kPack> master = pack_load<kPack>(a.master + i);
  Pack<float, kPack> exp_avg = {};
  Pack<float, kPack> exp_avg_sq = {};
  if constexpr (kAdam) {
    exp_avg = pack_load<kPack>(a.exp_avg + i);
    exp_avg_sq = pack_load<kPack>(a.exp_avg_sq + i);
  }
  for (int k = 0; k < kPack; ++k) {
    update_element<kRule>(c, master.at[k], exp_avg.at[k], exp_avg_sq.at[k], to_float(grad.at[k]));
  }
  pack_store<kPack>(a.master + i, master);
  if constexpr (kAdam) {
    pack_store<kPack>(a.exp_avg + i, exp_avg);
    pack_store<kPack>(a.exp_avg_sq + i, exp_avg_sq);
  }
  if constexpr (!std::is_same_v<P, NoParams>) {
    Pack<P, kPack> params;
    for (int k = 0; k < kPack; ++k) params.at[k] = from_float<P>(master.at[k]);
    pack_store<kPack>(a.params + i, params);
  }
}

// Packs begin at element `head`, where all arrays are aligned for them; a head of `elems` means
// that there is no such place.
template <Rule kRule, class G, class P>
__global__ void __launch_bounds__(kThreads) update_kernel(UpdateConstants constants, Arrays<G, P> a,
                                                          std::int64_t elems, std::int64_t head) {
  const UpdateNumbers<float> c = make_update_numbers<float>(constants);
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t begin = head + thread * kPack;
  if (begin + kPack <= elems) {
    update_pack<kRule>(c, a, begin);
  } else {
    for (std::int64_t i = begin; i < elems; ++i) update_one<kRule>(c, a, i);
  }
  if (thread < head) update_one<kRule>(c, a, thread);
}

// Elements before the first one at which every array is aligned to a pack; `elems` if there is
// none, and then the update goes one element at a time.
template <class G, class P>
std::int64_t head_of(const Arrays<G, P>& a, std::int64_t elems, bool adam) {
  const auto offset = [](const auto* array) {
    constexpr std::uintptr_t kBytes = sizeof(*array);
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(array) / kBytes % kPack);
  };
  const std::int64_t misaligned = offset(a.master);
  bool alike = offset(a.grad) == misaligned;
  if (adam) {
    alike = alike && offset(a.exp_avg) == misaligned && offset(a.exp_avg_sq) == misaligned;
  }
  if constexpr (!std::is_same_v<P, NoParams>) alike = alike && offset(a.params) == misaligned;
  if (!alike) return elems;
  return misaligned == 0 ? 0 : std::min<std::int64_t>(elems, kPack - misaligned);
}

template <Rule kRule, class G, class P>
void run(const UpdateRange& range, const UpdateConstants& constants, cudaStream_t stream) {
  const Arrays<G, P> arrays = {range.master, range.exp_avg, range.exp_avg_sq,
                               static_cast<const G*>(range.grad.data),
                               static_cast<P*>(range.params)};
  const std::int64_t elems = range.grad.elems;
  const std::int64_t head = head_of(arrays, elems, kRule != Rule::kSgd);
  // A thread takes a pack and one of the head.
  const std::int64_t threads = std::max((elems - head + kPack - 1) / kPack, head);
  launch("update", update_kernel<kRule, G, P>, (threads + kThreads - 1) / kThreads, kThreads,
         stream, constants, arrays, elems, head);
}

template <Rule kRule, class G>
void run_with_params(const UpdateRange& range, const UpdateConstants& constants,
                     cudaStream_t stream) {
  if (range.params == nullptr) return run<kRule, G, NoParams>(range, constants, stream);
  with_dtype(range.params_dtype,
             [&](auto tag) { run<kRule, G, decltype(tag)>(range, constants, stream); });
}

template <Rule kRule>
void run_with_grad(const UpdateRange& range, const UpdateConstants& constants,
                   cudaStream_t stream) {
  with_dtype(range.grad.dtype,
             [&](auto tag) { run_with_params<kRule, decltype(tag)>(range, constants, stream); });
}

}  // namespace

void cuda_update(const UpdateRange& range, const UpdateConstants& constants, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (constants.rule) {
    case Rule::kAdamDecoupled:
      return run_with_grad<Rule::kAdamDecoupled>(range, constants, on);
    case Rule::kAdamL2:
      return run_with_grad<Rule::kAdamL2>(range, constants, on);
    case Rule::kSgd:
      return run_with_grad<Rule::kSgd>(range, constants, on);
  }
}

}  // namespace zero::kernels
