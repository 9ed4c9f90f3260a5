// Which kernels run where the build knows no further instruction sets: the baseline.
#include "tools/gpt_kernels.hpp"

namespace gpt {

extern const Kernels kernels_baseline;

namespace {
const Kernels* const kAll[] = {&kernels_baseline, nullptr};
}

const Kernels& best_kernels() { return kernels_baseline; }
const Kernels* const* available_kernels() { return kAll; }

}  // namespace gpt
