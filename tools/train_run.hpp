// One rank of a training run.
#pragma once

#include <atomic>
#include <stdexcept>

#include "tools/train_data.hpp"
#include "tools/train_options.hpp"
#include "tools/train_report.hpp"
#include "zero/world.hpp"

namespace train {

// Names the sizes that were asked, for when they do not fit into memory.
std::runtime_error no_memory(const Setup& setup);

// Trains, evaluates and reports. Collective; rank 0 writes the output. `signal` turns non-zero when
// the run is to end after the current step. `json` is used by rank 0 only.
// Returns on rank 0 the signal that its final line tells of, or 0; elsewhere 0. Throws zero::Error,
// or std::runtime_error when a loss is not finite, or there is no memory for the model.
int run_rank(const Setup& setup, const Corpus& corpus, zero::World& world,
             const std::atomic<int>& signal, JsonLines& json);

}  // namespace train
