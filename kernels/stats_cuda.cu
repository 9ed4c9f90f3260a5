// Statistics of gradients on device memory: the exact sum of squares, the largest magnitude, and
// whose element is not finite. Whole numbers add in any order, so blocks may come in any.
//
// A bin of shared memory per exponent would be hit by most of a warp at once: gradients share few
// exponents, and a 64-bit atomic on shared memory is a loop. So each thread keeps its squares in
// registers. Within a window of neighbouring exponents a mantissa shifts to a whole number x of a
// common unit, and the sum of x * x is exact in one 64-bit register (16-bit types), or in three for
// the halves of x (fp32): a multiply-add each. The window begins where nothing is and moves up when
// something larger comes, a few times in a thread's life at most; what was summed, and what lies
// below the window and is not zero, 2^13 times smaller or less, goes to the digits in shared
// memory. Those have a column for each lane, so that a warp never meets itself there.
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"
#include "kernels/cuda_pieces.cuh"
#include "kernels/reduce_math.hpp"

namespace zero::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 32;
constexpr int kRow = kColumns + 1;           // rows start in banks of their own
constexpr std::int64_t kBlockElems = 32768;  // kernels.hpp names it
constexpr int kLoads = 4;                    // 16-byte reads of a thread on their way at once

template <class G>
__device__ inline std::uint32_t abs_bits(G value) {
  return std::bit_cast<std::uint32_t>(to_float(value)) & kAbsMask;
}

// Ordered as abs_bits is, and found without widening. A quiet NaN is all that widening leaves.
__device__ inline std::uint32_t magnitude(float value) { return abs_bits(value); }
__device__ inline std::uint32_t magnitude(bf16 value) { return value.bits & 0x7fffu; }
__device__ inline std::uint32_t magnitude(fp16 value) {
  const std::uint32_t bits = value.bits & 0x7fffu;
  return bits > 0x7c00u ? bits | 0x0200u : bits;
}

// The abs_bits of a magnitude.
template <class G>
__device__ inline std::uint32_t widened(std::uint32_t magnitude) {
  if constexpr (sizeof(G) == 4) {
    return magnitude;
  } else {
    return abs_bits(G{static_cast<std::uint16_t>(magnitude)});
  }
}

// Adds value * 2^position to a column of digits.
__device__ inline void add_to_column(std::uint64_t* column, std::uint64_t value, int position) {
  std::uint64_t part[3] = {};
  add_at_bit(part, value, position % 32);
  for (int k = 0; k < 3; ++k) {
    if (part[k] != 0) shared_atomic_add(column + (position / 32 + k) * kRow, part[k]);
  }
}

template <class G>
inline constexpr int kMantissaBits = 24;
template <>
inline constexpr int kMantissaBits<fp16> = 11;
template <>
inline constexpr int kMantissaBits<bf16> = 8;

// The squares of one thread, of at most kBlockElems / kThreads elements.
template <class G>
class Squares {
 public:
  // Before `add` of values of which `largest` is the largest.
  __device__ void prepare(std::uint32_t largest, std::uint64_t* column) {
    most_ = largest > most_ ? largest : most_;
    if (exponent_field(largest) >= base_ + kExponents) move_window(largest, column);
  }

  // False if it is for add_below: not zero, and not in the window.
  __device__ bool add(std::uint32_t abs_bits) {
    const std::uint32_t shift = exponent_field(abs_bits) - base_;  // too large below the window
    const bool inside = shift < kExponents;
    const std::uint32_t mantissa = (abs_bits & kMantissaMask) | kHiddenBit;
    add_square(inside ? mantissa >> kDropped : 0, shift % 32);
    return inside || abs_bits == 0;
  }

  // Adds what `add` did not, unless it is not finite.
  __device__ void add_below(std::uint32_t abs_bits, std::uint64_t* column) const {
    if (exponent_field(abs_bits) >= base_ || abs_bits == 0) return;
    add_to_column(column, mantissa_square(abs_bits), square_position(exponent_field(abs_bits)));
  }

  __device__ void flush(std::uint64_t* column) {
    const int position = square_position(base_) + 2 * kDropped;
    std::uint64_t low = low_;
    if constexpr (kHalves) {
      std::uint64_t high = 0;
      add_shifted<kHalf + 1>(mixed_, low, high);
      add_shifted<2 * kHalf>(high_, low, high);
      add_to_column(column, high, position + 64);
    }
    add_to_column(column, low, position);
    low_ = mixed_ = high_ = 0;
  }

  __device__ std::uint32_t most() const { return most_; }

 private:
  static constexpr int kDropped = 24 - kMantissaBits<G>;  // zeros at the end of every mantissa
  static constexpr bool kHalves = kMantissaBits<G> > 16;
  static constexpr int kHalf = 26;  // bits of a half of x
  static constexpr int kBits = kHalves ? 2 * kHalf : 27;
  // Of the window: 29 for fp32, 17 for fp16, 20 for bf16.
  static constexpr std::uint32_t kExponents = kBits - kMantissaBits<G> + 1;
  static constexpr std::uint32_t kAbove = kHalves ? 6 : 3;  // left free above what moved it
  // Products below 2^54 or 2^52, of which 64 bits hold 2^10 at least.
  static_assert(kBlockElems / kThreads <= 1024);

  // `mantissa` << `shift` is x.
  __device__ void add_square(std::uint32_t mantissa, std::uint32_t shift) {
    const std::uint64_t x = std::uint64_t{mantissa} << shift;
    if constexpr (kHalves) {
      const auto low = static_cast<std::uint32_t>(x) & ((1u << kHalf) - 1);
      const auto high = static_cast<std::uint32_t>(x >> kHalf);
      low_ += std::uint64_t{low} * low;
      mixed_ += std::uint64_t{low} * high;
      high_ += std::uint64_t{high} * high;
    } else {
      const auto whole = static_cast<std::uint32_t>(x);
      low_ += std::uint64_t{whole} * whole;
    }
  }

  // The largest element ends up inside, unless it is not finite: nothing of that kind ever is.
  __device__ void move_window(std::uint32_t largest, std::uint64_t* column) {
    constexpr std::uint32_t kHighest = 255 - kExponents;
    const std::uint32_t end = exponent_field(largest) + kAbove + 1;
    const std::uint32_t base = end - kExponents < kHighest ? end - kExponents : kHighest;
    if (base == base_) return;
    flush(column);
    base_ = base;
  }

  // high:low += value * 2^kBy, 0 < kBy < 64.
  template <int kBy>
  __device__ static void add_shifted(std::uint64_t value, std::uint64_t& low, std::uint64_t& high) {
    const std::uint64_t part = value << kBy;
    low += part;
    high += (value >> (64 - kBy)) + (low < part ? 1 : 0);
  }

  std::uint32_t base_ = 1;  // >= 1: subnormals have no hidden bit and lie below every window
  std::uint32_t most_ = 0;
  std::uint64_t low_ = 0, mixed_ = 0, high_ = 0;
};

// `grad` begins `lead` elements after a multiple of 16 bytes; positions count from there.
template <class G>
struct Gradients {
  const G* grad;
  std::int64_t elems;
  int lead;

  // Zeros outside.
  template <int kCount>
  __device__ Pack<G, kCount> pack(std::int64_t position) const {
    const std::int64_t i = position - lead;
    if (i >= 0 && i + kCount <= elems) return pack_load<kCount>(grad + i);
    Pack<G, kCount> values = {};
    for (int k = 0; k < kCount; ++k) {
      if (i + k >= 0 && i + k < elems) values.at[k] = global_load(grad + i + k);
    }
    return values;
  }
};

struct Owners {
  PieceTable pieces;
  std::int64_t first_elem;  // of the gradients, in the range of the pieces
  std::int32_t fallback_param;
  std::uint64_t* bad_param;
};

__device__ inline std::uint64_t owner_of(const Owners& owners, std::int64_t i) {
  const std::int64_t at = owners.first_elem + i;
  const int k = first_piece_beyond(owners.pieces, at, 0);
  std::int32_t param = owners.fallback_param;
  if (k < owners.pieces.count && global_load(&owners.pieces.pieces[k].begin) <= at) {
    param = global_load(&owners.pieces.pieces[k].param);
  }
  return static_cast<std::uint64_t>(param);
}

template <class G>
__global__ void __launch_bounds__(kThreads, 4)
    stats_kernel(Gradients<G> gradients, Owners owners, GradStats* stats) {
  constexpr int kPack = 16 / sizeof(G);
  constexpr std::int64_t kStride = kThreads * kPack;
  static_assert(kBlockElems % (kLoads * kStride) == 0);
  __shared__ std::uint64_t digits[GradStats::kDigits][kRow];
  __shared__ std::uint32_t largest;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < GradStats::kDigits * kRow; i += kThreads) {
    digits[i / kRow][i % kRow] = 0;
  }
  if (thread == 0) largest = 0;
  __syncthreads();

  std::uint64_t* const column = &digits[0][thread % kColumns];
  const std::int64_t begin = std::int64_t{blockIdx.x} * kBlockElems + thread * kPack;
  Squares<G> squares;
  ZERO_ROLLED
  for (std::int64_t at = begin; at < begin + kBlockElems; at += kLoads * kStride) {
    Pack<G, kPack> packs[kLoads];
    for (int p = 0; p < kLoads; ++p) packs[p] = gradients.template pack<kPack>(at + p * kStride);
    std::uint32_t most = 0;
    for (const Pack<G, kPack>& pack : packs) {
      for (const G& value : pack.at) {
        const std::uint32_t here = magnitude(value);
        most = here > most ? here : most;
      }
    }
    squares.prepare(widened<G>(most), column);
    unsigned left = 0;  // packs with something for add_below
    for (int p = 0; p < kLoads; ++p) {
      bool done = true;
      for (const G& value : packs[p].at) done = squares.add(abs_bits(value)) && done;
      left |= done ? 0u : 1u << p;
    }
    if (left == 0) continue;
    ZERO_ROLLED
    for (int p = 0; p < kLoads; ++p) {  // read again: an index into registers would not keep them
      if ((left >> p & 1) == 0) continue;
      ZERO_ROLLED
      for (int k = 0; k < kPack; ++k) {
        const Pack<G, 1> value = gradients.template pack<1>(at + p * kStride + k);
        squares.add_below(abs_bits(value.at[0]), column);
      }
    }
  }
  squares.flush(column);
  shared_atomic_max(&largest, squares.most());
  // Rare enough to read everything again, so that the loop above need not keep what this needs.
  if (squares.most() >= kInfinityBits) {
    std::uint64_t lowest = kNoBadParam;
    ZERO_ROLLED
    for (std::int64_t at = begin; at < begin + kBlockElems; at += kStride) {
      ZERO_ROLLED
      for (std::int64_t i = at - gradients.lead; i < at - gradients.lead + kPack; ++i) {
        if (i < 0 || i >= gradients.elems) continue;
        if (abs_bits(global_load(gradients.grad + i)) < kInfinityBits) continue;
        const std::uint64_t owner = owner_of(owners, i);
        lowest = owner < lowest ? owner : lowest;
      }
    }
    global_atomic_min(owners.bad_param, lowest);
  }
  __syncthreads();

  if (thread < GradStats::kDigits) {
    std::uint64_t sum = 0;
    for (int c = 0; c < kColumns; ++c) sum += digits[thread][c];
    digits[thread][0] = sum;
  }
  __syncthreads();
  if (thread != 0) return;
  // With the carries done a block adds less than 2^32 to a digit.
  std::uint64_t carry = 0;
  ZERO_ROLLED
  for (int d = 0; d < GradStats::kDigits; ++d) {
    const std::uint64_t digit = digits[d][0] + carry;
    carry = digit >> 32;
    const std::uint64_t low = digit & 0xffffffffu;
    if (low != 0) global_atomic_add(&stats->sum_squares[static_cast<std::size_t>(d)], low);
  }
  global_atomic_max(&stats->max_abs_bits, largest);
}

}  // namespace

void cuda_grad_stats(ConstView grad, PieceTable pieces, std::int64_t first_elem,
                     std::int32_t fallback_param, GradStats* stats, std::uint64_t* bad_param,
                     void* stream) {
  with_dtype(grad.dtype, [&](auto tag) {
    using G = decltype(tag);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(grad.data) % 16;
    const Gradients<G> gradients = {static_cast<const G*>(grad.data), grad.elems,
                                    static_cast<int>(misaligned / sizeof(G))};
    launch("grad_stats", stats_kernel<G>,
           (grad.elems + gradients.lead + kBlockElems - 1) / kBlockElems, kThreads,
           static_cast<cudaStream_t>(stream), gradients,
           Owners{pieces, first_elem, fallback_param, bad_param}, stats);
  });
}

}  // namespace zero::kernels
