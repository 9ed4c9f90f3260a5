// `zero-mem plan`: one row per world size and stage.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/mem_model.hpp"
#include "tools/mem_plot.hpp"
#include "zero/partition_manager.hpp"

namespace mem {

struct Row {
  int stage = 0;
  int ranks = 1;
  zero::Plan plan;
  std::int64_t activation_bytes = 0;
  std::string refusal;  // why there is no plan: what prepare() would throw

  std::int64_t peak_bytes() const { return plan.peak_bytes() + activation_bytes; }
  std::int64_t padding_elems() const { return plan.padded_elems - plan.model_elems; }
};

// World sizes in the order given, and for each the stages in the order given; what is given twice
// is there once. A configuration that
// one world size or stage refuses (a batch that it does not divide, fixed addresses at stage 3)
// leaves the other rows as they are. Throws zero::ConfigError if no row is possible.
std::vector<Row> plan_rows(const Subject& subject, const std::vector<int>& stages,
                           const std::vector<int>& ranks);

// For people: title, table, and why rows are refused.
std::string plan_text(const Subject& subject, const std::vector<Row>& rows);
std::string plan_table(const std::vector<Row>& rows);

nlohmann::ordered_json model_json(const Subject& subject);
nlohmann::ordered_json row_json(const Row& row);
nlohmann::ordered_json plan_json(const Subject& subject, const std::vector<Row>& rows);

// A bar for each row that is possible.
Chart plan_chart(const Subject& subject, const std::vector<Row>& rows);

}  // namespace mem
