// The batch triple: train = micro x accumulation x world size (semantics of DeepSpeed, without its
// rounding).
#include <algorithm>
#include <limits>

#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using Size = std::optional<std::int64_t>;

std::string text(Size size) { return size.has_value() ? std::to_string(*size) : "not given"; }

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

}  // namespace

void Config::resolve_batch(int world_size, std::optional<std::int64_t> caller_micro) {
  if (world_size < 1) {
    throw UsageError(
        detail::concat("resolve_batch: world size ", world_size, "; valid: 1 or more"));
  }
  if (caller_micro.has_value() && *caller_micro < 1) {
    throw ConfigError(detail::concat("train_micro_batch_size_per_gpu: the caller gives ",
                                     *caller_micro, "; valid: a whole number, at least 1"));
  }
  const std::int64_t world = world_size;
  Size train = train_batch_size;
  Size micro = micro_batch_size;
  Size accumulation = accumulation_steps;

  const bool from_caller = !micro.has_value() && caller_micro.has_value();
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(detail::concat(
        origin(), ": train_batch_size ", text(train_batch_size),
        ", train_micro_batch_size_per_gpu ",
        from_caller ? text(caller_micro) + " (from the caller)" : text(micro_batch_size),
        ", gradient_accumulation_steps ", text(accumulation_steps), ", world size ", world, ": ",
        why, "; train_batch_size must be micro-batch x accumulation x world size"));
  };

  const bool follows = train.has_value() && accumulation.has_value();
  if (!micro.has_value() && !follows) micro = caller_micro;
  if (!train.has_value() && !micro.has_value()) {
    refuse("give train_batch_size or train_micro_batch_size_per_gpu");
  }
  if (!accumulation.has_value() && !(train.has_value() && micro.has_value())) accumulation = 1;

  if (!micro.has_value()) {
    micro = quotient(*train, *accumulation, world);
    if (!micro)
      refuse(detail::concat(*train, " / (", *accumulation, " x ", world, ") is not whole"));
  } else if (!accumulation.has_value()) {
    accumulation = quotient(*train, *micro, world);
    if (!accumulation)
      refuse(detail::concat(*train, " / (", *micro, " x ", world, ") is not whole"));
  }
  const Size whole = product(*micro, *accumulation, world);
  const std::string factors = detail::concat(*micro, " x ", *accumulation, " x ", world);
  if (!whole) refuse(factors + " is beyond 64 bits");
  if (train.has_value() && *train != *whole) {
    refuse(detail::concat(*train, " is not ", factors, " = ", *whole));
  }
  if (*accumulation > std::numeric_limits<int>::max()) {
    refuse(detail::concat(*accumulation, " accumulation steps are more than ",
                          std::numeric_limits<int>::max()));
  }
  if (runtime.reproducible && !(power_of_two(*accumulation) && power_of_two(world))) {
    refuse(detail::concat("runtime.reproducible needs powers of two; accumulation is ",
                          *accumulation, ", world size ", world));
  }
  if (caller_micro.has_value() && *caller_micro != *micro) {
    const std::string rest =
        detail::concat(" as ", *micro, "; the caller's ", *caller_micro, " is not used");
    const std::string key = "train_micro_batch_size_per_gpu: ";
    const std::string by_file = key + "the file settles it" + rest;
    const std::string by_call = key + "an earlier call settled it" + rest;
    const bool told = std::any_of(warnings_.begin(), warnings_.end(), [&](const std::string& w) {
      return w == by_file || w == by_call;
    });
    if (!told) warnings_.push_back(batch_settled_ ? by_call : by_file);
  }
  batch_settled_ = true;
  train_batch_size = whole;
  micro_batch_size = micro;
  accumulation_steps = accumulation;
}

}  // namespace zero
