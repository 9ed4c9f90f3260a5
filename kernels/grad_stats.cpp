// Statistics of gradients: the exact sum of squares and the largest magnitude.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/host_kernels.hpp"
#include "kernels/on_stream.hpp"
#include "kernels/stats_loops.hpp"

namespace zero::kernels {
namespace {

// The first piece that ends beyond element `at`, or their number.
std::int64_t first_piece_beyond(PieceTable pieces, std::int64_t at) {
  const ShardPiece* const end = pieces.pieces + pieces.count;
  return std::partition_point(pieces.pieces, end,
                              [at](const ShardPiece& piece) { return piece.end <= at; }) -
         pieces.pieces;
}

// The lowest parameter that has an element which is not finite; kNoBadParam if there is none.
std::uint64_t lowest_bad_param(ConstView grad, PieceTable pieces, std::int64_t first_elem,
                               std::int32_t fallback_param) {
  constexpr std::int64_t kChunk = 4096;
  const auto size = static_cast<std::int64_t>(dtype_bytes(grad.dtype));
  const char* const data = static_cast<const char*>(grad.data);
  std::uint64_t lowest = kNoBadParam;
  for (std::int64_t begin = 0; begin < grad.elems; begin += kChunk) {
    const ConstView chunk{data + begin * size, grad.dtype, std::min(kChunk, grad.elems - begin)};
    if (host_kernels().max_abs_bits(chunk) < kInfinityBits) continue;
    for (std::int64_t i = begin; i < begin + chunk.elems; ++i) {
      if (largest_magnitude({data + i * size, grad.dtype, 1}) < kInfinityBits) continue;
      const std::int64_t at = first_elem + i;
      const std::int64_t k = first_piece_beyond(pieces, at);
      const bool found = k < pieces.count && pieces.pieces[k].begin <= at;
      const auto param =
          static_cast<std::uint64_t>(found ? pieces.pieces[k].param : fallback_param);
      lowest = std::min(lowest, param);
    }
  }
  return lowest;
}

}  // namespace

void GradStats::add(const GradStats& other) {
  // Normalised copies are below 2^32 a digit, so the sums cannot overflow, whatever came before.
  std::array<std::uint64_t, kDigits> theirs = other.sum_squares;
  normalise_digits(theirs.data(), kDigits);
  normalise_digits(sum_squares.data(), kDigits);
  for (std::size_t d = 0; d < theirs.size(); ++d) sum_squares[d] += theirs[d];
  normalise_digits(sum_squares.data(), kDigits);
  max_abs_bits = std::max(max_abs_bits, other.max_abs_bits);
}

double GradStats::sum_of_squares() const {
  std::array<std::uint64_t, kDigits> digits = sum_squares;
  normalise_digits(digits.data(), kDigits);
  // The last digit may be above 2^32: two more make room for any number of carries.
  int top = kDigits - 1;
  while (top > 0 && digits[static_cast<std::size_t>(top)] == 0) --top;
  // The 64 bits from the leading one down; what is below only matters as "not zero".
  const std::uint64_t leading = digits[static_cast<std::size_t>(top)];
  if (leading == 0) return 0.0;
  const int shift = std::countl_zero(leading);  // of 64
  std::uint64_t window = leading << shift;
  int room = shift;  // bits of `window` still to fill
  bool sticky = false;
  for (int d = top - 1; d >= 0; --d) {
    const std::uint64_t digit = digits[static_cast<std::size_t>(d)];
    if (room >= 32) {
      window |= digit << (room - 32);
    } else if (room > 0) {
      window |= digit >> (32 - room);
      sticky = sticky || (digit & ((std::uint64_t{1} << (32 - room)) - 1)) != 0;
    } else {
      sticky = sticky || digit != 0;
    }
    room = std::max(room - 32, 0);
  }
  // Keep 53 of the 64 bits, to nearest, ties to even.
  const std::uint64_t kept = window >> 11;
  const std::uint64_t rest = window & 0x7ff;
  const bool up = rest > 0x400 || (rest == 0x400 && (sticky || (kept & 1) != 0));
  const int exponent = 32 * top - shift + 11 - 298;
  return std::ldexp(static_cast<double>(kept + (up ? 1 : 0)), exponent);
}

void grad_stats(ConstView grad, PieceTable pieces, std::int64_t first_elem,
                std::int32_t fallback_param, GradStats* stats, std::uint64_t* bad_param,
                Stream& stream) {
  if (grad.elems == 0) return;
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("grad_stats")
        .grad_stats(grad, pieces, first_elem, fallback_param, stats, bad_param, stream.native());
  }
  on_stream("grad_stats", stream, [=] {
    GradStats own;
    host_kernels().grad_stats(grad, &own);
    if (!own.finite()) {
      const std::uint64_t bad = lowest_bad_param(grad, pieces, first_elem, fallback_param);
      *bad_param = std::min(*bad_param, bad);
    }
    stats->add(own);
  });
}

void grad_stats(ConstView grad, GradStats* stats, Stream& stream) {
  if (grad.elems == 0) return;
  on_stream("grad_stats", stream, [grad, stats] { host_kernels().grad_stats(grad, stats); });
}

std::int64_t first_nonfinite(ConstView grad) {
  constexpr std::int64_t kChunk = 4096;
  const auto size = static_cast<std::int64_t>(dtype_bytes(grad.dtype));
  const char* data = static_cast<const char*>(grad.data);
  for (std::int64_t begin = 0; begin < grad.elems; begin += kChunk) {
    const ConstView chunk{data + begin * size, grad.dtype, std::min(kChunk, grad.elems - begin)};
    if (host_kernels().max_abs_bits(chunk) < kInfinityBits) continue;
    for (std::int64_t i = 0;; ++i) {
      if (largest_magnitude({data + (begin + i) * size, grad.dtype, 1}) >= kInfinityBits) {
        return begin + i;
      }
    }
  }
  return -1;
}

}  // namespace zero::kernels
