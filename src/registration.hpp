// Checks what the user registers, and turns it into the runtime's tables. Every refusal is a
// ConfigError that names the unit or parameter, the value, and what would be valid.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/runtime.hpp"
#include "zero/model_shape.hpp"

namespace zero {

class Registration {
 public:
  explicit Registration(Runtime& runtime) : rt_(runtime) {}

  // Returns the unit's index.
  int add_unit(std::string name, std::vector<ParamSpec> params,
               const std::vector<std::string>& shared);
  // Throws ConfigError unless a group's values are in the ranges that the configuration has.
  static void check_group(int index, const ParamGroup& group);
  // What can be said only when everything is there: groups, precision, stage, mode.
  void check_all() const;
  // Precision that is "auto" follows what was registered. After check_all().
  void settle_precision();
  bool scales_loss() const;
  // Cuts buckets. After check_all().
  void make_layout();

  // What was registered, for the planner.
  ModelShape shape() const;

  // What must be the same on all ranks: version, configuration, parameters, each as "what: value".
  // After settle_precision().
  std::vector<std::string> set_up() const;

  // Index of a parameter. Throws UsageError for an unknown name.
  int find(std::string_view name) const;

 private:
  ParamState make_param(const std::string& unit, ParamSpec spec) const;
  void check_precision(const ParamState& param) const;

  Runtime& rt_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace zero
