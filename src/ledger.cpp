#include "zero/ledger.hpp"

#include <algorithm>
#include <cassert>
#include <iomanip>
#include <sstream>

namespace zero {

std::string_view category_name(Category category) {
  static constexpr std::array<std::string_view, kCategoryCount> kNames = {
      "params",     "grads",  "master_weights", "exp_avg",
      "exp_avg_sq", "bucket", "gather",         "workspace"};
  return kNames[static_cast<std::size_t>(category)];
}

void Ledger::charge(Category category, std::int64_t bytes) {
  Account& account = accounts_[static_cast<std::size_t>(category)];
  account.current_bytes += bytes;
  account.peak_bytes = std::max(account.peak_bytes, account.current_bytes);
  total_.current_bytes += bytes;
  total_.peak_bytes = std::max(total_.peak_bytes, total_.current_bytes);
}

void Ledger::release(Category category, std::int64_t bytes) {
  Account& account = accounts_[static_cast<std::size_t>(category)];
  assert(account.current_bytes >= bytes);
  account.current_bytes -= bytes;
  total_.current_bytes -= bytes;
}

void Ledger::reset_peaks() {
  for (Account& account : accounts_) account.peak_bytes = account.current_bytes;
  total_.peak_bytes = total_.current_bytes;
}

std::string Ledger::table() const {
  std::ostringstream out;
  const auto row = [&](std::string_view name, const Account& account) {
    out << std::left << std::setw(16) << name << std::right << std::setw(16)
        << account.current_bytes << std::setw(16) << account.peak_bytes << '\n';
  };
  out << std::left << std::setw(16) << "category" << std::right << std::setw(16) << "current bytes"
      << std::setw(16) << "peak bytes" << '\n';
  for (int i = 0; i < kCategoryCount; ++i) {
    row(category_name(static_cast<Category>(i)), accounts_[static_cast<std::size_t>(i)]);
  }
  row("total", total_);
  return std::move(out).str();
}

}  // namespace zero
