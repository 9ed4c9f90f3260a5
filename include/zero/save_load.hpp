// What ZeroOptimizer::save() and load() take and tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

class FileSystem;

struct SaveOptions {
  // How many checkpoints stay in the folder, the newest ones that are whole; 0: all.
  int keep = 0;
  // Training goes on while a copy of this rank's share is written. It takes 12 bytes for every
  // element of the share (4 with SGD), in the category `workspace`, from the first such save until
  // the optimizer's end; PlanOptions::async_saves has it in the plan.
  bool async = false;
  // The caller's own state as JSON text, e.g. the position in the data; rank 0's is kept, as it is.
  std::string user_data = {};
  // Null: the system's. Outlives the save.
  FileSystem* file_system = nullptr;
};

struct LoadOptions {
  // Weights and frozen parameters alone: moments, counts, schedule and loss scale stay as they are,
  // also in another dtype.
  bool weights_only = false;
  // The checkpoint has exactly this model: the same parameters, trainable and frozen, of the same
  // dtype, with the same moments. Not strict: what is missing keeps its value, what is extra is
  // left alone, and values are converted; the report's notes name each. Shapes must match in any
  // case.
  bool strict = true;
  // A checkpoint from inside an accumulation window that cannot be continued here: begin the window
  // anew, with no gradient, instead of an error.
  bool restart_window = false;
  FileSystem* file_system = nullptr;  // null: the system's
};

struct LoadReport {
  std::string folder;                   // the checkpoint, e.g. "runs/a/step-00000100"
  std::int64_t step = 0;                // as given to save()
  int micro_step = 0;                   // of the open window that come next; 0: a step begins
  std::string user_data = {};           // the same text as given to save(); empty: none
  std::vector<std::string> notes = {};  // what is not as it was, in words
};

}  // namespace zero
