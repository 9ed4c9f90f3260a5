// What is behind ZeroOptimizer: the shared state, the mechanisms, and the order of calls.
#pragma once

#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/checkpointer.hpp"
#include "src/grad_reducer.hpp"
#include "src/registration.hpp"
#include "src/shard_optimizer.hpp"
#include "src/step_log.hpp"
#include "src/tensor_access.hpp"
#include "zero/error.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero {

class ZeroOptimizer::Impl {
 public:
  Impl(Config config, World& world)
      : rt(settle(std::move(config), world), world.device(), world.communicator(), world.ledger(),
           *world.comm_stream_),
        registry(rt),
        rates(rt) {}

  ~Impl() {
    // A rank that leaves on an error must not wait here for peers that will never come.
    const bool beside = rt.config.zero.overlaps() || rt.device.kind() == DeviceKind::kCuda;
    if (std::uncaught_exceptions() > uncaught_ && beside) {
      rt.comm.abort(detail::concat("rank ", rt.rank(), " left its training loop on an error"));
    }
    if (std::uncaught_exceptions() > uncaught_ && checkpoints != nullptr) checkpoints->give_up();
    rt.drain();  // nothing writes to the buffers any more
    if (steps != nullptr) steps->finish();
    checkpoints.reset();  // waits for a save under way, and may have something to log
  }

  static Config settle(Config config, World& world) {
    config.resolve_batch(world.world_size());
    return config;
  }

  void prepare();
  void check_backend() const;
  void reserve_workspace();
  void keep_to_budget();
  void load_start_values(const Bucket& bucket);
  void initialise(const ParamSpec& spec, std::byte* place, std::size_t bytes);
  void begin(Unit unit, Pass pass);
  void end(Unit unit, Pass pass);
  void close_micro_step();
  void end_micro_step();
  StepHandle step();
  void update();
  void copy_to_fixed();
  // With a schedule the groups follow what the device has applied.
  void settle_groups() {
    if (steps != nullptr && rates.scheduled()) steps->settle();
  }

  UnitState& checked(Unit unit) {
    if (unit.index < 0 || unit.index >= static_cast<int>(rt.units.size())) {
      throw UsageError(detail::concat("unit ", unit.index, " does not exist; ", rt.units.size(),
                                      " units are registered"));
    }
    return rt.units[static_cast<std::size_t>(unit.index)];
  }
  // Throws what a closing guard could not, and refuses calls in the wrong order.
  void require(bool prepared, const char* call) {
    if (deferred != nullptr) std::rethrow_exception(std::exchange(deferred, nullptr));
    if (prepared && stage == nullptr) {
      throw UsageError(detail::concat(call, " comes after prepare()"));
    }
    if (!prepared && stage != nullptr) {
      throw UsageError(detail::concat(call, " comes before prepare()"));
    }
  }
  // A gradient that is not whole was added to; which part of it, nobody knows.
  void require_whole(const char* call) {
    if (checkpoints != nullptr && !checkpoints->broken().empty()) {
      throw UsageError(detail::concat(call, ": ", checkpoints->broken(),
                                      ", so part of the state is the checkpoint's and part is not. "
                                      "Make a new optimizer"));
    }
    if (failed_backward.empty()) return;
    throw UsageError(detail::concat(call, ": the backward pass over unit ", failed_backward,
                                    " ended in an exception, so its gradients are not whole. This "
                                    "optimizer cannot go on; resume from what was saved"));
  }
  // Between micro-steps, with all that was issued done.
  void require_quiet(const char* call) {
    require(true, call);
    require_whole(call);
    require_no_use(call);
    if (backward_begun) {
      throw UsageError(
          detail::concat(call, " in the middle of a micro-step: it comes after step()"));
    }
    if (rt.device.kind() == DeviceKind::kCuda) {
      steps->synchronize();  // also what replays of a captured step have counted
    } else {
      steps->settle();
    }
  }
  void require_no_use(const char* call) {
    for (const UnitState& unit : rt.units) {
      if (unit.open_forward + unit.open_backward > 0) {
        throw UsageError(detail::concat(call, " while unit ", unit.name, " is in use"));
      }
    }
  }

  Runtime rt;
  Registration registry;
  std::unique_ptr<Stage> stage;  // from prepare() on
  std::unique_ptr<GradReducer> reducer;
  Buffer workspace;
  LossScaler scaler;
  Rates rates;
  std::unique_ptr<OwnedPieces> pieces;
  std::unique_ptr<Vote> vote;
  std::unique_ptr<ShardOptimizer> optimizer;
  std::unique_ptr<StepLog> steps;
  std::unique_ptr<TensorAccess> tensors;
  std::vector<ParamGroup> initial_groups;  // as they were when prepare() began
  bool own_schedule = false;               // set_lr_schedule()
  std::unique_ptr<Checkpointer> checkpoints;
  std::vector<int> unused;      // of the backward passes that are open
  bool backward_begun = false;  // in this micro-step
  std::string failed_backward;  // unit whose backward pass was left by an exception
  std::exception_ptr deferred;
  std::function<void(std::string_view)> log = [this](std::string_view line) {
    if (rt.rank() == 0) std::cerr << "zero: " << line << '\n';
  };
  const int uncaught_ = std::uncaught_exceptions();
};

}  // namespace zero
