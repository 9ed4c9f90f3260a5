// The library's version. CMake reads it here (find_package(zero VERSION), the library's file name).
#pragma once

#include <string_view>

namespace zero {

// Ranks of one world have to be of the same version: prepare() compares it.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace zero
