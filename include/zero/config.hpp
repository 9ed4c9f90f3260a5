// The configuration: a DeepSpeed-style JSON file, checked against one table.
//
// Every key is described once (src/config_rows_*.cpp): path, type, default, range, effect. The
// table parses, validates and prints. A key that is not in it is refused, with the nearest known
// name. Extensions of ours live in the top-level section "runtime".
//
// Thread-safety: a Config is a value; const access from many threads is fine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/config_facts.hpp"
#include "zero/dtype.hpp"
#include "zero/scheduler_settings.hpp"

namespace zero {

namespace detail {
struct JsonNode;
struct Provenance;
struct Reading;

// A shared constant that is never null, not even after it was moved from.
template <class T>
class Shared {
 public:
  explicit Shared(std::shared_ptr<const T> value) : value_(std::move(value)) {}
  Shared(const Shared&) noexcept = default;  // no move of its own: moving copies
  Shared& operator=(const Shared&) noexcept = default;
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }

 private:
  std::shared_ptr<const T> value_;
};
}  // namespace detail

enum class OptimizerKind { kAdam, kSgd };

// "optimizer": what a param group starts from, and what all groups share.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdam;
  bool decoupled_decay = true;  // AdamW; false: decay is added to the gradient (L2)
  bool bias_correction = true;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
};

// "fp16": loss scaling. Scale 1 for other dtypes.
struct LossScaleSettings {
  double loss_scale = 0.0;  // > 0: fixed; 0: dynamic
  int initial_scale_power = 16;
  std::int64_t loss_scale_window = 1000;
  int hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1.0;
};

// "zero_optimization". Sizes are in elements.
struct ZeroSettings {
  int stage = 0;
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::optional<bool> overlap_comm;  // empty: at stage 3 only
  bool overlaps() const { return overlap_comm.value_or(stage == 3); }
};

// "runtime": extensions of ours.
struct RuntimeSettings {
  bool reproducible = false;
  std::optional<double> timeout_s;  // deadline of every wait, seconds; empty: the world's (300)
  // Bytes that an optimizer may hold on a rank at its peak, with `reserved` for others
  // (activations, other optimizers). prepare() refuses to go beyond. Empty: no limit.
  std::optional<std::int64_t> memory_budget;
  std::int64_t reserved = 0;
  bool nccl_reduction = false;  // sums by NCCL itself, in the dtype that travels
  bool choose_stage = false;    // prepare() chooses the stage that moves least within the budget
};

// A size in bytes as the configuration takes it: "24GiB", "1.5 GB", "800000", with decimal (kB, MB,
// GB, TB, PB, EB) or binary (KiB, MiB, GiB, TiB, PiB, EiB) units in any case, one blank between or
// none, rounded down to whole bytes. Throws ConfigError, also beyond 2^63 - 1 bytes.
std::int64_t parse_bytes(std::string_view text);
// For people, with two decimals: "24.00 GiB", "999 B". Exact figures are printed as numbers.
std::string format_bytes(std::int64_t bytes);

// Something a user should know about a key, or about one that is missing.
struct Remark {
  std::string path;  // as the file writes it
  std::string message;
  bool of_stage = false;  // it is about the stage of the file
  friend bool operator==(const Remark&, const Remark&) = default;
};
std::string to_string(const Remark& remark);  // "path: message"

// One key of the configuration in force.
struct EffectiveValue {
  std::string path;    // "zero_optimization.stage", under the name in use today
  std::string value;   // JSON; null where there is none
  std::string origin;  // "ds_config.json:12:7", "default", "fact lr", ...
  bool acts = true;    // false: nothing depends on it here, or at this stage and precision
};

// The page about every key, in Markdown, from the table that reads the file.
std::string config_reference();

// Copied and moved as a value; one that was moved from can be set(), merged and resolved again, and
// keeps all but its warnings.
class Config {
 public:
  // All defaults, as if parsed from "{}".
  Config();
  // Reads and checks a file. Throws ConfigError naming file, line, column and JSON path of all that
  // is wrong with it. `facts` settle what the file leaves "auto"; with a world size among them the
  // batch triple is settled too, as resolve_batch() does.
  static Config load(const std::string& path, const Facts& facts = {});
  // The same from text; `origin` stands for the file name in messages.
  static Config parse(std::string_view text, std::string_view origin = "config",
                      const Facts& facts = {});

  // Sets one value, as if the file had it: `set("zero_optimization.stage", "2")`. The value is
  // JSON; a word that is no JSON is taken as a string. The whole file is checked again, and every
  // field is read from it, with the facts of load(): values assigned to fields, and what
  // resolve_batch() settled, are lost.
  // Throws ConfigError and leaves *this as it was.
  void set(std::string_view path, std::string_view json_value);

  // Merges a JSON object into the file, key by key, objects deeply, and checks the whole again, as
  // set() does. Both replace a key under whichever of its names the file has it. Throws ConfigError
  // and leaves *this as it was.
  void merge(std::string_view json_object);

  // Settles the batch triple for a world size: train = micro * accumulation * world_size.
  // Given two, the third follows; given only train or only micro, accumulation is 1. `micro_batch`
  // is the caller's own value, used where neither the file nor a fact settles it; if the file
  // settles another one, that wins, with a warning. What is "auto" follows from the others, or
  // needs its fact. Throws ConfigError printing all four numbers, also where
  // runtime.reproducible is set and accumulation or world size is no power of two, and leaves *this
  // as it was. What is settled stays until set() or merge(): calling it again with the same world
  // size changes nothing (another micro-batch of the caller is warned of once), with another one it
  // throws. REQUIRES: world_size >= 1.
  void resolve_batch(int world_size, std::optional<std::int64_t> micro_batch = std::nullopt);

  // The file after set() and merge(), as JSON: its keys and values, without comments.
  const std::string& json() const { return *json_; }
  // Surprising defaults, old forms, accepted oddities.
  const std::vector<Remark>& warnings() const { return warnings_; }
  // Keys that were taken and do nothing here, and what "auto" came to.
  const std::vector<Remark>& notes() const { return notes_; }
  // Every key that has a value under this configuration, in the order of the reference page, and
  // where the value comes from. Put into a file, it means the same again.
  std::vector<EffectiveValue> effective() const;
  // The same as the text of a file, each value with its origin in a comment. Read again, with the
  // same facts if the batch is not settled, it is the same configuration.
  std::string explained() const;

  OptimizerSettings optimizer;
  std::optional<SchedulerSettings> scheduler;  // empty: learning rates stay as they are set
  LossScaleSettings loss_scale;
  ZeroSettings zero;
  RuntimeSettings runtime;
  double gradient_clipping = 1.0;  // 0: off
  // Empty: "auto", what the registered parameters are. Off with 16-bit parameters: no loss scale.
  std::optional<bool> fp16_enabled = false;
  std::optional<bool> bf16_enabled = false;
  std::optional<DType> grad_accum_dtype;         // empty: the parameter's dtype
  std::optional<DType> communication_data_type;  // empty: the gradient's dtype
  bool managed_accumulation = true;              // false: every step() is the end of a step

  // Batch keys as the file has them; after resolve_batch() all three are set.
  std::optional<std::int64_t> train_batch_size;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> accumulation_steps;

 private:
  Config(std::shared_ptr<const detail::JsonNode> tree, const Facts& facts,
         detail::Reading& reading);
  static Config read(detail::JsonNode tree, const Facts& facts, detail::Reading reading);
  const std::string& origin() const;  // what stands for the file name in messages

  detail::Shared<detail::JsonNode> tree_;
  detail::Shared<std::string> json_;
  detail::Shared<detail::Provenance> provenance_;
  detail::Shared<Facts> facts_;
  std::vector<Remark> warnings_;
  std::vector<Remark> notes_;
  bool batch_settled_ = false;  // by resolve_batch()
};

}  // namespace zero
