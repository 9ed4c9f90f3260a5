// The deadline of a communicator's waits.
#pragma once

#include <algorithm>
#include <chrono>

#include "zero/error.hpp"

namespace zero::detail {

// About 31 years, a deadline that the clock can still count to.
inline constexpr double kLongestTimeoutS = 1e9;

inline double checked_seconds(std::chrono::duration<double> timeout) {
  if (timeout.count() > 0) return std::min(timeout.count(), kLongestTimeoutS);
  throw UsageError(concat("the deadline of a rank's waits is ", timeout.count(),
                          " s, must be above 0"));  // NaN as well
}

}  // namespace zero::detail
