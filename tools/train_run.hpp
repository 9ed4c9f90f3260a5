// One rank of a training run.
#pragma once

#include <atomic>

#include "tools/train_data.hpp"
#include "tools/train_options.hpp"
#include "tools/train_report.hpp"
#include "zero/world.hpp"

namespace train {

// Trains, evaluates and reports. Collective; rank 0 writes the output. `signal` turns non-zero when
// the run is to end after the current step. `json` is used by rank 0 only.
// Throws zero::Error, or std::runtime_error when the loss is no longer finite.
void run_rank(const Setup& setup, const Corpus& corpus, zero::World& world,
              const std::atomic<int>& signal, JsonLines& json);

}  // namespace train
