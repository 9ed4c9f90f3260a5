// Of a build without CUDA.
#include "tests/cuda/probe.hpp"

namespace zero::test {

std::optional<RuntimeCounts> runtime_counts() { return std::nullopt; }

bool refuse_pinned_memory(bool) { return false; }

std::unique_ptr<CapturedWork> capture(Stream&, const std::function<void()>&) { return nullptr; }

}  // namespace zero::test
