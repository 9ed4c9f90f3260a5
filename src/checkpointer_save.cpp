#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "src/checkpoint_commit.hpp"
#include "src/checkpoint_json.hpp"
#include "src/checkpoint_writer.hpp"
#include "src/checkpointer.hpp"
#include "src/config_text.hpp"
#include "src/rank_exchange.hpp"
#include "zero/error.hpp"
#include "zero/version.hpp"

namespace zero {

using detail::concat;

namespace {

// What a synchronous save holds at a time on its way from the device to the file.
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr int kMostErrors = 4;  // in one message

FileSystem& files_of(const SaveOptions& options) {
  return options.file_system != nullptr ? *options.file_system : posix_file_system();
}

// Each key with its value and where that comes from.
std::string effective_json(const Config& config) {
  std::string text = "{";
  for (const EffectiveValue& value : config.effective()) {
    text += concat(text.size() > 1 ? "," : "", detail::quoted(value.path),
                   ":{\"value\":", value.value, ",\"origin\":", detail::quoted(value.origin), "}");
  }
  return text + "}";
}

std::vector<StateRange> names(const std::vector<StoredRange>& ranges) {
  std::vector<StateRange> list;
  list.reserve(ranges.size());
  for (const StoredRange& range : ranges) list.push_back(range.range);
  return list;
}

}  // namespace

// One save as this rank sees it.
struct Checkpointer::Job {
  FileSystem& files;
  std::string root;
  std::string temporary;  // the folder's name
  int rank = 0;
  int world_size = 1;
  CheckpointManifest manifest;  // rank 0
  double timeout_s = 0;
  int keep = 0;
  std::vector<StateRange> ranges;
  std::span<const std::byte> bytes = {};  // of an asynchronous save: of all ranges, in order
  std::string error = {};
  std::atomic<bool> given_up = false;
  std::thread thread = {};

  std::string folder() const { return root + "/" + temporary; }
  // A rank that fails here says so where rank 0 looks.
  template <class Feed>
  void write(const Feed& feed) {
    try {
      checkpoint::ShardWriter writer(files, folder(), rank, world_size, ranges);
      feed(writer);
      checkpoint::publish_record(files, folder(), rank, writer.finish());
    } catch (const std::exception& failure) {
      error = failure.what();
      try {
        checkpoint::publish_failure(files, folder(), rank, error);
      } catch (const std::exception&) {  // the first error is the one that tells
      }
    }
  }
  // Half of the deadline: the other ranks may already wait for what rank 0 has to say, and are to
  // hear it before their own is over.
  void commit() {
    try {
      const auto patience = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(timeout_s / 2));
      checkpoint::commit(files, root, temporary, manifest,
                         std::chrono::steady_clock::now() + patience, keep, &given_up);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  void run_beside() {
    write([&](checkpoint::ShardWriter& writer) { writer.append(bytes); });
    if (rank != 0) return;
    if (error.empty()) return commit();
    checkpoint::abandon(files, root, temporary);
  }
  void end() {
    if (thread.joinable()) thread.join();
  }
};

Checkpointer::Checkpointer(const Parts& parts)
    : p_(parts), ranges_(parts.rt, parts.stage, parts.reducer) {}

Checkpointer::~Checkpointer() {
  if (job_ == nullptr) return;
  job_->end();
  if (!job_->error.empty() && p_.log) {
    p_.log("the last checkpoint was not saved: " + job_->error);
  }
}

void Checkpointer::give_up() noexcept {
  if (job_ != nullptr) job_->given_up = true;
}

std::vector<std::string> Checkpointer::gather_text(const std::string& mine, const char* what) {
  return all_gather_text(p_.rt, mine, {Purpose::kControl, what});
}

// Ranks that ask for different things would part ways without a word.
void Checkpointer::require_same(const std::string& asked, const char* call) {
  const std::vector<std::string> all = gather_text(asked, call);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UsageError(concat(call, ": the ranks ask for different things: rank 0 for ", all[0],
                            "; rank ", rank, " for ", all[rank]));
  }
}

// All ranks come to the same end: what went wrong on any of them is thrown on all, once for each
// text.
void Checkpointer::agree(const std::string& mine, const char* what) {
  const std::vector<std::string> errors = gather_text(mine, what);
  std::string text;
  int told = 0;
  for (auto error = errors.begin(); error != errors.end(); ++error) {
    if (error->empty() || std::find(errors.begin(), error, *error) != error) continue;
    if (++told > kMostErrors) continue;
    text += concat(told == 1 ? ": rank " : "; rank ", error - errors.begin(), ": ", *error);
  }
  if (told > kMostErrors) text += concat("; and ", told - kMostErrors, " more");
  if (told > 0) throw CheckpointError(what + text);
}

void Checkpointer::wait() {
  std::string error;
  if (job_ != nullptr) {
    job_->end();
    error = std::exchange(job_, nullptr)->error;
  }
  agree(error, "saving a checkpoint");
}

void Checkpointer::save(const std::string& directory, std::int64_t step,
                        const SaveOptions& options) {
  if (step < 0 || options.keep < 0) {
    throw UsageError(
        concat("save(): step is ", step, " and keep ", options.keep, "; both must be 0 or more"));
  }
  check_budget({.saves = !options.async, .async_saves = options.async},
               options.async ? "asynchronous saves" : "saves");
  require_same(concat("directory ", directory, ", step ", step, ", keep ", options.keep,
                      options.async ? ", async" : ""),
               "save()");
  wait();
  std::string error;
  try {
    checkpoint::check_user_data(options.user_data);
  } catch (const CheckpointError& failure) {
    error = failure.what();
  }
  agree(error, "saving a checkpoint");
  p_.reducer.finish();
  Runtime& rt = p_.rt;
  CheckpointManifest head = manifest(step, options.user_data);
  const std::vector<StoredRange> ranges = ranges_.to_save();
  rt.compute.synchronize();
  rt.comm.check();
  std::span<const std::byte> copied;
  if (options.async) {
    try {
      copied = snapshot(ranges);
    } catch (const OutOfMemory& failure) {
      error = failure.what();
    }
    agree(error, "saving a checkpoint");
  }
  FileSystem& files = files_of(options);
  std::string temporary = begin(files, directory, step);
  if (!rt.device.has_memory()) {
    if (!options.async) const Staging chunk(rt.device, rt.ledger, kChunk);
    return;
  }
  std::unique_ptr<Job> job(new Job{.files = files,
                                   .root = directory,
                                   .temporary = std::move(temporary),
                                   .rank = rt.rank(),
                                   .world_size = rt.world_size(),
                                   .manifest = std::move(head),
                                   .timeout_s = rt.timeout_s(),
                                   .keep = options.keep,
                                   .ranges = names(ranges)});
  if (options.async) {
    job->bytes = copied;
    job_ = std::move(job);
    try {
      job_->thread = std::thread([beside = job_.get()] { beside->run_beside(); });
    } catch (const std::system_error&) {  // no thread to be had: training waits
      job_->run_beside();
    }
    return;
  }
  job->write([&](checkpoint::ShardWriter& writer) { feed(ranges, writer); });
  try {
    agree(job->error, "saving a checkpoint");
  } catch (const CheckpointError&) {
    if (rt.rank() == 0) checkpoint::abandon(files, directory, job->temporary);
    throw;
  }
  if (rt.rank() == 0) job->commit();
  agree(job->error, "saving a checkpoint");
}

// Every rank comes to the same end by itself.
void Checkpointer::check_budget(PlanOptions planned, const char* what) const {
  const Runtime& rt = p_.rt;
  const RuntimeSettings& runtime = rt.config.runtime;
  if (!runtime.memory_budget) return;
  planned.stages_slices = rt.comm.stages_slices();
  const Plan plan =
      PartitionManager::plan(p_.registry.shape(), rt.config, rt.world_size(), planned, rt.rank());
  if (plan.peak_bytes() <= *runtime.memory_budget - runtime.reserved) return;
  throw CheckpointError(concat("with ", what, " this optimizer holds ", plan.peak_bytes(),
                               " bytes at its peak, and runtime.memory_budget is ",
                               *runtime.memory_budget, ", ", runtime.reserved,
                               " of them runtime.reserved"));
}

// From the device to the file, a part at a time.
void Checkpointer::feed(const std::vector<StoredRange>& ranges, checkpoint::ShardWriter& writer) {
  Runtime& rt = p_.rt;
  const Staging chunk(rt.device, rt.ledger, kChunk);
  for (const StoredRange& range : ranges) {
    for (std::size_t at = 0; at < range.bytes(); at += kChunk) {
      const std::size_t bytes = std::min(kChunk, range.bytes() - at);
      kernels::copy(chunk.data(), range.memory + at, static_cast<std::int64_t>(bytes), rt.compute);
      rt.compute.synchronize();
      writer.append({chunk.data(), bytes});
    }
  }
}

// The temporary folder that rank 0 makes, on all ranks.
std::string Checkpointer::begin(FileSystem& files, const std::string& directory,
                                std::int64_t step) {
  std::string name = "none";  // a dry run
  std::string error;
  if (p_.rt.rank() == 0 && p_.rt.device.has_memory()) {
    try {
      name = checkpoint::begin(files, directory, step);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  agree(error, "saving a checkpoint");
  return gather_text(name, "where a checkpoint is written")[0];
}

// The same room on all ranks, though the last ones have less to write: shards are equal.
std::span<const std::byte> Checkpointer::snapshot(const std::vector<StoredRange>& ranges) {
  Runtime& rt = p_.rt;
  std::size_t bytes = 0;
  for (const StoredRange& range : ranges) bytes += range.bytes();
  std::size_t room = 0;
  for (const Bucket& bucket : rt.layout.buckets()) {
    const std::size_t element = !bucket.trainable ? dtype_bytes(bucket.dtype)
                                : rt.config.optimizer.kind == OptimizerKind::kAdam
                                    ? 3 * sizeof(float)
                                    : sizeof(float);
    room += static_cast<std::size_t>(bucket.shard_elems) * element;
  }
  room = std::max(room, bytes);  // sums of an open window come on top
  if (snapshot_room_ < room) {
    if (rt.device.kind() == DeviceKind::kCuda) {
      staged_.reset();
      snapshot_room_ = 0;
      staged_.emplace(rt.device, rt.ledger, room);
    } else {
      snapshot_.reset();
      snapshot_room_ = 0;
      snapshot_ = rt.allocate(Category::kWorkspace, static_cast<std::int64_t>((room + 3) / 4),
                              DType::kFloat32, "a snapshot for a checkpoint");
    }
    snapshot_room_ = room;
  }
  std::byte* const begin = staged_ ? staged_->data() : snapshot_.data();
  std::byte* place = begin;
  for (const StoredRange& range : ranges) {
    kernels::copy(place, range.memory, static_cast<std::int64_t>(range.bytes()), rt.compute);
    place += range.bytes();
  }
  rt.compute.synchronize();
  return {begin, bytes};
}

// Which parameters have had a gradient in the open window, on any rank.
std::vector<bool> Checkpointer::touched_anywhere() {
  std::vector<bool> touched(p_.rt.params.size());
  if (p_.rt.micro_step == 0) return touched;
  std::string mine;
  for (const ParamState& param : p_.rt.params) mine += param.touched ? '1' : '0';
  for (const std::string& theirs : all_gather_text(
           p_.rt, mine, {Purpose::kControl, "which parameters have a gradient so far"})) {
    for (std::size_t i = 0; i < touched.size() && i < theirs.size(); ++i) {
      touched[i] = touched[i] || theirs[i] == '1';
    }
  }
  return touched;
}

// What the configuration says about the schedule; a schedule of the caller's own has no text.
std::string Checkpointer::schedule_text() const {
  if (p_.own_schedule) return "the program's own";
  std::string text;
  if (!p_.rt.config.scheduler) return text;
  for (const EffectiveValue& value : p_.rt.config.effective()) {
    if (value.path.rfind("scheduler", 0) == 0 && value.acts) {
      text += value.path + " " + value.value + "\n";
    }
  }
  return text;
}

CheckpointManifest Checkpointer::manifest(std::int64_t step, const std::string& user_data) {
  Runtime& rt = p_.rt;
  const std::vector<bool> touched = touched_anywhere();
  std::vector<std::int64_t> counts(rt.params.size());
  if (rt.device.has_memory()) counts = p_.vote.step_counts();
  CheckpointManifest m;
  m.version = std::string(kVersion);
  m.step = step;
  m.world_size = rt.world_size();
  m.stage = rt.config.zero.stage;
  m.groups = rt.groups;
  m.initial_groups = p_.initial_groups;
  m.groups_by_hand = p_.rates.by_hand();
  m.has_moments = rt.config.optimizer.kind == OptimizerKind::kAdam;
  m.config = effective_json(rt.config);
  m.scheduler = p_.own_schedule       ? "the program's own"
                : rt.config.scheduler ? rt.config.scheduler->type
                                      : "";
  m.scheduler_settings = schedule_text();
  m.applied_steps = p_.steps.applied_steps();
  m.scheduler_position = m.applied_steps - 1;
  m.skipped_steps = p_.steps.skipped_steps();
  m.micro_step = rt.micro_step;
  m.accumulation_steps = rt.accumulation_steps();
  m.window = ranges_.kind_of_window();
  const kernels::LossScale& s = p_.scaler.state();
  m.scaler = {s.dynamic, s.scale, s.iteration, s.last_overflow, s.hysteresis_left};
  m.user_data = user_data;
  for (std::size_t i = 0; i < rt.params.size(); ++i) {
    const ParamState& param = rt.params[i];
    CheckpointParam saved;
    saved.name = param.spec.name;
    saved.shape = param.spec.shape;
    saved.dtype = param.dtype;
    saved.group = param.spec.group;
    saved.has_state = param.has_state;
    saved.requires_grad = param.requires_grad;
    saved.step_count = counts[i];
    saved.contributions = p_.reducer.expected()[i];
    saved.touched = touched[i];
    m.params.push_back(std::move(saved));
  }
  return m;
}

}  // namespace zero
