// Statistics of gradients: the exact sum of squares and the largest magnitude.
#include <algorithm>

#include "kernels/host_kernels.hpp"
#include "kernels/on_stream.hpp"
#include "kernels/stats_loops.hpp"
#include "kernels/step_math.hpp"

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

void GradStats::add(const GradStats& other) { add_stats(*this, other); }

double GradStats::sum_of_squares() const { return kernels::sum_of_squares(*this); }

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

}  // namespace zero::kernels
