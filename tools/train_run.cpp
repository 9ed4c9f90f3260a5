#include "tools/train_run.hpp"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>

#include "tools/train_checkpoint.hpp"
#include "tools/train_model.hpp"
#include "zero/checkpoint.hpp"
#include "zero/error.hpp"

namespace train {

namespace {

using zero::detail::concat;

// Windows of the held-out text that are evaluated, rounded up to whole micro-batches.
constexpr std::int64_t kHeldOutWindows = 512;

// Every rank's values, rank after rank. Between steps only: the optimizer's own communication is
// then done. Carried as fp32 words, since a gather copies bytes.
std::vector<double> gather(zero::World& world, const std::string& name,
                           std::span<const double> mine) {
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world.world_size()));
  world.communicator().all_gather(mine.data(), all.data(),
                                  static_cast<std::int64_t>(2 * mine.size()), zero::DType::kFloat32,
                                  {zero::Purpose::kControl, name}, world.device().caller_stream());
  return all;
}

// Processes are told one by one what to train with. What the optimizer does not see, and so does
// not compare, is compared here.
void require_same_run(zero::World& world, const Setup& setup, const Corpus& corpus) {
  struct Setting {
    const char* name;
    std::uint64_t value;
  };
  const Setting settings[] = {{"--seed", setup.options.seed},
                              {"--context", static_cast<std::uint64_t>(setup.shape.context)},
                              {"the bytes of --data", corpus.bytes()},
                              {"the xxh3 of --data", corpus.hash()}};
  std::vector<double> mine;
  for (const Setting& setting : settings) mine.push_back(std::bit_cast<double>(setting.value));
  const std::vector<double> all = gather(world, "what the ranks train with", mine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto here = std::bit_cast<std::uint64_t>(all[i]);
    const auto first = std::bit_cast<std::uint64_t>(all[i % mine.size()]);
    if (here == first) continue;
    throw zero::ConfigError(concat(settings[i % mine.size()].name, " is ", first, " on rank 0 and ",
                                   here, " on rank ", i / mine.size(),
                                   "; all ranks have to train with the same"));
  }
}

std::string lr_json(const std::vector<double>& lr) {
  bool same = !lr.empty();
  std::string list;
  for (const double value : lr) {
    same = same && value == lr.front();
    list += (list.empty() ? "" : ",") + json_number(value);
  }
  return same ? json_number(lr.front()) : "[" + list + "]";
}

Verbosity verbosity_of(const Options& options) {
  if (options.quiet) return Verbosity::kQuiet;
  return options.verbose ? Verbosity::kVerbose : Verbosity::kNormal;
}

std::runtime_error diverged(const std::string& what, double loss, const std::string& when) {
  return std::runtime_error(concat("the ", what, " is ", loss, " ", when,
                                   ": training has diverged; try a smaller optimizer.params.lr"));
}

// What --resume names is a file of the user's: what is wrong with it is no failure of the run.
// Advice to programs, which no flag could follow, comes last in a message of the library and is
// left out.
std::int64_t resume(Checkpoints& checkpoints, const Options& options) {
  std::int64_t done = 0;
  try {
    done = checkpoints.resume();
  } catch (const zero::CheckpointError& error) {
    std::string text = error.what();
    if (const std::size_t advice = text.find("LoadOptions::"); advice != std::string::npos) {
      text.resize(text.find_last_not_of(" ;.", advice - 1) + 1);
    }
    throw zero::ConfigError(concat("--resume ", options.resume, ": ", text));
  }
  if (options.steps > 0 && done > options.steps) {
    throw zero::ConfigError(concat("--resume ", options.resume, ": the checkpoint is at step ",
                                   done, ", --steps is ", options.steps,
                                   ": nothing to train; --steps counts from the very beginning, "
                                   "and 0 only evaluates"));
  }
  return done;
}

// Whether there is such a checkpoint in the folder, as rank 0 sees it. Collective.
bool is_saved(zero::World& world, const std::string& folder, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "/step-%08lld", static_cast<long long>(step));
  double there = 0;
  if (world.rank() == 0) {
    try {
      zero::find_checkpoint(zero::posix_file_system(), folder + name);
      there = 1;
    } catch (const zero::CheckpointError&) {  // missing, or not whole
    }
  }
  return gather(world, "zero-train whether it is saved", std::span(&there, 1)).front() != 0;
}

// With JSON lines on standard output, nothing else may be there.
std::FILE* for_people(const Options& options) { return options.json_path == "-" ? stderr : stdout; }

class Rank {
 public:
  Rank(const Setup& setup, const Corpus& corpus, zero::World& world, const std::atomic<int>& signal)
      : setup_(setup),
        corpus_(corpus),
        world_(world),
        signal_(signal),
        model_(setup.shape, setup.dtype, setup.options.seed, setup.config, world) {
    optimizer().prepare();
    if (setup.options.verbose && world.rank() == 0) {  // now that all of it is settled
      std::cerr << "configuration: " << optimizer().config().explained();
    }
  }

  int accumulation() { return model_.optimizer().accumulation_steps(); }
  // 0, or the signal that a rank has got.
  int interrupted_by() const { return interrupted_by_; }
  zero::ZeroOptimizer& optimizer() { return model_.optimizer(); }

  // One step on all ranks. Afterwards interrupted_by() is the same on all of them.
  StepLine step(std::int64_t index) {
    const auto start = std::chrono::steady_clock::now();
    const auto world_size = static_cast<std::uint64_t>(world_.world_size());
    const auto slots = world_size * static_cast<std::uint64_t>(accumulation());
    std::vector<double> mine;
    zero::StepResult result;
    for (int micro = 0; micro < accumulation(); ++micro) {
      const std::uint64_t slot = static_cast<std::uint64_t>(index) * slots +
                                 static_cast<std::uint64_t>(micro) * world_size +
                                 static_cast<std::uint64_t>(world_.rank());
      corpus_.draw(setup_.options.seed, slot, setup_.shape.micro_batch, setup_.shape.context,
                   batch_);
      mine.push_back(model_.forward(batch_.tokens, batch_.targets));
      model_.backward();
      // Unmanaged, step() would be the end of the step at once.
      if (!setup_.config.managed_accumulation && micro + 1 < accumulation()) {
        optimizer().end_micro_step();
      } else {
        result = optimizer().step();
      }
    }
    mine.push_back(signal_.load());
    const std::vector<double> all = gather(world_, "zero-train losses", mine);

    StepLine line;
    line.step = index + 1;
    line.loss = combine(all, mine.size());
    line.grad_norm = result.grad_norm;
    line.loss_scale = result.loss_scale;
    line.skipped = result.skipped;
    line.lr = lr_json(result.lr);
    line.ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!std::isfinite(line.loss)) {
      throw diverged("loss", line.loss, concat("at step ", line.step));
    }
    return line;
  }

  // Held-out loss over windows split over the ranks, the same for any number of them.
  double evaluate() {
    const std::int64_t rows = setup_.shape.micro_batch;
    const std::int64_t batches = (kHeldOutWindows + rows - 1) / rows;
    const std::int64_t world_size = world_.world_size();
    const std::int64_t rounds = (batches + world_size - 1) / world_size;
    std::vector<double> mine(static_cast<std::size_t>(rounds));
    for (std::int64_t round = 0; round < rounds; ++round) {
      // Past the end a rank repeats an early batch: at stage 3 all must take part in every use.
      const std::int64_t index = (round * world_size + world_.rank()) % batches;
      corpus_.held_out(index * rows, batches * rows, setup_.shape.micro_batch, setup_.shape.context,
                       batch_);
      mine[static_cast<std::size_t>(round)] = model_.forward(batch_.tokens, batch_.targets);
    }
    hash_ = hash_weights();  // collective, so the evaluation's own communication is done after it
    const std::vector<double> all = gather(world_, "zero-train held-out losses", mine);
    std::vector<double> losses(static_cast<std::size_t>(batches));
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const auto ranks = static_cast<std::size_t>(world_size);
      losses[i] = all[i % ranks * mine.size() + i / ranks];
    }
    return tree_sum(losses) / static_cast<double>(batches);
  }
  // Of the fp32 master weights in registration order. REQUIRES: evaluate() before.
  std::uint64_t hash() const { return hash_; }

  RankAccount account() {
    RankAccount account;
    for (int c = 0; c < zero::kCategoryCount; ++c) {
      account.memory[static_cast<std::size_t>(c)] =
          optimizer().ledger().account(static_cast<zero::Category>(c));
    }
    account.total = optimizer().ledger().total();
    account.traffic = optimizer().traffic();
    return account;
  }

 private:
  // Slot s = micro_step * world_size + rank.
  double combine(const std::vector<double>& all, std::size_t per_rank) {
    const auto ranks = static_cast<std::size_t>(world_.world_size());
    std::vector<double> slots(ranks * (per_rank - 1));
    for (std::size_t s = 0; s < slots.size(); ++s) {
      slots[s] = all[s % ranks * per_rank + s / ranks];
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      interrupted_by_ = std::max(interrupted_by_, static_cast<int>(all[(r + 1) * per_rank - 1]));
    }
    return tree_sum(slots) / static_cast<double>(slots.size());
  }

  std::uint64_t hash_weights() {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                                &XXH3_freeState);
    if (state == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state.get());
    std::vector<float> values;
    for (const auto& param : optimizer().params()) {
      values.resize(static_cast<std::size_t>(param.numel));
      optimizer().read(param.name, zero::Tensor::kMasterWeights, values);
      XXH3_64bits_update(state.get(), values.data(), values.size() * sizeof(float));
    }
    return XXH3_64bits_digest(state.get());
  }

  const Setup& setup_;
  const Corpus& corpus_;
  zero::World& world_;
  const std::atomic<int>& signal_;
  WrappedModel model_;
  Batch batch_;
  int interrupted_by_ = 0;
  std::uint64_t hash_ = 0;
};

int run_all(const Setup& setup, const Corpus& corpus, zero::World& world,
            const std::atomic<int>& signal, JsonLines& json) {
  require_same_run(world, setup, corpus);
  Rank rank(setup, corpus, world, signal);
  const Options& options = setup.options;
  Checkpoints checkpoints(setup, corpus, rank.optimizer(), json);
  checkpoints.check_budget(options.steps);
  checkpoints.check_folder();
  const bool reports = world.rank() == 0;
  const std::int64_t tokens_per_step = std::int64_t{setup.shape.micro_batch} * setup.shape.context *
                                       rank.accumulation() * world.world_size();
  const Verbosity verbosity = reports ? verbosity_of(options) : Verbosity::kQuiet;
  std::FILE* const people = for_people(options);
  if (verbosity != Verbosity::kQuiet) {
    std::fprintf(
        people,
        "%lld parameters (%s, padded to %lld), %d ranks at stage %d, %lld bytes of text a step\n",
        static_cast<long long>(rank.optimizer().model_elems()),
        std::string(zero::dtype_name(setup.dtype)).c_str(),
        static_cast<long long>(rank.optimizer().padded_elems()), world.world_size(),
        rank.optimizer().stage(), static_cast<long long>(tokens_per_step));
    const zero::Plan plan = rank.optimizer().plan(checkpoints.foreseen(options.steps));
    std::fprintf(people, "planned for each rank: %s, %s at peak\n",
                 zero::format_bytes(plan.trained.total().current_bytes).c_str(),
                 zero::format_bytes(plan.peak_bytes()).c_str());
    std::fflush(people);
  }

  const std::int64_t before = resume(checkpoints, options);
  const bool nothing_left = before > 0 && before == options.steps;
  bool saves_again = false;  // though no step is trained
  if (nothing_left) {
    if (reports) {
      std::cerr << "note: the checkpoint is at step " << before << ", and --steps is "
                << options.steps << ": nothing is left to train\n";
    }
    saves_again = !options.save_dir.empty() && !is_saved(world, options.save_dir, before);
  }
  rank.optimizer().reset_traffic();  // what came before is no part of a step
  std::vector<double> losses;
  {
    std::unique_ptr<Progress> progress;
    if (reports) {
      progress = std::make_unique<Progress>(options.steps, tokens_per_step, verbosity,
                                            isatty(STDERR_FILENO) != 0);
    }
    for (std::int64_t s = before; s < options.steps && rank.interrupted_by() == 0; ++s) {
      const StepLine line = rank.step(s);
      losses.push_back(line.loss);
      if (reports) {
        json.step(line);
        progress->update(line);
      }
      checkpoints.after_step(s + 1, s + 1 == options.steps || rank.interrupted_by() != 0);
    }
    if (saves_again) checkpoints.after_step(before, true);
    checkpoints.finish();
  }
  const auto steps = static_cast<std::int64_t>(losses.size());
  const std::int64_t done = before + steps;

  // Accounts before the evaluation, which gathers too at stage 3.
  const std::vector<double> mine = rank.account().pack();
  const std::vector<double> packed = gather(world, "zero-train accounts", mine);
  const double val_loss = rank.evaluate();
  if (!reports) return 0;

  std::vector<RankAccount> accounts;
  for (std::size_t at = 0; at < packed.size(); at += RankAccount::kPacked) {
    accounts.push_back(RankAccount::unpack(std::span(packed).subspan(at, RankAccount::kPacked)));
  }
  zero::PlanOptions foreseen = checkpoints.foreseen(steps);
  if (saves_again) {
    foreseen.saves = !options.save_async;
    foreseen.async_saves = options.save_async;
  }
  const RankAccount planned = planned_account(rank.optimizer().plan(foreseen));
  json.plan(static_cast<int>(accounts.size()), planned);
  for (std::size_t r = 0; r < accounts.size(); ++r) json.memory(static_cast<int>(r), accounts[r]);
  for (std::size_t r = 0; r < accounts.size(); ++r) {
    json.traffic(static_cast<int>(r), steps, accounts[r]);
  }
  if (verbosity != Verbosity::kQuiet) {
    std::fprintf(people, "\n%s\n%s\n%s\n", loss_curve(losses, 64, 12).c_str(),
                 memory_table(planned, accounts).c_str(), traffic_table(accounts, steps).c_str());
  }
  std::fprintf(people, "held-out loss %.4f nats after %lld steps, weights %016llx\n", val_loss,
               static_cast<long long>(done), static_cast<unsigned long long>(rank.hash()));
  // Looked at once, so that this line and the exit code say the same.
  const int stopped_by = std::max(rank.interrupted_by(), signal.load());
  json.final({val_loss, rank.hash(), done, stopped_by != 0});
  if (!std::isfinite(val_loss)) {
    throw diverged("held-out loss", val_loss, concat("after ", done, " steps"));
  }
  if (const std::string wrong = difference(planned, accounts); !wrong.empty()) {
    throw std::runtime_error(wrong);
  }
  return stopped_by;
}

}  // namespace

std::runtime_error no_memory(const Setup& setup) {
  const gpt::Shape& shape = setup.shape;
  return std::runtime_error(
      concat("no memory for this run: --layers ", shape.layers, ", --width ", shape.width,
             ", --heads ", shape.heads, ", --context ", shape.context, ", --micro-batch ",
             shape.micro_batch, " on each of ", setup.options.ranks, " ranks; try smaller ones"));
}

int run_rank(const Setup& setup, const Corpus& corpus, zero::World& world,
             const std::atomic<int>& signal, JsonLines& json) {
  try {
    return run_all(setup, corpus, world, signal, json);
  } catch (const std::bad_alloc&) {
    throw no_memory(setup);
  } catch (const std::length_error&) {  // beyond what a vector may hold at all
    throw no_memory(setup);
  }
}

}  // namespace train
