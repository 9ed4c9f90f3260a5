#include "tools/mem_report.hpp"

#include <nlohmann/json.hpp>

#include "tools/mem_format.hpp"
#include "zero/error.hpp"

namespace mem {

using zero::Ledger;
using zero::detail::concat;

namespace {

// All categories, then the total.
struct Named {
  std::string name;
  const Ledger::Account& planned;
  const Ledger::Account& measured;
};
std::vector<Named> side_by_side(const Figures& plan, const Figures& rank) {
  std::vector<Named> all;
  for (std::size_t c = 0; c < zero::kCategoryCount; ++c) {
    all.push_back({std::string(zero::category_name(static_cast<zero::Category>(c))),
                   plan.categories[c], rank.categories[c]});
  }
  all.push_back({"total", plan.total, rank.total});
  return all;
}

std::string signed_bytes(std::int64_t bytes) { return concat(bytes > 0 ? "+" : "", bytes); }

bool same(const Figures& a, const Figures& b) {
  return a.categories == b.categories && a.total == b.total;
}

// "rank 0", "ranks 0 to 3, 5": all that hold what `like` holds.
std::string ranks_like(const Run& run, const Figures& like) {
  std::string text;
  std::size_t found = 0;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    if (!same(run.ranks[r], like)) continue;
    const std::size_t first = r;
    while (r + 1 < run.ranks.size() && same(run.ranks[r + 1], like)) ++r;
    text += concat(text.empty() ? "" : ", ", first);
    if (r > first) text += concat(" to ", r);
    found += r - first + 1;
  }
  return (found == 1 ? "rank " : "ranks ") + text;
}

Bar bar_of(const std::string& label, const Figures& figures) {
  Bar bar{label, {}, 0, figures.total.peak_bytes};
  for (std::size_t c = 0; c < zero::kCategoryCount; ++c) {
    bar.category_bytes[c] = figures.categories[c].peak_bytes;
  }
  return bar;
}

}  // namespace

std::vector<Difference> differences(const Run& run) {
  std::vector<Difference> found;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    for (const Named& row : side_by_side(run.plan, run.ranks[r])) {
      const auto compare = [&](const char* moment, std::int64_t planned, std::int64_t measured) {
        if (planned == measured) return;
        found.push_back({static_cast<int>(r), row.name, moment, planned, measured});
      };
      compare("now", row.planned.current_bytes, row.measured.current_bytes);
      compare("peak", row.planned.peak_bytes, row.measured.peak_bytes);
    }
  }
  return found;
}

std::string to_string(const Difference& d) {
  const std::int64_t more = d.measured_bytes - d.planned_bytes;
  return concat("rank ", d.rank, ", ", d.category, ", ", d.moment, ": planned ", d.planned_bytes,
                " bytes, measured ", d.measured_bytes, ": ", more > 0 ? more : -more,
                more > 0 ? " too many" : " too few");
}

std::string report_text(const Run& run) {
  std::string text;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    bool shown = false;
    for (std::size_t before = 0; before < r; ++before) {
      shown = shown || same(run.ranks[before], run.ranks[r]);
    }
    if (shown) continue;
    TextTable table(
        {"bytes", "planned", "measured", "difference", "planned peak", "peak", "difference"});
    for (const Named& row : side_by_side(run.plan, run.ranks[r])) {
      table.add({row.name, std::to_string(row.planned.current_bytes),
                 std::to_string(row.measured.current_bytes),
                 signed_bytes(row.measured.current_bytes - row.planned.current_bytes),
                 std::to_string(row.planned.peak_bytes), std::to_string(row.measured.peak_bytes),
                 signed_bytes(row.measured.peak_bytes - row.planned.peak_bytes)});
    }
    text += concat(ranks_like(run, run.ranks[r]), "\n", table.text("  "), "\n");
  }
  const bool equal = differences(run).empty();
  return text + (equal ? concat("planned = measured on ", run.ranks.size(),
                                run.ranks.size() == 1 ? " rank" : " ranks",
                                ", in every category, now and at peak\n")
                       : "MEASURED DIFFERS FROM PLANNED\n");
}

nlohmann::ordered_json report_json(const Run& run) {
  using nlohmann::ordered_json;
  const auto account = [](const Ledger::Account& a) -> ordered_json {
    return {{"current", a.current_bytes}, {"peak", a.peak_bytes}};
  };
  const std::vector<Difference> found = differences(run);
  ordered_json json = {{"equal", found.empty()},
                       {"ranks", ordered_json::array()},
                       {"differences", ordered_json::array()}};
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    ordered_json memory;
    for (const Named& row : side_by_side(run.plan, run.ranks[r])) {
      memory[row.name] = {
          {"planned", account(row.planned)},
          {"measured", account(row.measured)},
          {"difference", account({row.measured.current_bytes - row.planned.current_bytes,
                                  row.measured.peak_bytes - row.planned.peak_bytes})}};
    }
    json["ranks"].push_back({{"rank", r}, {"memory", std::move(memory)}});
  }
  for (const Difference& d : found) {
    json["differences"].push_back({{"rank", d.rank},
                                   {"category", d.category},
                                   {"moment", d.moment},
                                   {"planned", d.planned_bytes},
                                   {"measured", d.measured_bytes}});
  }
  return json;
}

Chart report_chart(const std::string& name, const Run& run) {
  Chart chart;
  chart.title = name + ", planned and measured";
  chart.bars.push_back(bar_of("planned", run.plan));
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    chart.bars.push_back(bar_of(concat("rank ", r), run.ranks[r]));
  }
  return chart;
}

}  // namespace mem
