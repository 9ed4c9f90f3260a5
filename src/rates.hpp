// Settings of the param groups for coming updates.
//
// A schedule is a function of how many updates were applied, and on a GPU the host does not know
// how many that is. So it works out the rows of several updates ahead; the device counts, and takes
// the row it needs.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/decision.hpp"
#include "src/runtime.hpp"
#include "zero/lr_schedule.hpp"

namespace zero {

class Rates {
 public:
  explicit Rates(Runtime& runtime) : rt_(runtime) {}

  // Before prepare(). Null: groups stay as they are set.
  void set_schedule(std::unique_ptr<LrSchedule> schedule) { schedule_ = std::move(schedule); }
  bool scheduled() const { return schedule_ != nullptr; }
  // Sets rt.groups for the first update. Throws as LrSchedule::apply.
  void start();
  // After the update that made `applied` of them: rt.groups are those of the next one. Throws as
  // LrSchedule::apply.
  void advance(std::int64_t applied);
  // rt.groups were changed by hand: that holds for the next update, and what no schedule governs
  // also after it. REQUIRES with a schedule: advance() knows of all steps.
  void changed();
  // Whether rt.groups are not those of the schedule alone.
  bool by_hand() const { return by_hand_; }
  // rt.groups are those of a checkpoint, made after `applied` updates; with `by_hand` they hold for
  // the next update as they are, else a schedule sets what it governs.
  void restore(std::int64_t applied, bool by_hand);

  // Room that a table takes.
  std::size_t bytes() const;
  // Whether the device needs the table anew for the next `steps` steps.
  bool stale(std::int64_t steps) const;
  // Writes the table; it counts as given to the device.
  void write(std::byte* table);
  // Per group, of update `update`. REQUIRES: advance() has not gone past it, and the last table had
  // it.
  std::vector<double> lr(std::int64_t update) const;

 private:
  void extend(std::int64_t rows);
  std::vector<ParamGroup> scheduled_groups(std::int64_t update) const;

  Runtime& rt_;
  std::unique_ptr<LrSchedule> schedule_;
  std::int64_t first_ = 0;                    // the update that rt.groups are for
  std::deque<std::vector<ParamGroup>> rows_;  // from first_ on
  bool by_hand_ = false;
  std::int64_t given_end_ = 0;  // updates before it are in the device's table
  bool given_ = false;
};

}  // namespace zero
