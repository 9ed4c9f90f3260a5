// Of the emulation, which has no graphs.
#include "tests/cuda/probe.hpp"
#include "tests/emulation/emulation.hpp"

namespace zero::test {

std::optional<RuntimeCounts> runtime_counts() {
  return RuntimeCounts{emulation::synchronizations(), emulation::allocations(),
                       emulation::live_allocations()};
}

bool refuse_pinned_memory(bool refuse) {
  emulation::refuse_pinned_memory(refuse);
  return true;
}

std::unique_ptr<CapturedWork> capture(Stream&, const std::function<void()>&) { return nullptr; }

}  // namespace zero::test
