#include "tools/train_checkpoint.hpp"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "zero/checkpoint_tools.hpp"
#include "zero/error.hpp"

namespace train {

using zero::detail::concat;

Checkpoints::Checkpoints(const Setup& setup, const Corpus& corpus, zero::ZeroOptimizer& optimizer,
                         JsonLines& json)
    : setup_(setup), corpus_(corpus), optimizer_(optimizer), json_(json) {}

// Data is drawn by slot, so the step is all that there is to know of where in it a run is; the rest
// tells whether it is the same run.
std::string Checkpoints::position(std::int64_t done) const {
  nlohmann::ordered_json text;
  text["program"] = "zero-train";
  text["step"] = done;
  text["seed"] = setup_.options.seed;
  text["slots"] = std::int64_t{optimizer_.accumulation_steps()} * optimizer_.world_size();
  text["micro_batch"] = setup_.shape.micro_batch;
  text["context"] = setup_.shape.context;
  text["data_bytes"] = corpus_.bytes();
  text["data_xxh3"] = corpus_.hash();
  return text.dump();
}

// In what this run will draw other data than the one that was saved.
std::vector<std::string> Checkpoints::differences(const std::string& saved) const {
  std::vector<std::string> lines;
  const auto here = nlohmann::json::parse(position(0));
  const auto then = nlohmann::json::parse(saved);
  for (const auto& [key, value] : then.items()) {
    if (key == "step" || !here.contains(key) || here[key] == value) continue;
    lines.push_back(concat(key, " was ", value.dump(), " at the save and is ", here[key].dump(),
                           ": training goes on with other data than it would have"));
  }
  return lines;
}

std::int64_t Checkpoints::resume() {
  if (setup_.options.resume.empty()) return 0;
  const zero::LoadReport report = optimizer_.load(setup_.options.resume);
  std::int64_t done = report.step;
  std::vector<std::string> notes = report.notes;
  const auto saved = nlohmann::json::parse(report.user_data, nullptr, false);
  if (saved.is_object() && saved.value("program", "") == "zero-train") {
    done = saved.value("step", report.step);
    for (std::string& line : differences(report.user_data)) notes.push_back(std::move(line));
  }
  if (optimizer_.rank() == 0) {
    json_.resumed(report.folder, done);
    if (!setup_.options.quiet) {
      std::cerr << "resumed from " << report.folder << " after " << done << " steps\n";
    }
    for (const std::string& note : notes) std::cerr << "note: " << note << '\n';
  }
  return done;
}

void Checkpoints::after_step(std::int64_t done, bool last) {
  const Options& options = setup_.options;
  const bool due = options.save_every > 0 && done % options.save_every == 0;
  if (options.save_dir.empty() || (!due && !last)) return;
  const auto start = std::chrono::steady_clock::now();
  zero::SaveOptions how;
  how.keep = static_cast<int>(options.keep);
  how.async = options.save_async;
  how.user_data = position(done);
  optimizer_.save(options.save_dir, done, how);
  report();  // of the one before: this one had to wait for it
  under_way_ = {
      done,
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()};
  if (!options.save_async) report();
}

void Checkpoints::report() {
  if (under_way_ && optimizer_.rank() == 0) json_.saved(under_way_->step, under_way_->ms);
  under_way_.reset();
}

void Checkpoints::finish() {
  if (setup_.options.save_dir.empty()) return;
  optimizer_.wait_for_save();
  report();
}

void Checkpoints::check_budget(std::int64_t steps) const {
  const zero::RuntimeSettings& runtime = optimizer_.config().runtime;
  if (!runtime.memory_budget) return;
  const std::int64_t peak = optimizer_.plan(foreseen(steps)).peak_bytes();
  if (peak <= *runtime.memory_budget - runtime.reserved) return;
  throw zero::ConfigError(concat("with what --save-dir and --resume take a rank holds ", peak,
                                 " bytes at its peak, and runtime.memory_budget is ",
                                 *runtime.memory_budget, ", ", runtime.reserved,
                                 " of them runtime.reserved"));
}

void Checkpoints::check_folder() const {
  if (setup_.options.save_dir.empty() || optimizer_.rank() != 0) return;
  try {
    zero::prepare_checkpoint_folder(zero::posix_file_system(), setup_.options.save_dir);
  } catch (const zero::CheckpointError& error) {
    throw zero::ConfigError(concat("--save-dir: ", error.what()));
  }
}

zero::PlanOptions Checkpoints::foreseen(std::int64_t steps) const {
  zero::PlanOptions plan;
  plan.steps = steps;
  plan.loads = !setup_.options.resume.empty();
  const bool saves =
      !setup_.options.save_dir.empty() && steps > 0;  // after the last, if there is one
  plan.saves = saves && !setup_.options.save_async;
  plan.async_saves = saves && setup_.options.save_async;
  return plan;
}

}  // namespace train
