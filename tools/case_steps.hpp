// The steps of a reproduction file: gradients that come in, expectations that must hold.
#pragma once

#include <string>
#include <vector>

#include "tools/case_file.hpp"

namespace zero::cases {

GroupOverride read_override(const Json& json, const std::string& path);

// Reads the steps of one phase in order, following which parameters are frozen.
class StepReader {
 public:
  // REQUIRES: `file` has its parameters and groups, and outlives this.
  StepReader(const CaseFile& file, int world_size);

  CaseStep step(const Json& json, const std::string& path);
  // `after_steps`: whether there is a step whose result scalars like "applied" could be about.
  Expectation expectation(const Json& json, const std::string& path, bool after_steps) const;

 private:
  int parameter(const std::string& name, const std::string& path) const;
  MicroStep micro_step(const Json& json, const std::string& path) const;
  Contributions contributions(const Json& json, const std::string& path) const;
  void tensors(const Json& json, const std::string& path, const std::string& key, Tensor what,
               Expectation& expect) const;

  const CaseFile& file_;
  int world_size_;
  std::vector<bool> frozen_;  // per parameter that owns memory
};

}  // namespace zero::cases
