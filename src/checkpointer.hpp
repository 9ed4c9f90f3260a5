// Saves the state of an optimizer and takes it back: the mechanism behind ZeroOptimizer::save and
// load. Files and their commit are src/checkpoint_*; which bytes a rank has is
// src/checkpoint_ranges.
//
// A save is: rank 0 makes a temporary folder and tells its name; every rank writes its shard there,
// on the host straight from the memory that has it; rank 0 commits when all have. With `async` the
// shard is copied first, and a thread of its own does what follows, without the communicator.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint_ranges.hpp"
#include "src/registration.hpp"
#include "src/step_log.hpp"
#include "zero/file_system.hpp"
#include "zero/partition_manager.hpp"
#include "zero/save_load.hpp"

namespace zero {

namespace checkpoint {
class ShardWriter;
}

class Checkpointer {
 public:
  // What it reads and sets. All outlive it.
  struct Parts {
    Runtime& rt;
    const Registration& registry;
    Stage& stage;
    GradReducer& reducer;
    Vote& vote;
    StepLog& steps;
    Rates& rates;
    LossScaler& scaler;
    const std::vector<ParamGroup>& initial_groups;  // before any schedule or set_group()
    bool own_schedule;                              // the caller's, not the configuration's
    const StepLog::Log& log;
  };
  explicit Checkpointer(const Parts& parts);
  // Waits for a save that is under way. An error of it that no one has seen goes to the log.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Collective, between micro-steps, with no step open.
  void save(const std::string& directory, std::int64_t step, const SaveOptions& options);
  // Collective. Waits for the asynchronous save that is under way, if any, and throws its error.
  void wait();
  // Collective, as save(). After an error in the middle of it is_broken().
  LoadReport load(const std::string& path, const LoadOptions& options);
  // Empty, or why this optimizer can be used no more: a load ended half-way.
  const std::string& broken() const { return broken_; }
  // Rank by itself: ends the waits of a save under way, because others will not come.
  void give_up() noexcept;

 private:
  struct Job;

  CheckpointManifest manifest(std::int64_t step, const std::string& user_data);
  std::string schedule_text() const;
  std::vector<bool> touched_anywhere();
  std::span<const std::byte> snapshot(const std::vector<StoredRange>& ranges);
  // Throws unless runtime.memory_budget has room for what is to be done.
  void check_budget(PlanOptions planned, const char* what) const;
  void feed(const std::vector<StoredRange>& ranges, checkpoint::ShardWriter& writer);
  std::string begin(FileSystem& files, const std::string& directory, std::int64_t step);
  std::vector<std::string> gather_text(const std::string& mine, const char* what);
  void agree(const std::string& mine, const char* what);
  void require_same(const std::string& asked, const char* call);

  void check_model(const CheckpointReader& reader, const LoadOptions& options,
                   std::vector<std::string>& notes) const;
  int window_of(const CheckpointManifest& saved, const LoadOptions& options,
                std::vector<std::string>& notes) const;
  void read_states(CheckpointReader& reader, const LoadOptions& options);
  void check_window(const CheckpointReader& reader, int micro_step) const;
  void clear_window();
  void read_window(CheckpointReader& reader, int micro_step);
  void publish();
  void restore_counters(const CheckpointManifest& saved, int micro_step,
                        std::vector<std::string>& notes);
  void restore_groups(const CheckpointManifest& saved, std::vector<std::string>& notes);

  Parts p_;
  CheckpointRanges ranges_;
  std::string broken_;
  Buffer snapshot_;                // on the host
  std::optional<Staging> staged_;  // the same of a device, in host memory
  std::size_t snapshot_room_ = 0;
  std::unique_ptr<Job> job_;
};

}  // namespace zero
