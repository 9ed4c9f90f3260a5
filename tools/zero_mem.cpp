// zero-mem: per-rank memory under ZeRO, planned before a run and compared after it.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/mem_fit.hpp"
#include "tools/mem_options.hpp"
#include "tools/mem_plan.hpp"
#include "tools/mem_report.hpp"

namespace {

enum ExitCode { kDone = 0, kFailed = 1, kBadUsage = 2 };

// Text or JSON, then the picture.
void show(const mem::Options& options, const std::string& text, const nlohmann::ordered_json& json,
          const mem::Chart& chart) {
  // Names of files may be any bytes.
  const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
  std::cout << (options.json ? json.dump(2, ' ', false, lenient) + "\n" : text);
  if (!std::cout.flush()) throw std::runtime_error("standard output cannot be written");
  if (!options.plot_path.empty()) mem::plot(chart, options.plot_path);
}

mem::Subject subject_of(const mem::Options& options) {
  mem::Subject subject = mem::resolve(options.model);
  if (options.model.config_path) {
    for (const zero::Remark& warning : subject.config.warnings()) {
      std::cerr << "warning: " << to_string(warning) << '\n';
    }
    for (const zero::Remark& note : subject.config.notes()) {
      // The stage of the file plays no part here, nor what its keys do at that stage.
      if (!note.of_stage) std::cerr << "note: " << to_string(note) << '\n';
    }
  }
  return subject;
}

ExitCode plan(const mem::Options& options) {
  const mem::Subject subject = subject_of(options);
  const auto rows = mem::plan_rows(subject, options.stages, options.ranks);
  show(options, mem::plan_text(subject, rows), mem::plan_json(subject, rows),
       mem::plan_chart(subject, rows));
  for (const mem::Row& row : rows) {
    if (!row.refusal.empty()) return kFailed;
  }
  return kDone;
}

ExitCode fit(const mem::Options& options) {
  const mem::Subject subject = subject_of(options);
  const mem::FitResult result = mem::fit_budget(subject, options.budget, options.ranks.front());
  show(options, mem::fit_text(subject, result), mem::fit_json(subject, result),
       mem::fit_chart(subject, result));
  return result.fit.fits ? kDone : kFailed;
}

ExitCode report(const mem::Options& options) {
  const mem::Run run = mem::read_run(options.run_path);
  const auto found = mem::differences(run);
  for (const mem::Difference& difference : found) {
    std::cerr << "zero-mem: DIFFERS: " << mem::to_string(difference) << '\n';
  }
  show(options, mem::report_text(run), mem::report_json(run),
       mem::report_chart(options.run_path, run));
  return found.empty() ? kDone : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  mem::Options options;
  if (const auto code = mem::parse_command_line(argc, argv, options)) return *code;
  try {
    if (!options.plot_path.empty()) mem::image_format(options.plot_path);
    switch (options.command) {
      case mem::Command::kPlan:
        return plan(options);
      case mem::Command::kFit:
        return fit(options);
      case mem::Command::kReport:
        return report(options);
    }
  } catch (const std::exception& error) {
    std::cerr << "zero-mem: " << error.what() << '\n';
  }
  return kBadUsage;
}
