// The tables and the curve that zero-train prints for people.
#include "tools/train_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "zero/error.hpp"

namespace train {

namespace {

// Ranks side by side in one table; more go into further tables below, up to kMostRanks.
constexpr std::size_t kRanksPerTable = 4;
constexpr std::size_t kMostRanks = 8;

std::string pad(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// A table with one column per rank, after one for `first` if there is a name for it. `row` names a
// row (or gives "" at the end); `cell` fills it.
struct Row {
  std::string name;
  std::function<std::string(const RankAccount&)> cell;
};

std::string table(const std::string& title, std::span<const RankAccount> ranks,
                  const std::vector<Row>& rows, const std::string& first_name = "",
                  const RankAccount& first = {}) {
  constexpr std::size_t kName = 26;
  constexpr std::size_t kCell = 26;
  const std::size_t shown = std::min(ranks.size(), kMostRanks);
  std::string out;
  for (std::size_t from = 0; from < shown; from += kRanksPerTable) {
    const std::size_t to = std::min(shown, from + kRanksPerTable);
    std::string line = title + std::string(title.size() < kName ? kName - title.size() : 1, ' ');
    if (!first_name.empty()) line += pad(first_name, kCell);
    for (std::size_t r = from; r < to; ++r) line += pad("rank " + std::to_string(r), kCell);
    out += line + "\n";
    for (const Row& row : rows) {
      line = "  " + row.name;
      line.resize(kName, ' ');
      if (!first_name.empty()) line += pad(row.cell(first), kCell);
      for (std::size_t r = from; r < to; ++r) line += pad(row.cell(ranks[r]), kCell);
      out += line + "\n";
    }
  }
  if (ranks.size() > shown) {
    out += "  (ranks " + std::to_string(shown) + " to " + std::to_string(ranks.size() - 1) +
           ": see --json)\n";
  }
  return out;
}

std::string of_account(const zero::Ledger::Account& a) {
  return std::to_string(a.current_bytes) + " / " + std::to_string(a.peak_bytes);
}

std::string of_count(const zero::Traffic::Count& count) {
  return std::to_string(count.bytes) + " in " + std::to_string(count.calls);
}

}  // namespace

std::vector<double> RankAccount::pack() const {
  std::vector<double> values;
  for (const auto& a : memory) {
    values.push_back(static_cast<double>(a.current_bytes));
    values.push_back(static_cast<double>(a.peak_bytes));
  }
  values.push_back(static_cast<double>(total.current_bytes));
  values.push_back(static_cast<double>(total.peak_bytes));
  for (const auto& purpose : traffic.counts) {
    for (const auto& count : purpose) {
      values.push_back(static_cast<double>(count.calls));
      values.push_back(static_cast<double>(count.bytes));
    }
  }
  return values;
}

RankAccount RankAccount::unpack(std::span<const double> values) {
  RankAccount account;
  std::size_t at = 0;
  auto next = [&] { return static_cast<std::int64_t>(values[at++]); };
  auto read = [&](zero::Ledger::Account& a) {
    a.current_bytes = next();
    a.peak_bytes = next();
  };
  for (auto& a : account.memory) read(a);
  read(account.total);
  for (auto& purpose : account.traffic.counts) {
    for (auto& count : purpose) {
      count.calls = next();
      count.bytes = next();
    }
  }
  return account;
}

RankAccount planned_account(const zero::Plan& plan) {
  RankAccount account;
  for (int c = 0; c < zero::kCategoryCount; ++c) {
    account.memory[static_cast<std::size_t>(c)] =
        plan.trained.account(static_cast<zero::Category>(c));
  }
  account.total = plan.trained.total();
  account.traffic = plan.traffic_per_step;
  return account;
}

std::string difference(const RankAccount& planned, std::span<const RankAccount> measured) {
  for (std::size_t r = 0; r < measured.size(); ++r) {
    const auto differs = [&](std::string_view category, const zero::Ledger::Account& plan,
                             const zero::Ledger::Account& rank) {
      return zero::detail::concat("rank ", r, " holds other bytes of ", category,
                                  " than planned (now / peak): ", of_account(rank), " measured, ",
                                  of_account(plan), " planned");
    };
    for (std::size_t c = 0; c < zero::kCategoryCount; ++c) {
      if (planned.memory[c] == measured[r].memory[c]) continue;
      return differs(zero::category_name(static_cast<zero::Category>(c)), planned.memory[c],
                     measured[r].memory[c]);
    }
    if (planned.total != measured[r].total)
      return differs("total", planned.total, measured[r].total);
  }
  return "";
}

std::string memory_table(const RankAccount& planned, std::span<const RankAccount> ranks) {
  std::vector<Row> rows;
  for (std::size_t c = 0; c < zero::kCategoryCount; ++c) {
    rows.push_back({std::string(zero::category_name(static_cast<zero::Category>(c))),
                    [c](const RankAccount& a) { return of_account(a.memory[c]); }});
  }
  rows.push_back({"total", [](const RankAccount& a) { return of_account(a.total); }});
  return table("memory, bytes now / peak", ranks, rows, "planned", planned);
}

std::string traffic_table(std::span<const RankAccount> ranks, std::int64_t steps) {
  std::vector<Row> rows;
  for (int p = 0; p < zero::kPurposeCount; ++p) {
    for (int v = 0; v < zero::kVerbCount; ++v) {
      const auto purpose = static_cast<zero::Purpose>(p);
      const auto verb = static_cast<zero::Verb>(v);
      const bool used = std::any_of(ranks.begin(), ranks.end(), [&](const RankAccount& a) {
        return a.traffic.at(purpose, verb).calls > 0;
      });
      if (!used) continue;
      rows.push_back(
          {std::string(zero::purpose_name(purpose)) + " " + std::string(zero::verb_name(verb)),
           [purpose, verb](const RankAccount& a) {
             return of_count(a.traffic.at(purpose, verb));
           }});
    }
  }
  if (steps > 0) {
    rows.push_back({"model bytes per step", [steps](const RankAccount& a) {
                      return json_number(static_cast<double>(a.traffic.model_bytes()) /
                                         static_cast<double>(steps));
                    }});
  }
  return table("received, bytes in calls", ranks, rows);
}

std::string loss_curve(std::span<const double> losses, int width, int height) {
  if (losses.empty() || width < 1 || height < 2) return "";
  const std::size_t columns = std::min(losses.size(), static_cast<std::size_t>(width));
  std::vector<double> means(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t begin = c * losses.size() / columns;
    const std::size_t end = (c + 1) * losses.size() / columns;
    for (std::size_t i = begin; i < end; ++i)
      means[c] += losses[i] / static_cast<double>(end - begin);
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double step = std::max((*high - *low) / (height - 1), 1e-12);
  std::string out;
  for (int row = height - 1; row >= 0; --row) {
    char label[24];
    std::snprintf(label, sizeof label, "%8.3f |", *low + row * step);
    std::string line = label;
    for (const double mean : means) {
      line += std::lround((mean - *low) / step) == row ? '*' : ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  out += "         +" + std::string(columns, '-') + "\n";
  const std::string last = std::to_string(losses.size());
  std::string axis = "          1";
  if (columns > last.size()) axis += pad(last, columns - 1);
  return out + axis + "  (step)\n";
}

}  // namespace train
