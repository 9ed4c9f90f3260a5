// Which instruction set the host kernels use.
#include <atomic>

#include "kernels/host_kernels.hpp"
#include "zero/error.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace zero::kernels {
namespace {

Isa detect() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  __builtin_cpu_init();
  if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return Isa::kBaseline;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kBaseline;
#endif
}

std::atomic<Isa>& selected() {
  static std::atomic<Isa> isa{best_isa()};
  return isa;
}

}  // namespace

Isa best_isa() {
  static const Isa best = detect();
  return best;
}

Isa active_isa() { return selected().load(std::memory_order_relaxed); }

void set_active_isa(Isa isa) {
  if (isa > best_isa()) {
    throw UsageError(detail::concat("set_active_isa: this machine has no instruction set ",
                                    static_cast<int>(isa), "; the best is ",
                                    static_cast<int>(best_isa())));
  }
  selected().store(isa, std::memory_order_relaxed);
}

const HostKernels& host_kernels() {
  switch (active_isa()) {
    case Isa::kAvx512:
      return *host_kernels_avx512();
    case Isa::kAvx2:
      return *host_kernels_avx2();
    case Isa::kBaseline:
      break;
  }
  return host_kernels_baseline();
}

}  // namespace zero::kernels
