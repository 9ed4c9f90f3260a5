// A stand-in for NVTX: the calls that this project makes, kept for tests to look at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

using nvtxRangeId_t = std::uint64_t;
int nvtxRangePushA(const char* name);
int nvtxRangePop();
nvtxRangeId_t nvtxRangeStartA(const char* name);
void nvtxRangeEnd(nvtxRangeId_t range);

namespace zero::emulation {

struct ProfilerLog {
  std::vector<std::string> names;  // of all ranges, in the order of their beginnings
  int open = 0;                    // begun and not ended
};
// Of the calling thread, since it was last asked for.
ProfilerLog take_profiler_log();

}  // namespace zero::emulation
