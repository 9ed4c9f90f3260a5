#include "tools/mem_plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/mem_format.hpp"
#include "zero/error.hpp"

namespace mem {

using zero::Category;
using zero::detail::concat;

namespace {

Row plan_row(const Subject& subject, int stage, int ranks) {
  Row row;
  row.stage = stage;
  row.ranks = ranks;
  row.activation_bytes = subject.activation_bytes;
  try {
    zero::Config config = subject.config;
    config.set("zero_optimization.stage", std::to_string(stage));
    settle_batch(config, ranks);
    row.plan = zero::PartitionManager::plan(subject.model, config, ranks, subject.plan_options);
  } catch (const zero::ConfigError& error) {
    row.refusal = error.what();
  }
  return row;
}

std::vector<int> each_once(const std::vector<int>& values) {
  std::vector<int> once;
  for (const int value : values) {
    if (std::find(once.begin(), once.end(), value) == once.end()) once.push_back(value);
  }
  return once;
}

}  // namespace

std::vector<Row> plan_rows(const Subject& subject, const std::vector<int>& stages,
                           const std::vector<int>& ranks) {
  std::vector<Row> rows;
  for (const int world_size : each_once(ranks)) {
    for (const int stage : each_once(stages)) rows.push_back(plan_row(subject, stage, world_size));
  }
  const auto refused = [](const Row& row) { return !row.refusal.empty(); };
  if (!rows.empty() && std::all_of(rows.begin(), rows.end(), refused)) {
    throw zero::ConfigError(rows.front().refusal);
  }
  return rows;
}

std::string plan_table(const std::vector<Row>& rows) {
  const bool activations = std::any_of(rows.begin(), rows.end(),
                                       [](const Row& row) { return row.activation_bytes > 0; });
  std::vector<std::string> header = {"stage",  "ranks",  "model states",
                                     "bucket", "gather", "workspace"};
  if (activations) header.push_back("activations");
  for (const char* name : {"peak", "received/step", "padding"}) header.push_back(name);
  TextTable table(header);
  for (const Row& row : rows) {
    std::vector<std::string> cells = {std::to_string(row.stage), std::to_string(row.ranks)};
    if (!row.refusal.empty()) {
      cells.push_back("refused");
    } else {
      cells.push_back(gigabytes(row.plan.model_state_bytes()));
      for (const Category category : {Category::kBucket, Category::kGather, Category::kWorkspace}) {
        cells.push_back(gigabytes(row.plan.trained.account(category).peak_bytes));
      }
      if (activations) cells.push_back(gigabytes(row.activation_bytes));
      cells.push_back(gigabytes(row.peak_bytes()));
      cells.push_back(gigabytes(row.plan.traffic_per_step.model_bytes()));
      cells.push_back(grouped(row.padding_elems()));
    }
    cells.resize(header.size());
    table.add(std::move(cells));
  }
  return table.text();
}

std::string plan_text(const Subject& subject, const std::vector<Row>& rows) {
  std::string text =
      concat(subject.title, ": ", counted(subject.elems, "element"), " in ",
             counted(static_cast<std::int64_t>(subject.model.units.size()), "unit"), "\n",
             "GB (1e9 bytes) of each rank; bucket, gather and workspace are what each holds at its "
             "own peak,\npeak is the most held at once; padding in elements of the whole model\n\n",
             plan_table(rows));
  for (const Row& row : rows) {
    if (row.refusal.empty()) continue;
    text += concat("\nstage ", row.stage, " on ", row.ranks, row.ranks == 1 ? " rank" : " ranks",
                   " is refused: ", row.refusal);
  }
  if (text.back() != '\n') text += "\n";
  return text;
}

nlohmann::ordered_json model_json(const Subject& subject) {
  return {{"name", subject.title},
          {"elems", subject.elems},
          {"units", subject.model.units.size()},
          {"groups", subject.model.groups}};
}

nlohmann::ordered_json row_json(const Row& row) {
  nlohmann::ordered_json json = {{"stage", row.stage}, {"ranks", row.ranks}};
  if (!row.refusal.empty()) {
    json["refused"] = row.refusal;
    return json;
  }
  const auto account = [](const zero::Ledger::Account& a) -> nlohmann::ordered_json {
    return {{"current", a.current_bytes}, {"peak", a.peak_bytes}};
  };
  json["model_states_bytes"] = row.plan.model_state_bytes();
  json["activations_bytes"] = row.activation_bytes;
  json["peak_bytes"] = row.peak_bytes();
  for (int c = 0; c < zero::kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    json["memory"][std::string(zero::category_name(category))] =
        account(row.plan.trained.account(category));
  }
  json["memory"]["total"] = account(row.plan.trained.total());
  const zero::Traffic& traffic = row.plan.traffic_per_step;
  for (int p = 0; p < zero::kPurposeCount; ++p) {
    for (int v = 0; v < zero::kVerbCount; ++v) {
      const auto purpose = static_cast<zero::Purpose>(p);
      const auto verb = static_cast<zero::Verb>(v);
      json["received_per_step"][std::string(zero::purpose_name(purpose))]
          [std::string(zero::verb_name(verb))] = {{"calls", traffic.at(purpose, verb).calls},
                                                  {"bytes", traffic.at(purpose, verb).bytes}};
    }
  }
  json["received_per_step"]["model_bytes"] = traffic.model_bytes();
  json["padding_elems"] = row.padding_elems();
  return json;
}

nlohmann::ordered_json plan_json(const Subject& subject, const std::vector<Row>& rows) {
  nlohmann::ordered_json json = {{"model", model_json(subject)},
                                 {"plans", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) json["plans"].push_back(row_json(row));
  return json;
}

Chart plan_chart(const Subject& subject, const std::vector<Row>& rows) {
  Chart chart;
  chart.title = concat(subject.title, ", by stage and ranks");
  for (const Row& row : rows) {
    if (!row.refusal.empty()) continue;
    Bar bar{concat("stage ", row.stage, "\n", row.ranks, row.ranks == 1 ? " rank" : " ranks"),
            {},
            row.activation_bytes,
            row.peak_bytes()};
    for (int c = 0; c < zero::kCategoryCount; ++c) {
      bar.category_bytes[static_cast<std::size_t>(c)] =
          row.plan.trained.account(static_cast<Category>(c)).peak_bytes;
    }
    chart.bars.push_back(std::move(bar));
  }
  return chart;
}

}  // namespace mem
