// The version of the library.
#pragma once

namespace zero {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace zero
