#include "tools/case_runner.hpp"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/case_check.hpp"
#include "tools/case_model.hpp"
#include "zero/config.hpp"
#include "zero/world.hpp"

namespace zero::cases {
namespace {

constexpr double kDeadlineSeconds = 20.0;

// What one rank has to tell about a phase. Written by its thread, read when all have ended.
struct RankReport {
  std::string place;              // where it is
  std::int64_t order = 0;         // the same as a number that only grows
  std::int64_t expectations = 0;  // checked so far
  bool training = false;          // a first micro-step has begun
  std::optional<std::string> mismatch;
  std::int64_t mismatch_order = 0;
  std::vector<std::string> warnings;
};

std::int64_t count_expectations(const CasePhase& phase) {
  std::int64_t count = phase.expect ? 1 : 0;
  for (const CaseStep& step : phase.steps) count += step.expect ? step.repeat : 0;
  return count;
}

// Where the phases of one run save and load; gone when it ends.
class CheckpointFolder {
 public:
  CheckpointFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zero-case-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "no folder like " + pattern);
    }
    path_ = pattern;
  }
  ~CheckpointFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What a run has to say about its configuration.
std::vector<std::string> remarks(const Config& config) {
  std::vector<std::string> lines;
  for (const auto* list : {&config.warnings(), &config.notes()}) {
    for (const Remark& remark : *list) lines.push_back(to_string(remark));
  }
  return lines;
}

// One rank through one phase.
class PhaseRun {
 public:
  PhaseRun(const CaseFile& file, std::size_t index, const Config& config, World& world,
           const std::string& folder, RankReport& report)
      : phase_(file.phases[index]),
        index_(static_cast<std::int64_t>(index)),
        folder_(folder),
        prefix_("phase " + std::to_string(index)),
        report_(report),
        model_(file, phase_, world),
        optimizer_(config, world),
        checker_(file, optimizer_) {
    model_.register_with(optimizer_);
  }

  void run() {
    enter(" prepare");
    optimizer_.prepare();
    report_.warnings = remarks(optimizer_.config());
    checker_.check_bytes(report_.place);
    note();
    if (phase_.load) {
      enter(" load");
      for (const std::string& line : optimizer_.load(folder_).notes) {
        report_.warnings.push_back(line);
      }
    }
    for (std::size_t i = 0; i < phase_.steps.size(); ++i) {
      for (int k = 0; k < phase_.steps[i].repeat; ++k) step(i, k);
    }
    enter(" end");
    if (phase_.expect) check(*phase_.expect);
    if (phase_.save) {
      enter(" save");
      optimizer_.save(folder_, index_);
    }
  }

 private:
  void step(std::size_t index, int repetition) {
    const CaseStep& step = phase_.steps[index];
    std::string place = " step " + std::to_string(index);
    if (step.repeat > 1) place += " repetition " + std::to_string(repetition);
    enter(place);
    model_.apply_settings(step);
    report_.training = true;
    for (const MicroStep& micro : step.micro_steps) {
      for (int k = 0; k < micro.repeat; ++k) {
        model_.forward();
        model_.backward(micro);
        const bool last = &micro == &step.micro_steps.back() && k + 1 == micro.repeat;
        if (!last && !optimizer_.config().managed_accumulation) {
          optimizer_.end_micro_step();
          continue;
        }
        result_ = optimizer_.step();
        checker_.check_boundary(result_->boundary, last, report_.place);
      }
    }
    note();
    if (step.expect) check(*step.expect);
  }

  void check(const Expectation& expect) {
    checker_.check(expect, result_ ? &*result_ : nullptr, report_.place);
    ++report_.expectations;
    note();
  }

  void enter(const std::string& place) {
    report_.place = prefix_ + place;
    ++report_.order;
  }

  void note() {
    if (report_.mismatch || !checker_.first_mismatch()) return;
    report_.mismatch = checker_.first_mismatch();
    report_.mismatch_order = report_.order;
  }

  const CasePhase& phase_;
  std::int64_t index_;
  const std::string& folder_;  // of checkpoints
  std::string prefix_;
  RankReport& report_;
  CaseModel model_;  // outlives the optimizer, which knows its pointers
  ZeroOptimizer optimizer_;
  Checker checker_;
  std::optional<StepResult> result_;
};

struct PhaseOutcome {
  RankReport furthest;                  // of the ranks
  std::optional<std::string> mismatch;  // the earliest one
  std::optional<std::string> error;
};

PhaseOutcome run_phase(const CaseFile& file, std::size_t index, int stage, DeviceKind device,
                       const std::string& folder) {
  const CasePhase& phase = file.phases[index];
  PhaseOutcome outcome;
  outcome.furthest.place = "phase " + std::to_string(index) + " before training";
  std::vector<std::string> warnings;
  std::vector<RankReport> reports(static_cast<std::size_t>(phase.world_size), outcome.furthest);
  try {
    Config config = Config::parse(file.config, "config");
    if (!phase.config_patch.empty()) config.merge(phase.config_patch);
    config.set("zero_optimization.stage", std::to_string(stage));
    warnings = remarks(config);
    RunOptions options;
    options.device = device;
    options.timeout = std::chrono::duration<double>(
        std::min(config.runtime.timeout_s.value_or(kDeadlineSeconds), kDeadlineSeconds));
    run_ranks(
        phase.world_size,
        [&](World& world) {
          PhaseRun(file, index, config, world, folder,
                   reports[static_cast<std::size_t>(world.rank())])
              .run();
        },
        options);
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  outcome.furthest =
      *std::max_element(reports.begin(), reports.end(),
                        [](const RankReport& a, const RankReport& b) { return a.order < b.order; });
  std::int64_t earliest = 0;
  for (const RankReport& report : reports) {
    outcome.furthest.expectations = std::max(outcome.furthest.expectations, report.expectations);
    if (!report.mismatch || (outcome.mismatch && report.mismatch_order >= earliest)) continue;
    outcome.mismatch = report.mismatch;
    earliest = report.mismatch_order;
  }
  warnings.insert(warnings.end(), outcome.furthest.warnings.begin(),
                  outcome.furthest.warnings.end());
  outcome.furthest.warnings = std::move(warnings);
  return outcome;
}

// An error came: is it the one the file waits for, at its time? Empty if so.
std::string judge_error(const CaseFile& file, const RankReport& furthest, const std::string& error,
                        std::int64_t expectations_held, std::int64_t expectations_in_file) {
  if (!file.expect_error) return furthest.place + ": error: " + error;
  if (error.find(*file.expect_error) == std::string::npos) {
    return furthest.place + ": error without \"" + *file.expect_error + "\" in it: " + error;
  }
  if (expectations_held < expectations_in_file) {
    return furthest.place + ": the error came before all expectations were reached: " + error;
  }
  if (expectations_in_file == 0 && furthest.training) {
    return furthest.place + ": refused only after training had begun: " + error;
  }
  return {};
}

std::string judge_warnings(const CaseFile& file, const std::vector<std::string>& warnings) {
  if (!file.expect_warning) return {};
  std::string all;
  for (const std::string& warning : warnings) {
    if (warning.find(*file.expect_warning) != std::string::npos) return {};
    if (all.find(warning) == std::string::npos) all += (all.empty() ? "" : "; ") + warning;
  }
  return "no warning has \"" + *file.expect_warning +
         "\" in it; given: " + (all.empty() ? "none" : all);
}

Outcome fails(std::string detail) { return {Verdict::kFails, std::move(detail)}; }

}  // namespace

Outcome run_case(const CaseFile& file, int stage, DeviceKind device) {
  std::int64_t in_file = 0;
  std::optional<CheckpointFolder> made;
  for (const CasePhase& phase : file.phases) {
    in_file += count_expectations(phase);
    if (phase.save && !made) made.emplace();
  }
  const std::string folder = made ? made->path() : "";
  std::int64_t held = 0;
  bool refused = false;
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < file.phases.size() && !refused; ++i) {
    const PhaseOutcome phase = run_phase(file, i, stage, device, folder);
    warnings.insert(warnings.end(), phase.furthest.warnings.begin(), phase.furthest.warnings.end());
    held += phase.furthest.expectations;
    if (phase.mismatch) {
      return fails(*phase.mismatch + (phase.error ? " (and then: " + *phase.error + ")" : ""));
    }
    if (!phase.error) continue;
    const std::string wrong = judge_error(file, phase.furthest, *phase.error, held, in_file);
    if (!wrong.empty()) return fails(wrong);
    refused = true;
  }
  if (file.expect_error && !refused) {
    return fails("no error came; one with \"" + *file.expect_error + "\" in it was expected");
  }
  const std::string wrong = judge_warnings(file, warnings);
  return wrong.empty() ? Outcome{} : fails(wrong);
}

}  // namespace zero::cases
