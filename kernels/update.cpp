// The optimizer update on host memory.
#include <limits>

#include "kernels/host_kernels.hpp"
#include "kernels/on_stream.hpp"
#include "kernels/step_math.hpp"

namespace zero::kernels {
namespace {

// 16-bit output at or above which it is written past the caches: it will not be read before it
// would have been evicted, and its lines need not be fetched first.
constexpr std::int64_t kStreamedBytes = std::int64_t{8} << 20;

bool writes_streamed(const UpdateRange& range) {
  return range.params != nullptr && range.params_dtype != DType::kFloat32 &&
         range.grad.elems * 2 >= kStreamedBytes &&
         reinterpret_cast<std::uintptr_t>(range.params) % 2 == 0;
}

template <class T>
T* moved(T* array, std::int64_t elems) {
  return array == nullptr ? nullptr : array + elems;
}

// Elements [begin, end) of a range.
UpdateRange part_of(const UpdateRange& r, std::int64_t begin, std::int64_t end) {
  const auto bytes = [begin](DType dtype) {
    return begin * static_cast<std::int64_t>(dtype_bytes(dtype));
  };
  UpdateRange part;
  part.master = r.master + begin;
  part.exp_avg = moved(r.exp_avg, begin);
  part.exp_avg_sq = moved(r.exp_avg_sq, begin);
  part.grad = {static_cast<const char*>(r.grad.data) + bytes(r.grad.dtype), r.grad.dtype,
               end - begin};
  part.params = moved(static_cast<char*>(r.params), bytes(r.params_dtype));
  part.params_dtype = r.params_dtype;
  return part;
}

}  // namespace

UpdateConstants make_update_constants(const UpdateSettings& settings) {
  return update_constants(settings);
}

void update(const UpdateRange& range, const UpdateConstants& constants, Stream& stream) {
  if (range.grad.elems == 0) return;
  on_stream("update", stream, [range, constants] {
    host_kernels().update(range, constants, writes_streamed(range));
  });
}

void update_shard(const UpdateRange& owned, PieceTable pieces, const UpdateConstants* constants,
                  UpdateConstants::Rule rule, Stream& stream) {
  if (owned.grad.elems == 0 || pieces.count == 0) return;
  if (pieces.count > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError(
        detail::concat("update_shard: ", pieces.count, " pieces; at most 2147483647 are valid"));
  }
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("update_shard").update_shard(owned, pieces, constants, rule, stream.native());
  }
  on_stream("update_shard", stream, [=] {
    for (std::int64_t k = 0; k < pieces.count; ++k) {
      const ShardPiece& piece = pieces.pieces[k];
      UpdateConstants own = constants[piece.param];
      if (!own.active || piece.begin == piece.end) continue;
      own.rule = rule;
      const UpdateRange range = part_of(owned, piece.begin, piece.end);
      host_kernels().update(range, own, writes_streamed(range));
    }
  });
}

}  // namespace zero::kernels
