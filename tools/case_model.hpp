// The model of a reproduction file, on one rank: memory, units, and a backward pass that adds the
// gradients the file gives. To the runtime it is a model like any other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/case_file.hpp"
#include "zero/world.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::cases {

class CaseModel {
 public:
  // The model as it is before training, with a rank's own start values. REQUIRES: file and world
  // outlive this; the world has phase.world_size ranks.
  CaseModel(const CaseFile& file, const CasePhase& phase, World& world);
  CaseModel(const CaseModel&) = delete;
  CaseModel& operator=(const CaseModel&) = delete;

  // Gives the optimizer its groups and units; to be called once, before prepare(). REQUIRES: the
  // optimizer is not used after this model is gone.
  void register_with(ZeroOptimizer& optimizer);
  // What a step says before its first micro-step.
  void apply_settings(const CaseStep& step);
  void forward();
  // Adds the micro-step's gradients, multiplied by the loss scale, in the parameters' dtype. Blocks
  // on CUDA: the gradients are added on the host.
  void backward(const MicroStep& micro);

 private:
  // Of a parameter with memory of its own; unused for an alias.
  struct Storage {
    void* data = nullptr;
    void* grad = nullptr;
    std::vector<std::byte> initial;
    bool trainable = true;
  };
  struct CaseUnit {
    Unit handle;
    std::optional<std::string> name;
    std::vector<int> storages;  // its own and shared ones
  };

  void override_group(int index, const GroupOverride& change);
  void add_units();
  ParamSpec spec(int storage);
  void backward_units(const Contributions& contributions, const std::vector<bool>& concerned);
  void backward_unit(std::size_t unit, const Contributions& contributions);
  bool is_trainable(const CaseUnit& unit) const;

  const CaseFile& file_;
  World& world_;
  ZeroOptimizer* optimizer_ = nullptr;
  std::vector<Storage> storages_;          // per parameter of the file
  std::vector<std::size_t> unit_of_name_;  // per parameter of the file, aliases included
  std::vector<CaseUnit> units_;            // in order of use
};

}  // namespace zero::cases
