// The search for the stage and sizes that fit a budget.
#include <algorithm>
#include <utility>
#include <vector>

#include "zero/error.hpp"
#include "zero/partition_manager.hpp"

namespace zero {

using detail::concat;

namespace {

std::string patch_for(const Config& config, const Config& original) {
  const ZeroSettings& zero = config.zero;
  std::string patch = concat("{\"zero_optimization\": {\"stage\": ", zero.stage);
  if (zero.reduce_bucket_size != original.zero.reduce_bucket_size) {
    patch += concat(", \"reduce_bucket_size\": ", zero.reduce_bucket_size);
  }
  if (zero.prefetch_bucket_size != original.zero.prefetch_bucket_size) {
    patch += concat(", \"stage3_prefetch_bucket_size\": ", zero.prefetch_bucket_size);
  }
  if (zero.param_persistence_threshold != original.zero.param_persistence_threshold) {
    patch += concat(", \"stage3_param_persistence_threshold\": ", zero.param_persistence_threshold);
  }
  return patch + "}}";
}

// What a stage comes to: its first candidate that fits, else the one with the smallest peak.
struct BestOfStage {
  bool fits = false;
  Config config;
  Plan plan;
  std::string refusal;  // why the stage is not possible at all
  std::int64_t traffic() const { return plan.traffic_per_step.model_bytes(); }
};

class StageSearch {
 public:
  StageSearch(const ModelShape& model, const Config& config, int stage, int world_size,
              std::int64_t limit_bytes, const PlanOptions& options)
      : model_(model), world_size_(world_size), limit_(limit_bytes), options_(options) {
    best_.config = config;
    best_.config.zero.stage = stage;
    for (const UnitShape& unit : model.units) params_ += unit.params.size();
  }

  BestOfStage run() {
    const Config start = best_.config;
    try {
      keep(start);
    } catch (const ConfigError& error) {
      if (start.zero.stage < 3) throw;  // what is wrong with the model is so at every stage
      best_.refusal = error.what();
      return best_;
    }
    if (best_.fits) return best_;
    // Whole small parameters save traffic, so they are given up last.
    std::vector<std::int64_t> thresholds = {start.zero.param_persistence_threshold};
    if (start.zero.stage == 3 && thresholds[0] > 0) thresholds.push_back(0);
    for (const std::int64_t threshold : thresholds) {
      Config config = start;
      config.zero.param_persistence_threshold = threshold;
      if (search_buckets(config)) break;
    }
    return best_;
  }

 private:
  // From the configured size down to one parameter per bucket.
  bool search_buckets(Config config) {
    std::int64_t above = 0;  // the last size that was too large
    const std::int64_t prefetch = config.zero.prefetch_bucket_size;
    // The smallest window first: a larger one never holds less.
    if (config.zero.stage == 3) config.zero.prefetch_bucket_size = 0;
    while (!keep(config)) {
      above = limit(config);
      const std::int64_t next = next_size(last_.layout, above);
      if (next == 0) return false;
      config.zero.reduce_bucket_size = next;
    }
    if (above > 0 && thinned()) refine_bucket(config, above);
    if (config.zero.stage == 3) widen_prefetch(best_.config, prefetch);
    return true;
  }

  // The next smaller size that changes the layout: the fullest bucket of several parameters no
  // longer fits. Every size in between gives the layout of the larger one. 0: there is none. With
  // many parameters the smallest steps are left out.
  std::int64_t next_size(const Layout& layout, std::int64_t size) const {
    std::int64_t fullest = 0;
    for (const Bucket& bucket : layout.buckets()) {
      if (bucket.segments.size() < 2) continue;
      const Segment& last = bucket.segments.back();
      fullest = std::max(fullest, last.offset + last.elems);
    }
    if (fullest < 2) return 0;
    const std::int64_t next = std::min(fullest, size) - 1;
    return thinned() ? std::max<std::int64_t>(1, std::min(next, next / 5 * 4)) : next;
  }

  void refine_bucket(const Config& fitting, std::int64_t above) {
    std::int64_t low = limit(fitting);
    while (above - low > 1) {
      Config config = fitting;
      const std::int64_t middle = low + (above - low) / 2;
      config.zero.reduce_bucket_size = middle;
      (keep(config) ? low : above) = middle;
    }
  }

  // The largest window, from 0, that fits.
  void widen_prefetch(const Config& fitting, std::int64_t configured) {
    Config config = fitting;
    config.zero.prefetch_bucket_size = configured;
    if (keep(config)) return;
    std::int64_t low = 0;
    std::int64_t high = std::min(configured, last_.padded_elems + 1);  // holds all: does not fit
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      config.zero.prefetch_bucket_size = middle;
      (keep(config) ? low : high) = middle;
    }
  }

  // Plans, and keeps what is better: anything that fits, or a smaller peak while nothing does.
  bool keep(const Config& config) {
    last_ = PartitionManager::plan(model_, config, world_size_, options_);
    const bool fits = last_.peak_bytes() <= limit_;
    const bool first = best_.plan.world_size == 0;
    if (fits || (!best_.fits && (first || last_.peak_bytes() < best_.plan.peak_bytes()))) {
      best_.fits = fits;
      best_.config = config;
      best_.plan = last_;
    }
    return fits;
  }

  static std::int64_t limit(const Config& config) {
    return std::min(config.zero.reduce_bucket_size, config.zero.allgather_bucket_size);
  }
  bool thinned() const { return params_ > kAllLayouts; }

  static constexpr std::size_t kAllLayouts = 64;  // parameters up to which every layout is tried

  const ModelShape& model_;
  const int world_size_;
  const std::int64_t limit_;
  const PlanOptions options_;
  std::size_t params_ = 0;
  Plan last_;
  BestOfStage best_;
};

}  // namespace

Fit PartitionManager::fit(const ModelShape& model, const Config& config, int world_size,
                          std::int64_t budget_bytes, std::int64_t reserved_bytes,
                          const PlanOptions& options) {
  if (budget_bytes < 0 || reserved_bytes < 0) {
    throw UsageError(concat("PartitionManager::fit: a budget of ", budget_bytes, " bytes, ",
                            reserved_bytes, " of them reserved; 0 or more are valid"));
  }
  const std::int64_t limit = budget_bytes - reserved_bytes;
  std::vector<BestOfStage> stages;
  for (const int stage : {0, 1, 2, 3}) {
    stages.push_back(StageSearch(model, config, stage, world_size, limit, options).run());
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
      fit.reasons.push_back(concat("stage ", stage, " does not fit: at least ",
                                   other.plan.peak_bytes(), " bytes a rank, where ",
                                   std::max<std::int64_t>(limit, 0), " are left of ", budget_bytes,
                                   " with ", reserved_bytes, " reserved"));
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
  lowered("stage3_param_persistence_threshold", config.zero.param_persistence_threshold,
          best.config.zero.param_persistence_threshold);
  return fit;
}

}  // namespace zero
