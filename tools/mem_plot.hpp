// Stacked bars by gnuplot.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/ledger.hpp"

namespace mem {

struct Bar {
  std::string label;                                                // may have two lines
  std::array<std::int64_t, zero::kCategoryCount> category_bytes{};  // each at its own peak
  std::int64_t activation_bytes = 0;
  std::int64_t peak_bytes = 0;  // most held at once: the mark, at or below the top of the bar
};

struct Chart {
  std::string title;
  std::vector<Bar> bars;
  std::optional<std::int64_t> budget_bytes;  // a line across
};

enum class ImageFormat : std::uint8_t { kSvg, kPng };
// By the extension. Throws zero::ConfigError for others than .svg and .png.
ImageFormat image_format(const std::string& path);

// What gnuplot is told: the data are in it, the picture goes to its standard output.
std::string gnuplot_script(const Chart& chart, ImageFormat format);

// Draws into the file at `path`, which is touched only when the picture is complete. Throws
// std::runtime_error if gnuplot is not installed or fails, or the file cannot be written.
void plot(const Chart& chart, const std::string& path);

}  // namespace mem
