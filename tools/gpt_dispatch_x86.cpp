// Which kernels run on this x86 machine.
#include <cpuid.h>

#include "tools/gpt_kernels.hpp"

namespace gpt {

extern const Kernels kernels_baseline;
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;

namespace {

const Kernels* const kUpToBaseline[] = {&kernels_baseline, nullptr};
const Kernels* const kUpToAvx2[] = {&kernels_baseline, &kernels_avx2, nullptr};
const Kernels* const kUpToAvx512[] = {&kernels_baseline, &kernels_avx2, &kernels_avx512, nullptr};

bool has_avx2() {
  // clang 14 does not know "f16c" here.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

const Kernels& best_kernels() {
  if (has_avx512()) return kernels_avx512;
  return has_avx2() ? kernels_avx2 : kernels_baseline;
}

const Kernels* const* available_kernels() {
  if (has_avx512()) return kUpToAvx512;
  return has_avx2() ? kUpToAvx2 : kUpToBaseline;
}

}  // namespace gpt
