// The optimizer update of a shard on device memory: one launch, every byte read and written once.
//
// A thread takes two quads of elements that lie a block's width apart, so that each access of a
// warp covers whole sectors: 16 bytes a lane of fp32, 8 of 16-bit types. With both quads up to
// eight reads are on their way before the first one is used. Packs of eight neighbours would leave
// every second 16 bytes of an fp32 array to the next instruction, and a store half a sector.
//
// Which piece a quad is in is searched by every thread for itself: neighbours take the same steps,
// so a step is one read of 8 bytes for the warp, out of the cache after the first block.
#include "kernels/adam_math.hpp"
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"
#include "kernels/cuda_pieces.cuh"

namespace zero::kernels {
namespace {

using Rule = UpdateConstants::Rule;

constexpr int kThreads = 256;
constexpr int kQuad = 4;
constexpr std::int64_t kStride = kThreads * kQuad;  // from a thread's first quad to its second
constexpr std::int64_t kBlockElems = 2 * kStride;
constexpr int kNotAlike = -1;  // in the place of a lead

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

// kCount quads from element i on, kStride apart.
template <Rule kRule, int kCount, class G, class P>
__device__ inline void update_quads(const UpdateNumbers<float>& c, const Arrays<G, P>& a,
                                    std::int64_t i) {
  constexpr bool kAdam = kRule != Rule::kSgd;
  Pack<G, kQuad> grad[kCount];
  Pack<float, kQuad> master[kCount], exp_avg[kCount], exp_avg_sq[kCount];
  for (int q = 0; q < kCount; ++q) {
    const std::int64_t at = i + q * kStride;
    grad[q] = pack_load<kQuad>(a.grad + at);
    master[q] = pack_load<kQuad>(a.master + at);
    if constexpr (kAdam) {
      exp_avg[q] = pack_load<kQuad>(a.exp_avg + at);
      exp_avg_sq[q] = pack_load<kQuad>(a.exp_avg_sq + at);
    } else {
      exp_avg[q] = {};
      exp_avg_sq[q] = {};
    }
  }
  for (int q = 0; q < kCount; ++q) {
    const std::int64_t at = i + q * kStride;
    for (int k = 0; k < kQuad; ++k) {
      update_element<kRule>(c, master[q].at[k], exp_avg[q].at[k], exp_avg_sq[q].at[k],
                            to_float(grad[q].at[k]));
    }
    pack_store<kQuad>(a.master + at, master[q]);
    if constexpr (kAdam) {
      pack_store<kQuad>(a.exp_avg + at, exp_avg[q]);
      pack_store<kQuad>(a.exp_avg_sq + at, exp_avg_sq[q]);
    }
    if constexpr (!std::is_same_v<P, NoParams>) {
      Pack<P, kQuad> params;
      for (int k = 0; k < kQuad; ++k) params.at[k] = from_float<P>(master[q].at[k]);
      pack_store<kQuad>(a.params + at, params);
    }
  }
}

template <class G, class P>
struct Shard {
  PieceTable pieces;
  const UpdateConstants* constants;
  Arrays<G, P> arrays;
  std::int64_t elems;
};

// Calls `body` with the constants of a piece, unless its parameter is inactive. The rule is set
// here, where the compiler knows it.
template <Rule kRule, class G, class P, class Body>
__device__ inline void if_active(const Shard<G, P>& s, std::int32_t param, Body&& body) {
  UpdateConstants constants = global_load(s.constants + param);
  if (!constants.active) return;
  constants.rule = kRule;
  body(make_update_numbers<float>(constants));
}

template <Rule kRule, class G, class P>
__device__ inline void update_at(const Shard<G, P>& s, std::int64_t i) {
  const int k = first_piece_beyond(s.pieces, i, 0);
  if (k == s.pieces.count) return;
  const ShardPiece piece = global_load(s.pieces.pieces + k);
  if (i < piece.begin) return;
  if_active<kRule>(s, piece.param, [&](const auto& c) { update_one<kRule>(c, s.arrays, i); });
}

// A quad of which some elements may lie before or behind the range. `low` pieces end before it.
template <Rule kRule, class G, class P>
__device__ inline void update_quad(const Shard<G, P>& s, std::int64_t i, int low) {
  const int k = first_piece_beyond(s.pieces, i, low);
  if (k == s.pieces.count) return;
  const ShardPiece piece = global_load(s.pieces.pieces + k);
  if (i + kQuad <= piece.begin) return;
  if (piece.begin <= i && i + kQuad <= piece.end) {
    if_active<kRule>(s, piece.param,
                     [&](const auto& c) { update_quads<kRule, 1>(c, s.arrays, i); });
    return;
  }
  for (std::int64_t e = i; e < i + kQuad; ++e) {
    if (e >= 0 && e < s.elems) update_at<kRule>(s, e);
  }
}

// The first quad begins `lead` elements before the range: there all arrays are aligned for quads.
// Where there is no such place the elements go one by one.
template <Rule kRule, class G, class P>
__global__ void __launch_bounds__(kThreads) update_kernel(Shard<G, P> s, int lead) {
  const std::int64_t block = std::int64_t{blockIdx.x} * kBlockElems;
  const int thread = static_cast<int>(threadIdx.x);
  if (lead == kNotAlike) {
    for (std::int64_t i = block + thread; i < block + kBlockElems && i < s.elems; i += kThreads) {
      update_at<kRule>(s, i);
    }
    return;
  }
  const std::int64_t first = block + thread * kQuad - lead;
  const std::int64_t second = first + kStride;
  const int k = first_piece_beyond(s.pieces, first, 0);
  if (k == s.pieces.count) return;
  const ShardPiece piece = global_load(s.pieces.pieces + k);
  if (piece.begin <= first && second + kQuad <= piece.end) {
    if_active<kRule>(s, piece.param,
                     [&](const auto& c) { update_quads<kRule, 2>(c, s.arrays, first); });
    return;
  }
  update_quad<kRule>(s, first, k);
  update_quad<kRule>(s, second, k);
}

// Elements from the last place before the range at which every array is aligned for quads;
// kNotAlike if there is none.
template <class G, class P>
int lead_of(const Arrays<G, P>& a, bool adam) {
  const auto offset = [](const auto* array) {
    constexpr std::uintptr_t kBytes = sizeof(*array);
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(array) / kBytes % kQuad);
  };
  const int lead = offset(a.master);
  bool alike = offset(a.grad) == lead;
  if (adam) alike = alike && offset(a.exp_avg) == lead && offset(a.exp_avg_sq) == lead;
  if constexpr (!std::is_same_v<P, NoParams>) alike = alike && offset(a.params) == lead;
  return alike ? lead : kNotAlike;
}

struct Task {
  const UpdateRange& owned;
  PieceTable pieces;
  const UpdateConstants* constants;
  cudaStream_t stream;
};

template <Rule kRule, class G, class P>
void run(const Task& task) {
  const UpdateRange& r = task.owned;
  const Shard<G, P> shard = {task.pieces,
                             task.constants,
                             {r.master, r.exp_avg, r.exp_avg_sq, static_cast<const G*>(r.grad.data),
                              static_cast<P*>(r.params)},
                             r.grad.elems};
  const int lead = lead_of(shard.arrays, kRule != Rule::kSgd);
  const std::int64_t elems = shard.elems + (lead == kNotAlike ? 0 : lead);
  launch("update_shard", update_kernel<kRule, G, P>, (elems + kBlockElems - 1) / kBlockElems,
         kThreads, task.stream, shard, lead);
}

template <Rule kRule, class G>
void run_with_params(const Task& task) {
  if (task.owned.params == nullptr) return run<kRule, G, NoParams>(task);
  with_dtype(task.owned.params_dtype, [&](auto tag) { run<kRule, G, decltype(tag)>(task); });
}

template <Rule kRule>
void run_with_grad(const Task& task) {
  with_dtype(task.owned.grad.dtype, [&](auto tag) { run_with_params<kRule, decltype(tag)>(task); });
}

}  // namespace

void cuda_update_shard(const UpdateRange& owned, PieceTable pieces,
                       const UpdateConstants* constants, UpdateConstants::Rule rule, void* stream) {
  const Task task = {owned, pieces, constants, static_cast<cudaStream_t>(stream)};
  switch (rule) {
    case Rule::kAdamDecoupled:
      return run_with_grad<Rule::kAdamDecoupled>(task);
    case Rule::kAdamL2:
      return run_with_grad<Rule::kAdamL2>(task);
    case Rule::kSgd:
      return run_with_grad<Rule::kSgd>(task);
  }
}

}  // namespace zero::kernels
