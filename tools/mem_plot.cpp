#include "tools/mem_plot.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tools/mem_format.hpp"
#include "zero/error.hpp"

namespace mem {

using zero::detail::concat;

namespace {

constexpr std::array<const char*, zero::kCategoryCount + 1> kColours = {
    "#4e79a7", "#f28e2b", "#59a14f", "#76b7b2", "#9ad0cc",
    "#e15759", "#edc948", "#b07aa1", "#bab0ac"};

// In single quotes gnuplot expands nothing.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : valid_utf8(text)) {
    if (c == '\'')
      out += "''";
    else
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "'";
}

std::string decimal(std::int64_t bytes) {
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), "%.9f", static_cast<double>(bytes) / 1e9);
  return text.data();
}

// One line per bar: label, what each layer adds, activations, peak, peak for people.
std::string data_of(const Chart& chart) {
  std::string data = "$bars << END_OF_BARS\n";
  for (const Bar& bar : chart.bars) {
    std::string label = bar.label;
    if (const auto at = label.find('\n'); at != std::string::npos) label.replace(at, 1, "\\n");
    data += "\"" + label + "\"";
    for (const std::int64_t bytes : bar.category_bytes) data += " " + decimal(bytes);
    data += concat(' ', decimal(bar.activation_bytes), ' ', decimal(bar.peak_bytes), " \"",
                   gigabytes(bar.peak_bytes), "\"\n");
  }
  return data + "END_OF_BARS\n";
}

}  // namespace

ImageFormat image_format(const std::string& path) {
  if (path.ends_with(".svg")) return ImageFormat::kSvg;
  if (path.ends_with(".png")) return ImageFormat::kPng;
  throw zero::ConfigError("--plot " + path + ": valid: a file name that ends in .svg or .png");
}

std::string gnuplot_script(const Chart& chart, ImageFormat format) {
  const std::size_t width = std::clamp<std::size_t>(chart.bars.size() * 92 + 240, 640, 4000);
  const bool activations = std::any_of(chart.bars.begin(), chart.bars.end(),
                                       [](const Bar& bar) { return bar.activation_bytes > 0; });
  constexpr int kFirst = 2;  // column of the first category
  constexpr int kActivations = kFirst + zero::kCategoryCount;
  constexpr int kPeak = kActivations + 1;
  std::string script = concat(
      "set terminal ", format == ImageFormat::kSvg ? "svg" : "pngcairo", " noenhanced size ", width,
      ",480 font 'sans,11' background '#ffffff'\n", "set title ", quoted(chart.title), "\n",
      "set style data histograms\nset style histogram rowstacked\n"
      "set style fill solid 1 noborder\nset boxwidth 0.7\n"
      "set ylabel 'GB (1e9 bytes) of each rank'\nset yrange [0:*]\nset grid ytics\n"
      "set key outside right top invert\nset xtics nomirror\nset bmargin 4\nset offsets 0,0,graph "
      "0.08,0\n",
      data_of(chart), "plot ");
  for (int c = 0; c < zero::kCategoryCount + (activations ? 1 : 0); ++c) {
    const std::string name = c == zero::kCategoryCount
                                 ? "activations"
                                 : std::string(zero::category_name(static_cast<zero::Category>(c)));
    script += concat("$bars using ", kFirst + c, c == 0 ? ":xtic(1)" : "", " title '", name,
                     "' linecolor rgb '", kColours[static_cast<std::size_t>(c)], "', \\\n  ");
  }
  if (chart.budget_bytes) {
    script += concat(decimal(*chart.budget_bytes),
                     " with lines linewidth 2 dashtype 2 linecolor rgb '#d62728' title 'budget', "
                     "\\\n  ");
  }
  return script + concat("$bars using 0:", kPeak,
                         " with points pointtype 2 linecolor rgb '#000000' title 'peak', \\\n  "
                         "$bars using 0:",
                         kPeak, ":", kPeak + 1, " with labels offset 0,0.8 notitle\n");
}

}  // namespace mem
