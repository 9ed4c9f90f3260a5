// The batch triple: train = micro x accumulation x world size (semantics of DeepSpeed, without its
// rounding).
#include <algorithm>
#include <limits>

#include "src/config_provenance.hpp"
#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using Size = std::optional<std::int64_t>;

constexpr std::string_view kTrain = detail::kBatchPaths[0];
constexpr std::string_view kMicro = detail::kBatchPaths[1];
constexpr std::string_view kAccumulation = detail::kBatchPaths[2];

// a x b x c, empty if beyond 64 bits. REQUIRES: all positive.
Size product(std::int64_t a, std::int64_t b, std::int64_t c) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (a > kMax / b || a * b > kMax / c) return std::nullopt;
  return a * b * c;
}

// total / (a x b) if that is whole and positive.
Size quotient(std::int64_t total, std::int64_t a, std::int64_t b) {
  const Size divisor = product(a, b, 1);
  if (!divisor.has_value() || total % *divisor != 0 || total / *divisor == 0) return std::nullopt;
  return total / *divisor;
}

bool power_of_two(std::int64_t x) { return (x & (x - 1)) == 0; }

// One number of the triple on its way to being settled.
struct Part {
  Size file;           // as the configuration has it
  bool is_auto;        // it says "auto"
  Size value;          // settled
  std::string origin;  // where a value that is not the file's comes from
  std::string place;   // of the file's
  std::string text() const {
    if (file) return detail::concat(*file, " (", place, ")");
    if (value && !origin.empty()) return detail::concat(*value, " (", origin, ")");
    return is_auto ? "\"auto\"" : "not given";
  }
  void take(Size from, std::string where) {
    if (value || !from) return;
    value = from;
    origin = std::move(where);
  }
};

}  // namespace

void Config::resolve_batch(int world_size, std::optional<std::int64_t> caller_micro) {
  if (world_size < 1) {
    throw UsageError(
        detail::concat("resolve_batch: world size ", world_size, "; valid: 1 or more"));
  }
  const Size known_micro = facts_->micro_batch ? facts_->micro_batch : caller_micro;
  for (const auto& [key, given, who] :
       {std::tuple{kMicro, caller_micro, "the caller gives "},
        std::tuple{kMicro, facts_->micro_batch, "the fact is "},
        std::tuple{kAccumulation, facts_->accumulation, "the fact is "}}) {
    if (given.value_or(1) >= 1) continue;
    throw ConfigError(
        detail::concat(key, ": ", who, *given, "; valid: a whole number, at least 1"));
  }
  const std::int64_t world = world_size;
  const auto part_of = [&](std::string_view key, Size value) {
    const detail::Provenance::Origin& from = provenance_->rows[detail::row_index(key)];
    const bool as_read = value && from.value == detail::Value(*value);
    return Part{value, from.was_auto, value, {}, as_read ? from.text : "set by the program"};
  };
  Part train = part_of(kTrain, train_batch_size);
  Part micro = part_of(kMicro, micro_batch_size);
  Part accumulation = part_of(kAccumulation, accumulation_steps);

  std::string reasons;
  const auto object = [&](const std::string& why) {
    reasons += (reasons.empty() ? "" : "; ") + why;
  };
  const auto refuse_if_any = [&] {
    if (reasons.empty()) return;
    throw ConfigError(detail::concat(origin(), ": ", kTrain, " ", train.text(), ", ", kMicro, " ",
                                     micro.text(), ", ", kAccumulation, " ", accumulation.text(),
                                     ", world size ", world, ": ", reasons, "; ", kTrain,
                                     " must be micro-batch x accumulation x world size"));
  };

  const bool micro_follows = train.file && accumulation.file;
  const bool accumulation_follows = train.file && micro.file;
  if (!micro_follows) {
    micro.take(known_micro, facts_->micro_batch ? "fact micro_batch" : "from the caller");
  }
  if (!accumulation_follows) accumulation.take(facts_->accumulation, "fact accumulation");
  if (!accumulation.value && !(train.value && micro.value)) {
    if (accumulation.is_auto && !facts_->defaults_for_auto) {
      object(
          detail::concat(kAccumulation, " is \"auto\": give the fact accumulation, or write it"));
    } else {
      accumulation.take(1, "default");
    }
  }
  if (!train.value && !micro.value) {
    object(micro.is_auto || train.is_auto
               ? detail::concat(micro.is_auto ? kMicro : kTrain,
                                " is \"auto\": give the fact micro_batch, or write ", kMicro)
               : detail::concat("give ", kTrain, " or ", kMicro));
  }
  refuse_if_any();

  const auto not_whole = [&](const Part& known) {
    object(detail::concat(*train.value, " / (", *known.value, " x ", world, ") is not whole"));
    refuse_if_any();
  };
  const std::string follows = "follows from the batch sizes";
  if (!micro.value) {
    micro.take(quotient(*train.value, *accumulation.value, world), follows);
    if (!micro.value) not_whole(accumulation);
  } else if (!accumulation.value) {
    accumulation.take(quotient(*train.value, *micro.value, world), follows);
    if (!accumulation.value) not_whole(micro);
  }
  const Size whole = product(*micro.value, *accumulation.value, world);
  const std::string factors =
      detail::concat(*micro.value, " x ", *accumulation.value, " x ", world);
  if (!whole) {
    object(factors + " is beyond 64 bits");
  } else if (train.value && *train.value != *whole) {
    object(detail::concat(*train.value, " is not ", factors, " = ", *whole));
  }
  if (*accumulation.value > std::numeric_limits<int>::max()) {
    object(detail::concat(*accumulation.value, " accumulation steps are more than ",
                          std::numeric_limits<int>::max()));
  }
  if (runtime.reproducible && !(power_of_two(*accumulation.value) && power_of_two(world))) {
    object(detail::concat("runtime.reproducible needs powers of two; accumulation is ",
                          *accumulation.value, ", world size ", world));
  }
  if (runtime.reproducible && !managed_accumulation) {
    object(
        "managed_gradient_accumulation false contradicts runtime.reproducible, whose sum has a "
        "fixed number of micro-steps");
  }
  refuse_if_any();
  train.take(whole, follows);

  // What the caller and the facts say otherwise plays no part, and is told once.
  const auto overrule = [&](std::string_view key, const Part& part, const std::string& other) {
    const std::string settled = detail::concat("settled as ", *part.value, " by ");
    const std::string unused = detail::concat("; ", other, " is not used");
    const bool told = std::any_of(warnings_.begin(), warnings_.end(), [&](const Remark& warning) {
      return warning.path == key && warning.message.starts_with(settled) &&
             warning.message.ends_with(unused);
    });
    std::string who = part.origin.empty() ? part.place : part.origin;
    if (part.origin == follows) who = "the other batch sizes";
    if (batch_settled_) who = "an earlier call";
    if (!told) warnings_.push_back({std::string(key), settled + who + unused});
  };
  if (caller_micro && *caller_micro != *micro.value) {
    overrule(kMicro, micro, detail::concat("the caller's ", *caller_micro));
  }
  if (facts_->micro_batch && *facts_->micro_batch != *micro.value) {
    overrule(kMicro, micro, detail::concat("the fact micro_batch ", *facts_->micro_batch));
  }
  if (facts_->accumulation && *facts_->accumulation != *accumulation.value) {
    overrule(kAccumulation, accumulation,
             detail::concat("the fact accumulation ", *facts_->accumulation));
  }
  batch_settled_ = true;
  train_batch_size = train.value;
  micro_batch_size = micro.value;
  accumulation_steps = accumulation.value;
  auto provenance = std::make_shared<detail::Provenance>(*provenance_);
  for (const auto& [key, part] : {std::pair{kTrain, &train}, std::pair{kMicro, &micro},
                                  std::pair{kAccumulation, &accumulation}}) {
    detail::Provenance::Origin& row = provenance->rows[detail::row_index(key)];
    row = {*part->value, part->origin.empty() ? part->place : part->origin, false};
  }
  provenance_ = detail::Shared<detail::Provenance>(std::move(provenance));
}

}  // namespace zero
