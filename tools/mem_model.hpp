// The model and the configuration that the subcommands of zero-mem work on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zero/config.hpp"
#include "zero/model_shape.hpp"
#include "zero/partition_manager.hpp"

namespace mem {

// As given on the command line; exactly one of params, model_path and preset.
struct ModelOptions {
  std::optional<std::string> params;
  std::optional<std::string> model_path;
  std::optional<std::string> preset;
  std::optional<std::string> dtype;  // of params and preset; empty: the configuration's, else fp32
  std::optional<std::string> config_path;  // empty: AdamW and defaults
  std::vector<std::string> facts;          // key=value
  bool processes = false;                  // ranks, rather than threads
  std::string saves;                       // "sync", "async"; empty: no checkpoints
  std::optional<std::string> activations;  // empty: runtime.reserved of the configuration
};

struct Subject {
  std::string title;  // "llama-7b, bf16"
  zero::ModelShape model;
  std::int64_t elems = 0;
  zero::Config config;
  std::int64_t activation_bytes = 0;  // per rank
  zero::PlanOptions plan_options;
};

// More would overflow sums of bytes over categories and traffic.
inline constexpr std::int64_t kMostElems = 10'000'000'000'000'000;
inline constexpr std::int64_t kMostBytes = 1'000'000'000'000'000'000;  // of activations
inline constexpr std::int64_t kStackUnits = 32;

// "7.5e9" -> 7500000000. Throws zero::ConfigError unless it is a whole number from 1 to kMostElems.
std::int64_t parse_params(const std::string& text);

// `elems` elements as kStackUnits units of one parameter each, which differ by one element at most.
zero::ModelShape plain_stack(std::int64_t elems, zero::DType dtype);

// Throws zero::ConfigError naming the flag, or the place in a file, that does not fit.
Subject resolve(const ModelOptions& options);

// Settles the batch triple of the configuration; where it says nothing, a micro-batch of 1, since
// memory and traffic of the runtime depend on the accumulation only.
void settle_batch(zero::Config& config, int ranks);

}  // namespace mem
