#include <nvtx3/nvToolsExt.h>

#include "src/profiler.hpp"

namespace zero::detail {

ProfilerRange::ProfilerRange(const char* name) { nvtxRangePushA(name); }
ProfilerRange::~ProfilerRange() { nvtxRangePop(); }

std::uint64_t begin_profiler_range(const char* name) { return nvtxRangeStartA(name); }
void end_profiler_range(std::uint64_t range) { nvtxRangeEnd(range); }

}  // namespace zero::detail
