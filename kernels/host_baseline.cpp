// The kernels in the plain instructions of the compiler's target.
#include <cstring>

#include "kernels/host_kernels.hpp"
#include "kernels/stats_loops.hpp"
#include "kernels/sum_loops.hpp"
#include "kernels/update_loops.hpp"

namespace zero::kernels {
namespace {

void copy_plain(void* dst, const void* src, std::int64_t bytes) {
  std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

}  // namespace

const HostKernels& host_kernels_baseline() {
  static constexpr HostKernels kKernels{update_range<float>, sum_range<float>, copy_plain,
                                        stats_in_bins, largest_magnitude};
  return kKernels;
}

}  // namespace zero::kernels
