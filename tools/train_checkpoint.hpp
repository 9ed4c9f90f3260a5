// When a training run saves and where it goes on: --save-dir, --save-every, --keep, --save-async
// and --resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/train_data.hpp"
#include "tools/train_options.hpp"
#include "tools/train_report.hpp"
#include "zero/partition_manager.hpp"
#include "zero/zero_optimizer.hpp"

namespace train {

// Of one rank; its calls are collective.
class Checkpoints {
 public:
  // REQUIRES: all outlive it. Rank 0 writes to `json` and says what there is to say on standard
  // error.
  Checkpoints(const Setup& setup, const Corpus& corpus, zero::ZeroOptimizer& optimizer,
              JsonLines& json);

  // Loads what --resume names. Returns the steps that are done: 0 without it.
  std::int64_t resume();
  // After a step of the run, `done` steps in all. `last`: none comes after it. Saves if it is time,
  // and after the last one in any case.
  void after_step(std::int64_t done, bool last);
  // No save is under way any more.
  void finish();

  // Throws zero::ConfigError unless runtime.memory_budget has room for what saving and resuming
  // take in a run of so many steps.
  void check_budget(std::int64_t steps) const;
  // Throws zero::ConfigError unless --save-dir can be saved in: on rank 0, which makes the folder.
  void check_folder() const;
  // What a plan has to know.
  zero::PlanOptions foreseen(std::int64_t steps) const;

 private:
  struct Saved {
    std::int64_t step;
    double ms;  // for which training stood still
  };
  // Says that a save is complete.
  void report();
  std::string position(std::int64_t done) const;
  std::vector<std::string> differences(const std::string& saved) const;

  const Setup& setup_;
  const Corpus& corpus_;
  zero::ZeroOptimizer& optimizer_;
  JsonLines& json_;
  std::optional<Saved> under_way_;
};

}  // namespace train
