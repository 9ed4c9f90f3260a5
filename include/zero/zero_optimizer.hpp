// The one class users hold: shards optimizer state, gradients and parameters of an existing model
// over the ranks of a World, at the stage that the configuration names.
//
//   zero::ZeroOptimizer optimizer(config, world);
//   for (Block& b : model.blocks) b.unit = optimizer.add_unit(b.name, {{.name = ..., ...}, ...});
//   optimizer.prepare();
//   loop: { auto use = optimizer.forward(b.unit); forward(b); }
//         loss_gradient *= optimizer.loss_scale();
//         { auto use = optimizer.backward(b.unit); backward(b); }   // adds into *grad
//         StepResult r = optimizer.step();                          // once per micro-step
//
// All calls are made by one thread per rank, and by all ranks alike: most of them communicate. On
// the host, forward and backward run on the calling thread, and a call has done its work when it
// returns. On a CUDA device they run on world.device().caller_stream().native(), a cudaStream_t;
// calls put their work there and on a stream beside it, and return without waiting for it unless
// they say "blocks". Errors are ConfigError (refused before training), UsageError (wrong order of
// calls), CommError (another rank is gone or differs), LossScaleError, CudaError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/config.hpp"
#include "zero/ledger.hpp"
#include "zero/lr_schedule.hpp"
#include "zero/param_spec.hpp"
#include "zero/partition_manager.hpp"
#include "zero/save_load.hpp"
#include "zero/step_result.hpp"
#include "zero/traffic.hpp"
#include "zero/world.hpp"

namespace zero {

class ZeroOptimizer;

// A unit: parameters used together, usually a layer. A cheap handle.
struct Unit {
  int index = -1;
};

// What read() and write() can reach. Whole tensors in the parameter's shape, as fp32.
enum class Tensor : std::uint8_t {
  kParams,         // working parameters, in their dtype's values
  kMasterWeights,  // fp32 weights; the parameters themselves where those are fp32
  kExpAvg,
  kExpAvgSq,
  kGrads,  // read only: mean gradient of the last step, unscaled, before clipping
};

// Holds a unit's parameters usable while it lives. Closing it may start communication; an error on
// that way is kept and thrown by the next call of the optimizer. Call close() to have it at once.
class [[nodiscard]] Use {
 public:
  Use(Use&& other) noexcept;
  Use& operator=(Use&&) = delete;
  // Left by an exception in a forward pass, it ends as usual. In a backward pass the gradient is
  // not whole: nothing is sent, and later passes and steps throw UsageError.
  ~Use();
  // Says that this backward pass gave no gradient to a parameter of the unit. A parameter without
  // any gradient on any rank in a whole step is left alone: no decay, no moments, no step count.
  void unused(std::string_view param);
  // Ends the use now and throws what goes wrong. Later calls do nothing.
  void close();

 private:
  friend class ZeroOptimizer;
  Use(ZeroOptimizer* optimizer, Unit unit, bool backward);
  ZeroOptimizer* optimizer_;
  Unit unit_;
  bool backward_;
  int uncaught_;  // exceptions under way when the use began
};

class ZeroOptimizer {
 public:
  // Settles the batch triple for the world size, if that was not done. REQUIRES: world outlives
  // this.
  ZeroOptimizer(Config config, World& world);
  // Frees all memory. The model's pointers dangle from here. Does not communicate.
  ~ZeroOptimizer();
  ZeroOptimizer(const ZeroOptimizer&) = delete;
  ZeroOptimizer& operator=(const ZeroOptimizer&) = delete;

  // --- Before prepare() ---

  // Hyper-parameters of group 0 come from the configuration. Returns the index of a further group.
  // Values out of range: ConfigError, as in the file.
  int add_group(const ParamGroup& group);

  // Plugs a schedule of one's own, on every rank the same; without one the configuration's
  // "scheduler" is taken. From prepare() on it sets the groups before the first update and after
  // every applied one; what set_group() sets meanwhile holds for one update. UsageError if the
  // configuration has a scheduler too.
  void set_lr_schedule(std::unique_ptr<LrSchedule> schedule);

  // Registers parameters used together. Order of registration is order of use in forward. `shared`
  // names parameters of earlier units that this unit uses as well (tied weights).
  Unit add_unit(std::string name, std::vector<ParamSpec> params,
                std::vector<std::string> shared = {});

  // What was registered so far. Also after prepare().
  ModelShape shape() const;
  // What every rank will hold and move, in every category to the byte, if each unit is used in the
  // order of registration in forward and in the reverse in backward. Allocates nothing and does not
  // communicate. Also after prepare(). With runtime.choose_stage: of the stage that is chosen,
  // or of the smallest peak if nothing fits. Throws ConfigError for a model that prepare() would
  // refuse; the budget plays no part.
  Plan plan(const PlanOptions& options = {}) const;

  // Checks everything, keeps to runtime.memory_budget, allocates, takes rank 0's values, and points
  // the model at its memory. From here on memory does not grow. Collective. Throws ConfigError
  // before anything is allocated for the model; also on every rank where version, configuration or
  // parameters are not the same on all: it has the first difference, as two ranks have it.
  void prepare();

  // --- Training ---

  // Makes the unit's parameters usable for a forward or backward pass. At stage 3 all ranks make
  // the same passes in the same order, since each gathers; a parameter that one of them gives no
  // gradient is declared with unused(). At lower stages a rank may leave out a backward pass: it
  // counts as zero. In backward, *grad of each trainable parameter points to memory into which the
  // model adds.
  Use forward(Unit unit);
  Use backward(Unit unit);
  // The same as plain calls, where a scope does not fit. Each begin needs its end.
  void begin_forward(Unit unit);
  void end_forward(Unit unit);
  void begin_backward(Unit unit);
  void end_backward(Unit unit);
  void unused(Unit unit, std::string_view param);  // between begin_backward and end_backward

  // What the gradient of the loss is to be multiplied with before backward. 1 unless fp16. Blocks
  // on CUDA if the scale is dynamic: it is what the step before leaves.
  double loss_scale() const;
  // The same as an fp32 in the memory of the device, for a kernel on the caller's stream to read;
  // valid from prepare() on, and always that of the coming step. Does not block.
  const float* loss_scale_on_device() const;

  // Ends a micro-step. On the last one of a step: reduces, votes, clips, updates, publishes. With
  // managed_gradient_accumulation false every call is that of a last one, and end_micro_step() ends
  // those before.
  // On the host, throws LossScaleError when gradients overflow at the minimum loss scale; on CUDA
  // that, and every error that depends on what the device computed, is thrown by who looks at the
  // result, or else by step(), at the latest two steps later. Until then nothing waits for the
  // device but for the step before the last.
  StepHandle step();
  // Blocks until every step is done, and throws the first error that no one has looked at. Returns
  // what the last step did, also if that was the replay of a step that was captured into a CUDA
  // graph: with one rank (World::cuda(), or run_ranks of one) a step can be captured: forward,
  // backward and step() between cudaStreamBeginCapture and cudaStreamEndCapture on the caller's
  // stream, once a step of the same kind has been made and synchronize() was called. A replay takes
  // the rates of the update that it makes; synchronize() gives the device those of the next 64, so
  // call it at least that often (UsageError if a replay found none: it changed nothing). Which
  // parameters are frozen or without gradient stays as it was captured. What the host knows
  // (groups, applied_steps, loss_scale) is of before the replays until synchronize() is called.
  StepResult synchronize();
  // With managed_gradient_accumulation false: ends a micro-step that is not the last one of its
  // step. On all ranks alike. The mean stays one over gradient_accumulation_steps x ranks, however
  // many micro-steps there were. UsageError otherwise: step() does it.
  void end_micro_step();

  // --- Between steps, on all ranks alike. With a schedule these block until every step is done.
  // ---

  const std::vector<ParamGroup>& groups() const;
  void set_group(int index, const ParamGroup& group);  // also before prepare()
  // Freezes or unfreezes, from the end of a step until the next one's first backward pass. A
  // parameter registered frozen has no optimizer state and stays so: ConfigError.
  void set_requires_grad(std::string_view param, bool requires_grad);

  // --- Checkpoints. Collective, on all ranks alike, between micro-steps; see checkpoint.hpp for
  // what is on disk. What goes wrong on one rank is a CheckpointError on all of them; ranks that
  // ask for different things (path, step, options) get a UsageError with both. ---

  // Writes the state of training into `directory`/step-00000100 (`step` is the caller's own count),
  // which all ranks share and which is no checkpoint itself: weights, moments, counts, schedule,
  // loss scale, settings of the groups, and, inside an accumulation window, the sums of gradients.
  // A crash at any moment leaves the checkpoints before as they were. Blocks until it is on the
  // disk; with SaveOptions::async until this rank's share is copied, and what goes wrong later is
  // thrown by wait_for_save(), or by the next save() or load(). Holds 1 MiB of workspace on its
  // way, async a copy of the share.
  void save(const std::string& directory, std::int64_t step, const SaveOptions& options = {});
  // Blocks until no asynchronous save is under way on any rank, and throws what went wrong in it.
  void wait_for_save();
  // Goes on from a checkpoint, made at any world size, stage, bucket size and device: `path` is
  // one, or a folder of them, of which `latest` names the one. Training from here has the bits of a
  // run that was never ended, where the world size is the same or runtime.reproducible is set; with
  // accumulation also as stages agree with each other (0 and 1; 2 and 3).
  // Settings of param groups and schedule are the checkpoint's, unless the configuration has
  // changed since. After prepare(); before anything is changed, manifest and model are compared.
  // Holds 5 MiB of workspace on its way. After an error in reading values, which every checksum may
  // be, the optimizer is of no more use: UsageError.
  LoadReport load(const std::string& path, const LoadOptions& options = {});

  // --- Looking in ---

  // Takes the lines that the runtime has to say (skipped steps) instead of standard error, where
  // rank 0 writes them. Called on every rank.
  void set_log(std::function<void(std::string_view line)> log);

  // Collective: every rank gets the whole tensor. `out` has numel elements. Blocks. As after
  // step(), nothing of the optimizer is under way when it returns, so the world's communicator is
  // free for the caller. A parameter without optimizer state (frozen) has no moments: UsageError.
  // SGD has none either.
  void read(std::string_view param, Tensor what, std::span<float> out);
  // Collective: rank 0's values are taken. Writing params sets the master weights too, and the
  // other way round (rounded to the parameter's dtype).
  void write(std::string_view param, Tensor what, std::span<const float> values);

  struct ParamInfo {
    std::string name;
    std::vector<std::int64_t> shape;
    std::int64_t numel = 0;
    DType dtype = DType::kFloat32;
    int group = 0;
    bool has_state = true;        // registered trainable
    std::int64_t step_count = 0;  // applied updates of this parameter
  };
  // In registration order. Blocks until every step is done.
  std::vector<ParamInfo> params() const;

  // In force: the batch triple settled, and after prepare() also what was "auto", and the stage and
  // sizes that runtime.choose_stage chose. config().effective() lists it.
  const Config& config() const;
  int rank() const;
  int world_size() const;
  int stage() const;
  int accumulation_steps() const;
  std::int64_t applied_steps() const;  // blocks until every step is done

  const Ledger& ledger() const;
  const Traffic& traffic() const;
  void reset_traffic();
  // How parameters are cut into buckets and shards; empty before prepare().
  const Layout& layout() const;
  // Elements of all buckets as registered, and with the padding that makes them cut evenly.
  std::int64_t model_elems() const;
  std::int64_t padded_elems() const;

 private:
  friend class Use;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
