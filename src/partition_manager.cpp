#include "zero/partition_manager.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "zero/zero_optimizer.hpp"

namespace zero {

namespace {

// The model's end of a dry run: pointers for the runtime to set, with nothing behind them.
class DryModel {
 public:
  DryModel(const ModelShape& model, ZeroOptimizer& optimizer) : optimizer_(optimizer) {
    for (int group = 1; group < model.groups; ++group) optimizer.add_group({});
    std::size_t params = 0;
    for (const UnitShape& unit : model.units) params += unit.params.size();
    pointers_.resize(2 * params);
    std::size_t next = 0;
    for (const UnitShape& unit : model.units) {
      std::vector<ParamSpec> specs;
      for (const ParamShape& param : unit.params) {
        ParamSpec spec;
        spec.name = param.name;
        spec.shape = param.shape;
        spec.dtype = param.dtype;
        spec.group = param.group;
        spec.requires_grad = param.requires_grad;
        void** const data = &pointers_[next++];
        void** const grad = &pointers_[next++];
        // An address that can be told from others is enough for a fixed one.
        spec.data = param.fixed ? PointerSlot(fixed<void>(data)) : PointerSlot(data);
        spec.grad = param.fixed ? PointerSlot(fixed<void>(grad)) : PointerSlot(grad);
        specs.push_back(std::move(spec));
      }
      units_.push_back(optimizer.add_unit(unit.name, std::move(specs), unit.shared));
    }
  }

  void pass_forward() {
    for (const Unit unit : units_) optimizer_.forward(unit).close();
  }
  void pass_backward() {
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
      optimizer_.backward(*unit).close();
    }
  }

 private:
  ZeroOptimizer& optimizer_;
  std::vector<void*> pointers_;
  std::vector<Unit> units_;
};

}  // namespace

std::int64_t Plan::model_state_bytes() const {
  std::int64_t sum = 0;
  for (const Category category : {Category::kParams, Category::kGrads, Category::kMasterWeights,
                                  Category::kExpAvg, Category::kExpAvgSq}) {
    sum += trained.account(category).current_bytes;
  }
  return sum;
}

Plan PartitionManager::plan(const ModelShape& model, const Config& config, int world_size,
                            const PlanOptions& options, int rank) {
  Config without_budget = config;  // what the plan is for must not be decided by another plan
  without_budget.runtime.choose_stage = false;
  without_budget.runtime.memory_budget.reset();
  World world =
      World::meta(rank, world_size, options.stages_slices || config.runtime.nccl_reduction);
  ZeroOptimizer optimizer(std::move(without_budget), world);
  DryModel dry(model, optimizer);
  optimizer.prepare();

  Plan plan;
  plan.prepared = optimizer.ledger();
  if (options.loads) optimizer.load("");
  const auto save = [&](std::int64_t step) {
    if (options.saves) optimizer.save("", step);
    if (options.async_saves) optimizer.save("", step, {.async = true});
  };
  for (std::int64_t step = 0; step < std::min<std::int64_t>(options.steps, 2); ++step) {
    optimizer.reset_traffic();
    for (int micro = 0; micro < optimizer.accumulation_steps(); ++micro) {
      dry.pass_forward();
      dry.pass_backward();
      if (config.managed_accumulation || micro + 1 == optimizer.accumulation_steps()) {
        optimizer.step();
      } else {
        optimizer.end_micro_step();
      }
    }
    plan.traffic_per_step = optimizer.traffic();
    save(step);
  }
  if (options.steps == 0) save(0);  // as it was loaded
  plan.trained = optimizer.ledger();
  plan.layout = optimizer.layout();
  plan.model_elems = optimizer.model_elems();
  plan.padded_elems = optimizer.padded_elems();
  plan.stage = optimizer.stage();
  plan.world_size = world_size;
  return plan;
}

}  // namespace zero
