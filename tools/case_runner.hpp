// Runs a reproduction file at one stage and says whether everything in it holds.
#pragma once

#include <cstdint>
#include <string>

#include "tools/case_file.hpp"
#include "zero/device_kind.hpp"

namespace zero::cases {

enum class Verdict : std::uint8_t { kHolds, kFails };

struct Outcome {
  Verdict verdict = Verdict::kHolds;
  std::string detail;  // the first mismatch, or what is not supported
};

// Runs all phases, ranks as threads that hold their memory on the device. Does not throw for
// anything the run does: errors are outcomes. A rank that waits for another gives up after the
// file's runtime.timeout_s, or after 20 s where it says nothing, with a CommError naming rank and
// operation. REQUIRES: such a device is there.
Outcome run_case(const CaseFile& file, int stage, DeviceKind device = DeviceKind::kHost);

}  // namespace zero::cases
