#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "src/checkpointer.hpp"
#include "zero/error.hpp"

namespace zero {

using detail::concat;

namespace {

// Elements that are read and converted at a time: several blocks of a file, which may be cut at
// either end and are read whole.
constexpr std::int64_t kChunkElems = std::int64_t{1} << 20;
constexpr std::size_t kMostProblems = 8;  // named in one message

FileSystem& files_of(const LoadOptions& options) {
  return options.file_system != nullptr ? *options.file_system : posix_file_system();
}

bool is_weight(StateKind kind) {
  return kind == StateKind::kMasterWeights || kind == StateKind::kFrozen;
}

// Of sums of a rank: false where nothing had been added on it yet.
bool has_part(const CheckpointReader& reader, const StateRange& range) {
  const std::vector<std::string> parts = reader.parts(range.kind, range.param);
  return std::find(parts.begin(), parts.end(), range.part) != parts.end();
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t dimension : shape) {
    text += concat(text.size() > 1 ? ", " : "", dimension);
  }
  return text + "]";
}

// Memory that values pass on their way from a file to the device.
class Passage {
 public:
  explicit Passage(Runtime& runtime)
      : rt_(runtime), memory_(runtime.device, runtime.ledger, bytes()) {}
  Passage(Runtime& runtime, CheckpointReader& reader) : Passage(runtime) {
    reader.lend({memory_.data(), kScratch});
  }
  static constexpr std::size_t bytes() { return kScratch + kChunkElems * sizeof(float); }

  // `kind`: how the file has it.
  void read(CheckpointReader& reader, const StoredRange& to, StateKind kind) {
    const DType stored = reader.dtype(kind, to.range.param, to.range.part);
    const std::span<std::byte> scratch(memory_.data(), kScratch);
    std::byte* const raw = memory_.data() + kScratch;
    const auto element = static_cast<std::int64_t>(dtype_bytes(to.range.dtype));
    for (std::int64_t at = to.range.begin; at < to.range.end; at += kChunkElems) {
      const std::int64_t elems = std::min(kChunkElems, to.range.end - at);
      const std::size_t bytes = static_cast<std::size_t>(elems) * dtype_bytes(stored);
      reader.read(kind, to.range.param, at, at + elems, to.range.part, {raw, bytes}, scratch);
      convert(raw, stored, to.range.dtype, elems);
      kernels::copy(to.memory + (at - to.range.begin) * element, raw, elems * element, rt_.compute);
      rt_.compute.synchronize();  // the memory is used again
    }
  }

 private:
  // In place: what becomes wider is taken from its end, so that nothing is overwritten unread.
  static void convert(std::byte* values, DType from, DType to, std::int64_t elems) {
    if (from == to) return;
    with_dtype(from, [&](auto source) {
      with_dtype(to, [&](auto target) {
        for (std::int64_t k = 0; k < elems; ++k) {
          const std::int64_t i = sizeof(target) > sizeof(source) ? elems - 1 - k : k;
          std::memcpy(&source, values + i * static_cast<std::int64_t>(sizeof(source)),
                      sizeof(source));
          target = from_float<decltype(target)>(to_float(source));
          std::memcpy(values + i * static_cast<std::int64_t>(sizeof(target)), &target,
                      sizeof(target));
        }
      });
    });
  }

  static constexpr auto kScratch = static_cast<std::size_t>(CheckpointReader::kMostScratchBytes);

  Runtime& rt_;
  Staging memory_;
};

}  // namespace

LoadReport Checkpointer::load(const std::string& path, const LoadOptions& options) {
  check_budget({.loads = true}, "a load");
  const auto asked = [](bool option, const char* name) { return option ? name : ""; };
  require_same(
      concat(path, asked(options.weights_only, ", weights_only"), asked(options.strict, ", strict"),
             asked(options.restart_window, ", restart_window")),
      "load()");
  wait();
  p_.reducer.finish();
  p_.stage.drop_ahead();
  Runtime& rt = p_.rt;
  rt.compute.synchronize();
  rt.comm.check();
  LoadReport report;
  // One rank decides which it is, so that all take the same.
  std::string error;
  std::string folder = "none";  // a dry run
  FileSystem& files = files_of(options);
  if (rt.rank() == 0 && rt.device.has_memory()) {
    try {
      const CheckpointPlace place = find_checkpoint(files, path);
      folder = place.folder;
      if (!place.note.empty()) report.notes.push_back(place.note);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  agree(error, "loading a checkpoint");
  report.folder = gather_text(folder, "which checkpoint is loaded")[0];
  if (!rt.device.has_memory()) {
    const Passage passage(rt);
    return report;
  }

  // All that can be known without its values, before anything changes.
  std::unique_ptr<CheckpointReader> reader;
  try {
    reader = std::make_unique<CheckpointReader>(files, report.folder);
    check_model(*reader, options, report.notes);
    report.micro_step = window_of(reader->manifest(), options, report.notes);
    check_window(*reader, report.micro_step);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  agree(error, "loading a checkpoint");
  const CheckpointManifest& saved = reader->manifest();
  report.step = saved.step;
  report.user_data = saved.user_data;

  broken_ = concat("load(", report.folder, ") ended half-way");
  try {
    read_states(*reader, options);
    if (!options.weights_only) read_window(*reader, report.micro_step);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  agree(error, "loading a checkpoint");
  publish();
  if (!options.weights_only) restore_counters(saved, report.micro_step, report.notes);
  broken_.clear();
  return report;
}

// Is it the model that was saved?
void Checkpointer::check_model(const CheckpointReader& reader, const LoadOptions& options,
                               std::vector<std::string>& notes) const {
  const CheckpointManifest& saved = reader.manifest();
  std::vector<std::string> problems;
  std::vector<std::string> shapes;
  const auto differ = [&](bool fatal, const std::string& text) {
    (fatal ? shapes : problems).push_back(text);
  };
  if (reader.scratch_bytes() > CheckpointReader::kMostScratchBytes) {
    differ(true, concat("its blocks are of ", reader.scratch_bytes(), " bytes, at most ",
                        CheckpointReader::kMostScratchBytes, " can be read"));
  }
  const bool moments = p_.rt.config.optimizer.kind == OptimizerKind::kAdam;
  if (!options.weights_only && moments && !saved.has_moments) {
    differ(false, "it has no moments (it was saved with SGD), and this optimizer is Adam");
  }
  if (!options.weights_only && saved.groups.size() != p_.rt.groups.size()) {
    differ(false, concat("it has ", saved.groups.size(), " param groups, this run has ",
                         p_.rt.groups.size()));
  }
  for (const ParamState& param : p_.rt.params) {
    const std::string& name = param.spec.name;
    const CheckpointParam* const theirs = saved.find(name);
    if (theirs == nullptr) {
      differ(false, concat("parameter ", name, " is not in it"));
      continue;
    }
    if (theirs->shape != param.spec.shape) {
      differ(true, concat("parameter ", name, " is ", shape_text(theirs->shape), " in it and ",
                          shape_text(param.spec.shape), " in this run"));
    }
    if (options.weights_only) continue;
    if (theirs->group != param.spec.group) {
      notes.push_back(concat("parameter ", name, " was in param group ", theirs->group,
                             " when it was saved and is in ", param.spec.group));
    }
    if (theirs->dtype != param.dtype) {
      differ(false, concat("parameter ", name, " is ", dtype_name(theirs->dtype), " in it and ",
                           dtype_name(param.dtype), " in this run"));
    }
    if (theirs->has_state != param.has_state) {
      differ(false, concat("parameter ", name, " was registered ",
                           theirs->has_state ? "trainable" : "frozen", " when it was saved and is ",
                           param.has_state ? "trainable" : "frozen", " in this run"));
    }
  }
  for (const CheckpointParam& theirs : saved.params) {
    const auto same = [&](const ParamState& p) { return p.spec.name == theirs.name; };
    if (std::none_of(p_.rt.params.begin(), p_.rt.params.end(), same)) {
      differ(false, concat("parameter ", theirs.name, " of it is not in this run"));
    }
  }
  std::vector<std::string>& refused = shapes;
  if (options.strict) {
    refused.insert(refused.end(), problems.begin(), problems.end());
  } else {
    notes.insert(notes.end(), problems.begin(), problems.end());
  }
  if (refused.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < refused.size() && i < kMostProblems; ++i) {
    text += (i == 0 ? "" : "; ") + refused[i];
  }
  if (refused.size() > kMostProblems) {
    text += concat("; and ", refused.size() - kMostProblems, " more");
  }
  throw CheckpointError(concat(reader.folder(), " does not fit this run: ", text,
                               ". LoadOptions::strict = false takes what fits; shapes must be the "
                               "same"));
}

// At which micro-step an accumulation window goes on. The sums in it can be continued where they
// mean the same: by ranks that hold them in the same way.
int Checkpointer::window_of(const CheckpointManifest& saved, const LoadOptions& options,
                            std::vector<std::string>& notes) const {
  if (saved.micro_step == 0 || options.weights_only) return 0;
  const Runtime& rt = p_.rt;
  const std::string kind = ranges_.kind_of_window();
  const std::int64_t done = saved.micro_step * saved.world_size;  // slots
  const std::int64_t slots = saved.accumulation_steps * saved.world_size;
  const std::int64_t here = std::int64_t{rt.accumulation_steps()} * rt.world_size();
  const bool tree = kind == "a tree of shards";
  const bool fits = kind == saved.window && slots == here &&
                    (tree ? done % rt.world_size() == 0 : saved.world_size == rt.world_size());
  if (fits) return static_cast<int>(tree ? done / rt.world_size() : saved.micro_step);
  const std::string why = concat(
      "it was saved in the middle of an accumulation window, after ", saved.micro_step, " of ",
      saved.accumulation_steps, " micro-steps of ", saved.world_size, " ranks, with gradients in ",
      saved.window, ", and this run (", rt.accumulation_steps(), " micro-steps, ", rt.world_size(),
      " ranks, ", kind, ") cannot continue that window");
  if (!options.restart_window) {
    throw CheckpointError(
        concat(why,
               ". It can with as many ranks and micro-steps at a stage that keeps "
               "gradients in the same way; LoadOptions::restart_window = true "
               "begins the window anew"));
  }
  notes.push_back(why + ": the window begins anew");
  return 0;
}

void Checkpointer::read_states(CheckpointReader& reader, const LoadOptions& options) {
  const CheckpointManifest& saved = reader.manifest();
  Passage passage(p_.rt, reader);
  for (const StoredRange& mine : ranges_.held()) {
    const CheckpointParam* const theirs = saved.find(mine.range.param);
    if (theirs == nullptr) continue;
    if (is_weight(mine.range.kind)) {
      passage.read(reader, mine,
                   theirs->has_state ? StateKind::kMasterWeights : StateKind::kFrozen);
    } else if (!options.weights_only && theirs->has_state && saved.has_moments) {
      passage.read(reader, mine, mine.range.kind);
    }
  }
}

void Checkpointer::check_window(const CheckpointReader& reader, int micro_step) const {
  if (micro_step == 0) return;
  for (const StoredRange& mine : ranges_.gradients(micro_step)) {
    if (!has_part(reader, mine.range)) continue;
    const DType stored = reader.dtype(StateKind::kGradients, mine.range.param, mine.range.part);
    if (stored == mine.range.dtype) continue;
    throw CheckpointError(concat("sums of gradients of ", mine.range.param, " are ",
                                 dtype_name(stored), " in ", reader.folder(), " and ",
                                 dtype_name(mine.range.dtype),
                                 " in this run (data_types.grad_accum_dtype)"));
  }
}

// The norm is taken over whole shards: padding holds zeros.
void Checkpointer::clear_window() {
  const auto clear = [&](std::byte* data, std::int64_t bytes) {
    kernels::fill_bytes(data, 0, bytes, p_.rt.compute);
  };
  for (const Bucket& bucket : p_.rt.layout.buckets()) {
    if (!bucket.trainable || p_.stage.grad_home(bucket) != GradHome::kSharded) continue;
    const std::vector<Buffer>& tree = p_.stage.sums().partial(bucket);
    for (const Buffer& sum : tree) clear(sum.data(), sum.bytes());
    if (!tree.empty()) continue;
    const kernels::View sum = p_.stage.reduced(bucket);
    clear(static_cast<std::byte*>(sum.data),
          sum.elems * static_cast<std::int64_t>(dtype_bytes(sum.dtype)));
  }
}

void Checkpointer::read_window(CheckpointReader& reader, int micro_step) {
  p_.reducer.forget_sums();  // of a window that was open here
  if (micro_step == 0) return;
  clear_window();
  Passage passage(p_.rt, reader);
  for (const StoredRange& mine : ranges_.gradients(micro_step)) {
    const ParamState& param = p_.rt.params[static_cast<std::size_t>(mine.param)];
    const Bucket& bucket = p_.rt.layout.bucket(param.place.bucket);
    const bool local = p_.stage.grad_home(bucket) != GradHome::kSharded;
    if (!has_part(reader, mine.range)) continue;
    if (local && !p_.reducer.has_sum(bucket)) p_.reducer.begin_sum(bucket);
    passage.read(reader, mine, StateKind::kGradients);
  }
}

// From what each rank owns to all that it holds of the parameters.
void Checkpointer::publish() {
  Runtime& rt = p_.rt;
  for (const Bucket& bucket : rt.layout.buckets()) {
    const BucketMemory& m = rt.memory[static_cast<std::size_t>(bucket.index)];
    if (m.master_weights) {
      kernels::cast(p_.stage.owned_params(bucket),
                    {m.master_weights.data(), DType::kFloat32, m.master_weights.elems()}, 1.0f,
                    rt.compute);
    }
    p_.stage.publish(bucket);
  }
  rt.compute_after_comm();
  for (const ParamState& param : rt.params) {
    if (!param.spec.data.is_fixed()) continue;
    const BucketMemory& m = rt.memory[static_cast<std::size_t>(param.place.bucket)];
    kernels::copy(param.spec.data.get(), m.params_full.at(param.place.offset),
                  param.numel * static_cast<std::int64_t>(dtype_bytes(param.dtype)), rt.compute);
  }
  rt.compute.synchronize();
  rt.comm.check();
}

void Checkpointer::restore_counters(const CheckpointManifest& saved, int micro_step,
                                    std::vector<std::string>& notes) {
  Runtime& rt = p_.rt;
  // What is not taken from the checkpoint stays: a count belongs to its moments.
  std::vector<std::int64_t> counts = p_.vote.step_counts();
  const bool counted = saved.has_moments || rt.config.optimizer.kind != OptimizerKind::kAdam;
  for (std::size_t i = 0; i < rt.params.size(); ++i) {
    ParamState& param = rt.params[i];
    param.touched = false;
    const CheckpointParam* const theirs = saved.find(param.spec.name);
    if (theirs == nullptr) continue;
    if (counted && theirs->has_state) counts[i] = theirs->step_count;
    param.requires_grad = param.has_state && (theirs->requires_grad || !theirs->has_state);
    param.touched = micro_step != 0 && theirs->touched;
    if (theirs->contributions > 0) p_.reducer.expect(static_cast<int>(i), theirs->contributions);
  }
  rt.micro_step = micro_step;

  // Settings are this run's, what they have led to is the checkpoint's.
  kernels::LossScale scaler = p_.scaler.state();
  if (scaler.dynamic && saved.scaler.dynamic) {
    scaler.scale = std::max(saved.scaler.scale, scaler.minimum);
    scaler.iteration = saved.scaler.iteration;
    scaler.last_overflow = saved.scaler.last_overflow;
    scaler.hysteresis_left = std::min(saved.scaler.hysteresis_left, scaler.hysteresis);
  } else if (scaler.dynamic != saved.scaler.dynamic || scaler.scale != saved.scaler.scale) {
    notes.push_back(concat("the loss scale was ", saved.scaler.dynamic ? "dynamic" : "fixed",
                           " at ", saved.scaler.scale, " and is ",
                           scaler.dynamic ? "dynamic" : "fixed", ", beginning at ", scaler.scale));
  }
  kernels::StepState state;
  state.scaler = scaler;
  state.loss_scale = static_cast<float>(scaler.scale);
  state.applied_steps = saved.applied_steps;
  state.skipped_steps = saved.skipped_steps;
  p_.steps.restore(state, counts);
  restore_groups(saved, notes);
}

// Settings of the groups are those at the save, except where the configuration (or the program)
// says something else than it did then: that was changed on purpose.
void Checkpointer::restore_groups(const CheckpointManifest& saved,
                                  std::vector<std::string>& notes) {
  Runtime& rt = p_.rt;
  const bool same_schedule = saved.scheduler_settings == schedule_text();
  if (!same_schedule) notes.push_back("the schedule of learning rates is another than at the save");
  struct Key {
    const char* name;
    double ParamGroup::*value;
    bool scheduled;  // may be a schedule's doing
  };
  static constexpr Key kKeys[] = {{"lr", &ParamGroup::lr, true},
                                  {"beta1", &ParamGroup::beta1, true},
                                  {"beta2", &ParamGroup::beta2, true},
                                  {"eps", &ParamGroup::eps, false},
                                  {"weight_decay", &ParamGroup::weight_decay, false}};
  const std::size_t groups =
      std::min({rt.groups.size(), saved.groups.size(), saved.initial_groups.size()});
  for (std::size_t i = 0; i < rt.groups.size(); ++i) {
    rt.groups[i] = p_.initial_groups[i];
    if (i >= groups) continue;
    for (const Key& key : kKeys) {
      const double here = p_.initial_groups[i].*key.value;
      const double then = saved.initial_groups[i].*key.value;
      if (here != then) {
        notes.push_back(concat(key.name, " of param group ", i, " was ", then,
                               " in the configuration at the save and is ", here, " now: ", here,
                               " holds"));
      } else if (same_schedule || !key.scheduled) {
        rt.groups[i].*key.value = saved.groups[i].*key.value;
      }
    }
  }
  p_.rates.restore(saved.applied_steps, saved.groups_by_hand && same_schedule);
}

}  // namespace zero
