// Accounts of memory: every byte the runtime holds is in exactly one category.
//
// Allocation and release are counted on the issuing thread in program order, so the figures of a
// run do not depend on timing. Thread-safety: one issuing thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero {

enum class Category : std::uint8_t {
  kParams,         // working parameters: full, or this rank's shard at stage 3
  kGrads,          // resident gradients: full, or this rank's shard
  kMasterWeights,  // fp32 weights, where the parameters are 16-bit
  kExpAvg,         // first moment
  kExpAvgSq,       // second moment
  kBucket,         // gradients on their way: from first use until their bucket is reduced
  kGather,         // parameters gathered for use at stage 3, or on their way to another home
  kWorkspace,      // votes, staging
};
inline constexpr int kCategoryCount = 8;

// "params", "grads", "master_weights", ...
std::string_view category_name(Category category);

class Ledger {
 public:
  struct Account {
    std::int64_t current_bytes = 0;
    std::int64_t peak_bytes = 0;
    friend bool operator==(const Account&, const Account&) = default;
  };

  void charge(Category category, std::int64_t bytes);
  // REQUIRES: at least `bytes` are charged to the category.
  void release(Category category, std::int64_t bytes);

  const Account& account(Category category) const {
    return accounts_[static_cast<std::size_t>(category)];
  }
  // All categories together. The peak is of the sum, not the sum of peaks.
  const Account& total() const { return total_; }
  // Starts peaks anew from the current figures.
  void reset_peaks();

  // A table for people: category x current, peak.
  std::string table() const;

  friend bool operator==(const Ledger&, const Ledger&) = default;

 private:
  std::array<Account, kCategoryCount> accounts_{};
  Account total_;
};

}  // namespace zero
