#include <utility>

#include "tests/emulation/nvtx3/nvToolsExt.h"

namespace {

zero::emulation::ProfilerLog& profiler_log() {
  thread_local zero::emulation::ProfilerLog log;
  return log;
}

void begin(const char* name) {
  profiler_log().names.emplace_back(name);
  ++profiler_log().open;
}

}  // namespace

int nvtxRangePushA(const char* name) {
  begin(name);
  return 0;
}
int nvtxRangePop() {
  --profiler_log().open;
  return 0;
}
nvtxRangeId_t nvtxRangeStartA(const char* name) {
  begin(name);
  return profiler_log().names.size();
}
void nvtxRangeEnd(nvtxRangeId_t) { --profiler_log().open; }

namespace zero::emulation {

ProfilerLog take_profiler_log() {
  ProfilerLog log = std::exchange(profiler_log(), {});
  profiler_log().open = log.open;
  return log;
}

}  // namespace zero::emulation
