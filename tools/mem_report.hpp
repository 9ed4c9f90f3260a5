// `zero-mem report`: what a run held against what was planned.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/mem_plot.hpp"
#include "tools/mem_run.hpp"

namespace mem {

struct Difference {
  int rank = 0;
  std::string category;  // or "total"
  const char* moment;    // "now" or "peak"
  std::int64_t planned_bytes = 0;
  std::int64_t measured_bytes = 0;
};

// By rank, then category.
std::vector<Difference> differences(const Run& run);
// "rank 1, bucket, peak: planned 4096 bytes, measured 8192: 4096 too many".
std::string to_string(const Difference& difference);

// A table for each set of ranks that hold the same, in bytes.
std::string report_text(const Run& run);
nlohmann::ordered_json report_json(const Run& run);
// The plan, and the ranks beside it.
Chart report_chart(const std::string& name, const Run& run);

}  // namespace mem
