// `zero-mem fit`: the stage and sizes for a budget.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/mem_plan.hpp"

namespace mem {

struct FitResult {
  std::int64_t budget_bytes = 0;  // activations included
  zero::Fit fit;
  Row row;  // the plan of the chosen configuration, or the smallest one
};

// Throws zero::ConfigError, also for a budget that is no size.
FitResult fit_budget(const Subject& subject, const std::string& budget, int ranks);

std::string fit_text(const Subject& subject, const FitResult& result);
nlohmann::ordered_json fit_json(const Subject& subject, const FitResult& result);
// One bar, and the budget as a line.
Chart fit_chart(const Subject& subject, const FitResult& result);

}  // namespace mem
