#include "src/rates.hpp"

#include <algorithm>
#include <cstring>

#include "src/registration.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

// Rows in a table. A captured step may be replayed as often without a word from the host.
constexpr std::int64_t kRows = 64;

}  // namespace

std::vector<ParamGroup> Rates::scheduled_groups(std::int64_t update) const {
  std::vector<ParamGroup> groups = rt_.groups;
  schedule_->apply(update - 1, groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Registration::check_group(static_cast<int>(i), groups[i]);
  }
  return groups;
}

void Rates::start() {
  if (scheduled()) rt_.groups = scheduled_groups(0);
  rows_.assign(1, rt_.groups);
  by_hand_ = false;
}

void Rates::advance(std::int64_t applied) {
  if (!scheduled() || applied == first_) return;
  const std::int64_t passed = applied - first_;
  if (passed < static_cast<std::int64_t>(rows_.size())) {
    rows_.erase(rows_.begin(), rows_.begin() + passed);
  } else {
    rows_.assign(1, scheduled_groups(applied));
  }
  rt_.groups = rows_.front();
  first_ = applied;
  by_hand_ = false;
}

void Rates::restore(std::int64_t applied, bool by_hand) {
  first_ = applied;
  if (scheduled() && !by_hand) rt_.groups = scheduled_groups(applied);
  changed();
  by_hand_ = by_hand;
}

void Rates::changed() {
  rows_.assign(1, rt_.groups);
  given_ = false;
  by_hand_ = true;
}

std::size_t Rates::bytes() const {
  const auto rows = static_cast<std::size_t>(scheduled() ? kRows : 1);
  return sizeof(kernels::RateTable) + rows * rt_.groups.size() * sizeof(kernels::GroupRates);
}

bool Rates::stale(std::int64_t steps) const {
  return !given_ || (scheduled() && given_end_ < first_ + steps);
}

// A schedule may have no values for a distant update. That is an error when it comes to it.
void Rates::extend(std::int64_t rows) {
  while (static_cast<std::int64_t>(rows_.size()) < rows) {
    try {
      rows_.push_back(scheduled_groups(first_ + static_cast<std::int64_t>(rows_.size())));
    } catch (const Error&) {
      return;
    }
  }
}

void Rates::write(std::byte* table) {
  // On the host every step is known before the next one.
  if (scheduled() && rt_.device.kind() == DeviceKind::kCuda) extend(kRows);
  const auto rows = static_cast<std::int64_t>(rows_.size());
  const kernels::RateTable head{first_, scheduled() ? rows : 0};
  std::memcpy(table, &head, sizeof(head));
  std::byte* place = table + sizeof(head);
  for (const std::vector<ParamGroup>& groups : rows_) {
    for (const ParamGroup& group : groups) {
      const kernels::GroupRates rates{group.lr, group.beta1, group.beta2, group.eps,
                                      group.weight_decay};
      std::memcpy(place, &rates, sizeof(rates));
      place += sizeof(rates);
    }
  }
  given_ = true;
  given_end_ = first_ + rows;
}

std::vector<double> Rates::lr(std::int64_t update) const {
  std::vector<double> values;
  const std::int64_t row = scheduled() ? update - first_ : 0;
  if (row < 0 || row >= static_cast<std::int64_t>(rows_.size())) return values;
  for (const ParamGroup& group : rows_[static_cast<std::size_t>(row)]) values.push_back(group.lr);
  return values;
}

}  // namespace zero
