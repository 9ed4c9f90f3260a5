// The arithmetic of the runtime: element-wise kernels and reductions over flat ranges.
//
// Kernels know nothing of ranks, buckets or stages. Each runs on the given stream in its order and
// does not block, except on the caller stream of the host, where it runs at once. Memory must stay
// valid until the stream has passed. The arithmetic of one element is written once in
// kernels/*_math.hpp and used by every instruction set and device, so results do not depend on
// vector width, alignment or the cut of a range.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/device.hpp"
#include "zero/dtype.hpp"

namespace zero::kernels {

// A flat range of elements of one dtype.
struct ConstView {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t elems = 0;
};
struct View {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t elems = 0;
  operator ConstView() const { return {data, dtype, elems}; }
};

// The constants of one Adam or SGD update, formed in double and rounded once. Trivially copyable;
// the alignment makes it three 16-byte reads on a device.
struct alignas(16) UpdateConstants {
  enum class Rule : std::uint8_t { kAdamDecoupled, kAdamL2, kSgd };
  Rule rule = Rule::kAdamDecoupled;
  bool active = true;  // false: the parameter is left alone
  float beta1 = 0, one_minus_beta1 = 0;
  float beta2 = 0, one_minus_beta2 = 0;
  float rsqrt_correction2 = 1;  // 1 / sqrt(1 - beta2^t), or 1 without bias correction
  float eps = 0;
  float step_size = 0;    // lr / (1 - beta1^t); SGD: lr
  float decay = 0;        // decoupled: lr * weight_decay; L2 and SGD: weight_decay
  float grad_factor = 1;  // clip_coef / loss_scale
};

// Forms the constants. `step_count` t >= 1 counts this update.
// Source: Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2.
struct UpdateSettings {
  UpdateConstants::Rule rule;
  double lr, beta1, beta2, eps, weight_decay;
  bool bias_correction;
  std::int64_t step_count;
  double grad_factor;
};
UpdateConstants make_update_constants(const UpdateSettings& settings);

// One range to update, all pointers to its first element.
struct UpdateRange {
  float* master = nullptr;      // fp32 [elems], read and written
  float* exp_avg = nullptr;     // fp32 [elems]; unused by SGD
  float* exp_avg_sq = nullptr;  // fp32 [elems]; unused by SGD
  ConstView grad;               // [elems]
  void* params = nullptr;       // [elems] of params_dtype, written; null: master is the parameter
  DType params_dtype = DType::kFloat32;
};

// Adam, AdamW or SGD on one range of one parameter; `constants.active` is not looked at. Host and
// meta streams only. Throws Error on a CUDA stream: update_shard works on all.
void update(const UpdateRange& range, const UpdateConstants& constants, Stream& stream);

// Elements [begin, end) of a flat range belong to parameter `param` >= 0. No hidden padding, so
// tables can be compared byte by byte.
struct ShardPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int32_t param = 0;
  std::int32_t unused = 0;
};

// The pieces of one flat range, in the memory of the stream's device: ascending, disjoint; empty
// ones are allowed. An element in a gap (padding) belongs to no parameter.
struct PieceTable {
  const ShardPiece* pieces = nullptr;
  std::int64_t count = 0;  // below 2^31
};

// Adam, AdamW or SGD on one owned range, of which each piece follows the constants of its
// parameter. Gaps and the pieces of inactive parameters are left alone. One task on a host stream,
// one launch on a CUDA stream; both give the bits of `update` piece by piece.
//
// `constants` is indexed by ShardPiece::param, in the memory of the stream's device. It and the
// table are read when the stream gets there, and must stay as they are until it has passed.
// REQUIRES: `rule` is the rule of all these constants. Throws UsageError beyond 2^31 - 1 pieces.
void update_shard(const UpdateRange& owned, PieceTable pieces, const UpdateConstants* constants,
                  UpdateConstants::Rule rule, Stream& stream);

enum class SumOrder : std::uint8_t {
  kSequential,  // ((s0 + s1) + s2) + ...
  kTree,        // pairwise: (s0 + s1) + (s2 + s3), ...; REQUIRES: a power of two of sources
};

// destinations[d][i] = round((accumulate ? destinations[0][i] : 0) + sum_k sources[k][i] /
// divisor), the sum in fp32 in the given order. All sources have one dtype, all destinations one
// dtype. A destination may be one of the sources. Not stream-ordered: a communicator calls it
// inside its task.
void sum_slices(std::span<const void* const> sources, DType source_dtype,
                std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
                float divisor, bool accumulate, SumOrder order);

// dst[i] = round(src[i] / divisor), dtypes may differ. Ranges must not overlap unless equal.
void cast(View dst, ConstView src, float divisor, Stream& stream);
// dst[i] = round(dst[i] + src[i]), the addition in fp32.
void add(View dst, ConstView src, Stream& stream);
void copy(void* dst, const void* src, std::int64_t bytes, Stream& stream);
// The same on host memory, at once: for use inside a task. Ranges must not overlap unless equal.
void copy_now(void* dst, const void* src, std::int64_t bytes);
void fill_bytes(void* dst, unsigned char value, std::int64_t bytes, Stream& stream);

// What the vote needs to know of a gradient range. The sum of squares is exact: a fixed-point
// number wide enough for every fp32 square, so it does not depend on order or cut.
struct GradStats {
  // Little-endian digits of 32 bits, each kept in 64, so that adding is plain addition. The unit of
  // digit 0 is 2^-298, the square of the smallest fp32 subnormal.
  static constexpr int kDigits = 20;
  std::array<std::uint64_t, kDigits> sum_squares{};
  std::uint32_t max_abs_bits = 0;  // bit pattern of max |g|; >= 0x7f800000: something is not finite

  void add(const GradStats& other);  // order-free; normalises, so any number may be added
  constexpr bool finite() const { return max_abs_bits < 0x7f800000u; }
  double sum_of_squares() const;  // correctly rounded to double
};

// What *bad_param holds while every element was finite.
inline constexpr std::uint64_t kNoBadParam = ~std::uint64_t{0};

// Adds the statistics of `grad` to *stats; not finite values are left out of the sum. For each of
// those, at index i of `grad`, it sets *bad_param = min(*bad_param, param of the piece that has
// element first_elem + i, or fallback_param in a gap): a minimum that begins at kNoBadParam, so
// what is left is the first parameter in registration order, whatever the order of the work.
//
// `stats`, `bad_param` and the table are in the memory of the stream's device and used when the
// stream gets there. Both targets may gather any number of calls; on CUDA up to 2^32 - 1 blocks of
// 32768 elements (a call has at least one), since digits are carried within a block alone: there
// the digits of the same sum may differ from the host's, its value and its rounding never do.
void grad_stats(ConstView grad, PieceTable pieces, std::int64_t first_elem,
                std::int32_t fallback_param, GradStats* stats, std::uint64_t* bad_param,
                Stream& stream);

// Instruction sets of the host kernels. All give the same bits.
enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };
Isa best_isa();  // of this machine
Isa active_isa();
// For tests and benchmarks. REQUIRES: isa <= best_isa(); no kernel running.
void set_active_isa(Isa isa);

}  // namespace zero::kernels
