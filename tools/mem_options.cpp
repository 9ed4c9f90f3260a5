#include "tools/mem_options.hpp"

#include <CLI/CLI.hpp>

#include "tools/mem_presets.hpp"

namespace mem {

namespace {

constexpr const char* kAbout =
    "What each rank holds under ZeRO: before a run (plan, fit) and after it (report).\n"
    "A plan is a dry run of the library itself, so it is exact, with buckets, buffers and padding.";

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 a plan is refused, nothing fits, or a run differs from its plan;\n"
    "2 bad flags or files, or the picture could not be drawn.\n"
    "Example: zero-mem plan --params 7.5e9 --dtype bf16 --ranks 64";

constexpr int kMostRanks = 1 << 20;

void add_model(CLI::App& app, ModelOptions& o) {
  app.add_option("--params", o.params,
                 "this many parameters, e.g. 7.5e9, as a plain stack of " +
                     std::to_string(kStackUnits) + " equal units, each one tensor");
  app.add_option(
      "--model", o.model_path,
      "JSON file with units, names, shapes and dtypes; zero-train --describe writes one");
  app.add_option("--preset", o.preset, "a known shape: " + preset_names());
  app.add_option("--dtype", o.dtype,
                 "of --params or --preset; default: what the configuration enables, else fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option(
      "--config", o.config_path,
      "DeepSpeed-style JSON file, whose stage and memory_budget play no part here; without it: "
      "AdamW and defaults");
  app.add_option(
         "--fact", o.facts,
         "key=value: what settles \"auto\" in the configuration, e.g. hidden_size=4096; what "
         "stays open takes its default")
      ->allow_extra_args(false);
  app.add_flag(
      "--processes", o.processes,
      "ranks are processes (MPI, NCCL), which receive the slices of the others before they sum "
      "them, rather than threads");
  app.add_option("--saves", o.saves,
                 "checkpoints are saved: what that holds on its way; async: a copy of the rank's "
                 "share")
      ->check(CLI::IsMember({"sync", "async"}));
  app.add_option("--activations", o.activations,
                 "bytes of each rank that the library does not own, e.g. 6GiB; default: "
                 "runtime.reserved of the configuration");
}

void add_output(CLI::App& app, Options& o) {
  app.add_flag("--json", o.json, "one JSON object with exact figures instead of the text");
  app.add_option("--plot", o.plot_path, "draws stacked bars into this .svg or .png, by gnuplot");
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, Options& o) {
  CLI::App app(kAbout, "zero-mem");
  app.footer(kFooter);
  app.require_subcommand(1);

  CLI::App& plan = *app.add_subcommand("plan", "bytes of each rank, by stage and world size");
  add_model(plan, o.model);
  plan.add_option("--stage", o.stages, "ZeRO stages, e.g. 0,1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  plan.add_option("--ranks", o.ranks, "world sizes, e.g. 1,8,64,1024")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, kMostRanks))
      ->capture_default_str();
  add_output(plan, o);

  CLI::App& fit = *app.add_subcommand(
      "fit", "the stage with the least traffic, and the largest buckets, that fit a budget");
  add_model(fit, o.model);
  int fit_ranks = 1;
  fit.add_option("--ranks", fit_ranks, "world size")->required()->check(CLI::Range(1, kMostRanks));
  fit.add_option("--budget", o.budget, "bytes of each rank, activations included, e.g. 24GiB")
      ->required();
  add_output(fit, o);

  CLI::App& report =
      *app.add_subcommand("report", "planned, measured and peak bytes of a zero-train run");
  report.add_option("RUN.jsonl", o.run_path, "what zero-train --json wrote")->required();
  add_output(report, o);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (fit.parsed()) {
    o.command = Command::kFit;
    o.ranks = {fit_ranks};
  } else if (report.parsed()) {
    o.command = Command::kReport;
  }
  return std::nullopt;
}

}  // namespace mem
