// Named ranges for profilers (NVTX): units, buckets and the phases of a step show on the time line.
// Without CUDA, or with no profiler attached, they cost next to nothing.
#pragma once

#include <cstdint>

namespace zero::detail {

// From here to the end of the scope, on the calling thread.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

// The same where begin and end are no scope; ranges may overlap.
std::uint64_t begin_profiler_range(const char* name);
void end_profiler_range(std::uint64_t range);

}  // namespace zero::detail
