#include "zero/partition_manager.hpp"

#include <algorithm>
#include <utility>

#include "zero/error.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero {

using detail::concat;

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

// Sizes to try, from the configured one downwards.
std::vector<std::int64_t> halves(std::int64_t from, std::int64_t floor) {
  std::vector<std::int64_t> sizes = {from};
  while (sizes.back() / 2 >= floor) sizes.push_back(sizes.back() / 2);
  return sizes;
}

std::string patch_for(const Config& config, const Config& original) {
  const ZeroSettings& zero = config.zero;
  std::string patch = concat("{\"zero_optimization\": {\"stage\": ", zero.stage);
  if (zero.reduce_bucket_size != original.zero.reduce_bucket_size) {
    patch += concat(", \"reduce_bucket_size\": ", zero.reduce_bucket_size);
  }
  if (zero.prefetch_bucket_size != original.zero.prefetch_bucket_size) {
    patch += concat(", \"stage3_prefetch_bucket_size\": ", zero.prefetch_bucket_size);
  }
  return patch + "}}";
}

// The candidates of one stage, best first.
std::vector<Config> candidates(const Config& config, int stage, std::int64_t model_elems) {
  // Larger than the model is as good as the model: the search starts where sizes begin to matter.
  const ZeroSettings& zero = config.zero;
  const std::int64_t bucket_limit = std::min(zero.reduce_bucket_size, zero.allgather_bucket_size);
  const std::int64_t most = std::max<std::int64_t>(model_elems, 1);
  std::vector<std::int64_t> prefetches = {zero.prefetch_bucket_size};
  if (stage == 3) {
    const std::int64_t largest = std::min(zero.prefetch_bucket_size, most);
    prefetches = halves(largest, PartitionManager::kSizeFloorElems);
    if (largest == most) prefetches.front() = zero.prefetch_bucket_size;  // as the file has it
    if (prefetches.back() != 0) prefetches.push_back(0);
  }
  std::vector<Config> all;
  for (const std::int64_t bucket :
       halves(std::min(bucket_limit, most), PartitionManager::kSizeFloorElems)) {
    for (const std::int64_t prefetch : prefetches) {
      Config candidate = config;
      candidate.zero.stage = stage;
      if (bucket < std::min(bucket_limit, most)) candidate.zero.reduce_bucket_size = bucket;
      candidate.zero.prefetch_bucket_size = prefetch;
      all.push_back(std::move(candidate));
    }
  }
  return all;
}

// What a stage comes to: its first candidate that fits, else the one with the smallest peak.
struct BestOfStage {
  bool fits = false;
  Config config;
  Plan plan;
  std::string refusal;  // why the stage is not possible at all
  std::int64_t traffic() const { return plan.traffic_per_step.model_bytes(); }
};

BestOfStage best_of_stage(const ModelShape& model, const Config& config, int stage, int world_size,
                          std::int64_t limit_bytes) {
  BestOfStage best;
  bool first = true;
  for (const Config& candidate : candidates(config, stage, model.elems())) {
    Plan plan;
    try {
      plan = PartitionManager::plan(model, candidate, world_size);
    } catch (const ConfigError& error) {
      if (stage < 3) throw;  // what is wrong with the model is so at every stage
      best.config = candidate;
      best.refusal = error.what();
      return best;
    }
    best.fits = plan.peak_bytes() <= limit_bytes;
    if (best.fits || first || plan.peak_bytes() < best.plan.peak_bytes()) {
      best.config = candidate;
      best.plan = plan;
    }
    first = false;
    if (best.fits) break;
  }
  return best;
}

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
  World world = World::meta(rank, world_size);
  ZeroOptimizer optimizer(std::move(without_budget), world);
  DryModel dry(model, optimizer);
  optimizer.prepare();

  Plan plan;
  plan.prepared = optimizer.ledger();
  for (std::int64_t step = 0; step < std::min<std::int64_t>(options.steps, 2); ++step) {
    optimizer.reset_traffic();
    for (int micro = 0; micro < optimizer.accumulation_steps(); ++micro) {
      dry.pass_forward();
      dry.pass_backward();
      optimizer.step();
    }
    plan.traffic_per_step = optimizer.traffic();
  }
  plan.trained = optimizer.ledger();
  plan.model_elems = optimizer.model_elems();
  plan.padded_elems = optimizer.padded_elems();
  plan.stage = optimizer.stage();
  plan.world_size = world_size;
  return plan;
}

Fit PartitionManager::fit(const ModelShape& model, const Config& config, int world_size,
                          std::int64_t budget_bytes, std::int64_t reserved_bytes) {
  std::vector<BestOfStage> stages;
  for (const int stage : {0, 1, 2, 3}) {
    stages.push_back(
        best_of_stage(model, config, stage, world_size, budget_bytes - reserved_bytes));
  }
  // With nothing that fits, the smallest peak; otherwise the least traffic. The lower stage of two.
  const auto better = [](const BestOfStage& a, const BestOfStage& b) {
    if (a.refusal.empty() != b.refusal.empty()) return a.refusal.empty();
    if (a.fits != b.fits) return a.fits;
    return a.fits ? a.traffic() < b.traffic() : a.plan.peak_bytes() < b.plan.peak_bytes();
  };
  const BestOfStage& best = *std::min_element(stages.begin(), stages.end(), better);

  Fit fit;
  fit.fits = best.fits;
  fit.config = best.config;
  fit.json = patch_for(best.config, config);
  fit.plan = best.plan;
  for (const BestOfStage& other : stages) {
    const int stage = other.config.zero.stage;
    if (fit.fits && stage >= best.config.zero.stage) break;  // those below are what is asked about
    if (!other.refusal.empty()) {
      fit.reasons.push_back(concat("stage ", stage, " is not possible: ", other.refusal));
    } else if (other.fits) {
      fit.reasons.push_back(concat("stage ", stage, " fits too, but moves ", other.traffic(),
                                   " bytes a step where this moves ", best.traffic()));
    } else {
      fit.reasons.push_back(
          concat("stage ", stage, " does not fit: at least ", other.plan.peak_bytes(),
                 " bytes a rank, with ", reserved_bytes, " reserved ",
                 other.plan.peak_bytes() + reserved_bytes - budget_bytes, " too many"));
    }
  }
  if (!fit.fits) return fit;
  const auto lowered = [&](const char* what, std::int64_t from, std::int64_t to) {
    if (from != to) fit.reasons.push_back(concat(what, " lowered from ", from, " to ", to));
  };
  lowered("reduce_bucket_size", config.zero.reduce_bucket_size,
          best.config.zero.reduce_bucket_size);
  lowered("stage3_prefetch_bucket_size", config.zero.prefetch_bucket_size,
          best.config.zero.prefetch_bucket_size);
  return fit;
}

}  // namespace zero
