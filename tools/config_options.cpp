#include "tools/config_options.hpp"

#include <CLI/CLI.hpp>
#include <limits>

#include "tools/facts.hpp"

namespace config_tool {
namespace {

constexpr const char* kAbout =
    "Reads a DeepSpeed-style configuration file as the library does, and says what it comes to.";

constexpr const char* kFooter =
    "Facts settle what the file leaves \"auto\": micro_batch, accumulation, lr, weight_decay, "
    "betas,\n"
    "eps, clipping, total_steps, warmup_steps, warmup_min_lr, warmup_max_lr, hidden_size, dtype.\n"
    "Exit codes: 0 accepted, or no difference; 1 the files differ (diff), or the output could not\n"
    "be written; 2 refused, or bad flags.\n"
    "Example: zero-config check ds_config.json --world-size 8 --fact lr=3e-4 --fact dtype=bf16";

void add_run_flags(CLI::App& command, Options& o) {
  command
      .add_option("--world-size", o.world_size,
                  "data-parallel ranks: settles the batch sizes with them")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command.add_option("--device", o.device, "where training runs")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  command.add_option("--fact", o.facts, "key=value: what the caller knows; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, Options& o) {
  CLI::App app(kAbout, "zero-config");
  app.footer(kFooter);
  app.require_subcommand(1);

  CLI::App& check = *app.add_subcommand("check", "accepts or refuses a file");
  check.add_option("FILE", o.path, "the configuration")->required();
  add_run_flags(check, o);
  check.get_option("--world-size")->required();
  check.add_flag("--json", o.json,
                 "one JSON object: stage, effective (path to value), warnings, notes");

  CLI::App& explain = *app.add_subcommand(
      "explain", "every value in force and where it comes from, as a file that means the same");
  explain.add_option("FILE", o.path, "the configuration")->required();
  add_run_flags(explain, o);

  CLI::App& reference = *app.add_subcommand("reference", "the page about every key, in Markdown");

  CLI::App& diff = *app.add_subcommand("diff", "what differs in effect between two files");
  diff.add_option("A", o.path, "one configuration")->required();
  diff.add_option("B", o.other_path, "the other")->required();
  add_run_flags(diff, o);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (explain.parsed()) o.command = Command::kExplain;
  if (reference.parsed()) o.command = Command::kReference;
  if (diff.parsed()) o.command = Command::kDiff;
  return std::nullopt;
}

zero::Facts facts_of(const Options& options) {
  zero::Facts facts = facts::parse(options.facts);
  facts.world_size = options.world_size;
  facts.device = options.device == "cuda" ? zero::DeviceKind::kCuda : zero::DeviceKind::kHost;
  return facts;
}

}  // namespace config_tool
