// Sums of slices, and their one-source forms cast and add, on host memory.
#include <bit>

#include "kernels/host_kernels.hpp"
#include "kernels/on_stream.hpp"
#include "kernels/sum_scaling.hpp"
#include "zero/error.hpp"

namespace zero::kernels {
namespace {

// Output at or above which it is written past the caches.
constexpr std::int64_t kStreamedBytes = std::int64_t{8} << 20;

// Past the caches if the output is large, is not read in the same pass and can be written in whole
// cache lines.
bool writes_streamed(const SumTask& task) {
  const auto bytes = task.elems * static_cast<std::int64_t>(dtype_bytes(task.destination_dtype));
  if (bytes < kStreamedBytes || task.accumulate) return false;
  const auto offset = reinterpret_cast<std::uintptr_t>(task.destinations[0]) % 64;
  if (offset % dtype_bytes(task.destination_dtype) != 0) return false;
  for (std::int64_t d = 0; d < task.destination_count; ++d) {
    if (reinterpret_cast<std::uintptr_t>(task.destinations[d]) % 64 != offset) return false;
    for (std::int64_t s = 0; s < task.source_count; ++s) {
      if (task.sources[s] == task.destinations[d]) return false;
    }
  }
  return true;
}

void run(SumTask task, float divisor) {
  const ScaledSum scaled = scaled_sum(divisor);
  task.scaling = scaled.scaling;
  task.operand = scaled.operand;
  task.streamed = writes_streamed(task);
  host_kernels().sum(task);
}

// destination = round((accumulate ? destination : 0) + source / divisor).
void run_single(View dst, ConstView src, float divisor, bool accumulate) {
  run({&src.data, 1, src.dtype, &dst.data, 1, dst.dtype, dst.elems, Scaling::kNone, 1, accumulate,
       false, false},
      divisor);
}

void check_elems(const char* kernel, const View& dst, const ConstView& src) {
  if (dst.elems == src.elems) return;
  throw UsageError(detail::concat("kernel ", kernel, ": the destination has ", dst.elems,
                                  " elements and the source ", src.elems, "; they must be equal"));
}

}  // namespace

void sum_slices(std::span<const void* const> sources, DType source_dtype,
                std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
                float divisor, bool accumulate, SumOrder order) {
  const auto count = static_cast<std::int64_t>(sources.size());
  if (count == 0) throw UsageError("sum_slices: no sources; at least one is needed");
  if (order == SumOrder::kTree && (!std::has_single_bit(sources.size()) || count > 1024)) {
    throw UsageError(detail::concat("sum_slices: ", count,
                                    " sources in tree order; powers of two up to 1024 are valid"));
  }
  if (destinations.empty() || elems == 0) return;
  // A tree of two sources is the sequence.
  run({sources.data(), count, source_dtype, destinations.data(),
       static_cast<std::int64_t>(destinations.size()), destination_dtype, elems, Scaling::kNone, 1,
       accumulate, order == SumOrder::kTree && count > 2, false},
      divisor);
}

void cast(View dst, ConstView src, float divisor, Stream& stream) {
  check_elems("cast", dst, src);
  if (dst.elems == 0) return;
  if (stream.kind() == DeviceKind::kCuda) {
    on_cuda("cast").sum({&src.data, 1}, src.dtype, {&dst.data, 1}, dst.dtype, dst.elems, divisor,
                        false, SumOrder::kSequential, stream.native());
    return;
  }
  on_stream("cast", stream, [dst, src, divisor] {
    if (dst.dtype == src.dtype && divisor == 1.0f) {
      copy_now(dst.data, src.data, dst.elems * static_cast<std::int64_t>(dtype_bytes(dst.dtype)));
    } else {
      run_single(dst, src, divisor, false);
    }
  });
}

void add(View dst, ConstView src, Stream& stream) {
  check_elems("add", dst, src);
  if (dst.elems == 0) return;
  if (stream.kind() == DeviceKind::kCuda) {
    on_cuda("add").sum({&src.data, 1}, src.dtype, {&dst.data, 1}, dst.dtype, dst.elems, 1.0f, true,
                       SumOrder::kSequential, stream.native());
    return;
  }
  on_stream("add", stream, [dst, src] { run_single(dst, src, 1.0f, true); });
}

}  // namespace zero::kernels
