// Where work runs.
#pragma once

#include <cstdint>

namespace zero {

enum class DeviceKind : std::uint8_t { kHost, kMeta, kCuda };

}  // namespace zero
