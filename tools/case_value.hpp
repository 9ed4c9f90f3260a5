// VALUE of a case file: the elements of one tensor, on one rank or on each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/case_json.hpp"

namespace zero::cases {

class Value {
 public:
  Value() = default;  // null: no tensor at all

  // Reads a VALUE for a tensor of `numel` elements on `world_size` ranks. Throws CaseError naming
  // the path when the shape does not fit.
  static Value read(const Json& json, const std::string& path, std::int64_t numel, int world_size);

  // The elements on a rank; empty where the value is null. REQUIRES: rank < world_size.
  std::optional<std::vector<double>> elements(int rank) const;
  // Whether there is a tensor on a rank, on any rank.
  bool given(int rank) const;
  bool given_anywhere() const;

 private:
  enum class Kind : std::uint8_t { kNull, kFill, kList, kRanks };
  static Value read_one(const Json& json, const std::string& path, std::int64_t numel);

  Kind kind_ = Kind::kNull;
  std::int64_t numel_ = 0;
  double fill_ = 0.0;
  std::vector<std::pair<std::int64_t, double>> at_;  // elements that differ from fill_
  std::vector<double> list_;
  std::vector<Value> ranks_;
};

}  // namespace zero::cases
