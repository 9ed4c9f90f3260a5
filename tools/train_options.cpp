#include "tools/train_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "tools/facts.hpp"
#include "tools/precision.hpp"
#include "zero/error.hpp"

namespace train {

const char* const kDefaultConfig = R"({
  "optimizer": {
    "type": "AdamW",
    "params": {"lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
  },
  "gradient_clipping": 1.0,
  "zero_optimization": {"stage": 2}
})";

namespace {

constexpr const char* kAbout =
    "Trains a byte-level GPT on text files, its training state sharded over ranks by ZeRO.\n"
    "Ranks are threads of this process, or under mpirun its processes. The last tenth of the text "
    "is\n"
    "held out.";

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 the run failed, diverged, or could not write its output; 2 bad flags,\n"
    "configuration or files; 130 or 143 after SIGINT or SIGTERM: the current step is finished on "
    "all\n"
    "ranks, a checkpoint is saved if there is a --save-dir, the held-out loss and the tables are\n"
    "printed as at the end. A second signal ends the process at once. Memory is planned to the "
    "byte: a rank that holds anything else than its "
    "plan\n"
    "makes the run fail at its end.\n"
    "Example: zero-train --config configs/stage2.json --data text.txt --ranks 2 --steps 500";

const CLI::Range kPositive(1, 1 << 30);

// "a.b=c" -> set("a.b", "c").
void apply_set(zero::Config& config, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw zero::ConfigError("--set " + assignment +
                            ": expected json.path=value, e.g. zero_optimization.stage=3");
  }
  config.set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

// Both precision keys are set, so that the settings in force say so.
void apply_dtype(zero::Config& config, zero::DType dtype) {
  precision::apply_dtype(config, dtype, precision::Keys::kBoth);
}

// Whether the configuration has this value, and not by default.
bool is_said(const zero::Config& config, const std::string& path, const std::string& value) {
  const auto values = config.effective();
  return std::any_of(values.begin(), values.end(), [&](const zero::EffectiveValue& each) {
    return each.path == path && each.value == value && each.origin != "default";
  });
}

// Whatever the names in it: the assignment is made on top of a configuration without 16-bit types,
// and on top of one with the flag's, and must not turn either into another dtype.
void check_against_dtype(const zero::Config& config, const std::string& assignment,
                         const std::string& flag) {
  const zero::DType dtype = zero::dtype_from_name(flag).value();
  const auto contradicts = [&] {
    return zero::ConfigError("--set " + assignment + " contradicts --dtype " + flag);
  };
  zero::Config without = config;
  apply_dtype(without, zero::DType::kFloat32);
  apply_set(without, assignment);
  const zero::DType asked = precision::dtype_of(without);
  if (asked != zero::DType::kFloat32 && asked != dtype) throw contradicts();
  zero::Config with = config;
  apply_dtype(with, dtype);
  apply_set(with, assignment);
  const bool fp16_off = is_said(with, "fp16.enabled", "false");
  const bool bf16_off = is_said(with, "bf16.enabled", "false");
  if (dtype == zero::DType::kFloat16 ? fp16_off : dtype == zero::DType::kBFloat16 && bf16_off) {
    throw contradicts();
  }
}

std::string check_seed(const std::string& text) {
  if (text.starts_with('-')) return "must not be negative: " + text;
  errno = 0;
  std::strtoull(text.c_str(), nullptr, 0);
  return errno == ERANGE ? text + " is too large: at most 18446744073709551615" : std::string();
}

// What the command line says about the run, for what the file leaves "auto".
zero::Facts facts_of(const Options& options) {
  zero::Facts facts = facts::parse(options.facts);
  const auto know = [](auto& fact, const auto& value) {
    if (!fact) fact = value;
  };
  if (options.micro_batch) know(facts.micro_batch, options.micro_batch);
  if (options.accumulation) know(facts.accumulation, options.accumulation);
  if (options.dtype) {
    const auto flag = zero::dtype_from_name(*options.dtype);
    if (facts.dtype && facts.dtype != flag) {
      throw zero::ConfigError("--fact dtype contradicts --dtype " + *options.dtype);
    }
    facts.dtype = flag;
  }
  if (options.steps > 0) know(facts.total_steps, options.steps);
  know(facts.hidden_size, std::int64_t{options.shape.width});
  return facts;
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, Options& o) {
  CLI::App app(kAbout, "zero-train");
  app.footer(kFooter);
  app.option_defaults()->always_capture_default();
  CLI::Option* const config = app.add_option(
      "--config", o.config_path,
      "DeepSpeed-style JSON file; without it: AdamW, lr 3e-3, clipping 1.0, stage 2");
  CLI::Option* const data =
      app.add_option("--data", o.data, "text files, read as bytes one after the other");
  CLI::Option* const ranks =
      app.add_option("--ranks", o.ranks,
                     "data-parallel ranks, as threads; under mpirun -n N of several processes they "
                     "are N")
          ->check(CLI::Range(1, 4096));
  app.add_option("--steps", o.steps, "optimizer steps; 0 only evaluates")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--seed", o.seed, "of the first weights and of the order of the data")
      ->check(CLI::Validator([](const std::string& text) { return check_seed(text); }, "UINT64"));
  app.add_option("--layers", o.shape.layers, "transformer blocks")->check(kPositive);
  app.add_option("--width", o.shape.width, "size of a position's vector")->check(kPositive);
  app.add_option("--heads", o.shape.heads, "attention heads; must divide the width")
      ->check(kPositive);
  app.add_option("--context", o.shape.context, "bytes per row")->check(kPositive);
  app.add_option("--micro-batch", o.micro_batch,
                 "rows per rank and micro-step; default: the file's, else " +
                     std::to_string(o.shape.micro_batch))
      ->check(kPositive);
  app.add_option("--accumulation", o.accumulation, "micro-steps per step; default: the file's")
      ->check(kPositive);
  app.add_option("--dtype", o.dtype, "of parameters and gradients; default: the file's, else fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option("--stage", o.stage, "ZeRO stage; default: the file's")->check(CLI::Range(0, 3));
  app.add_option("--set", o.sets, "json.path=value: sets one value of the configuration")
      ->allow_extra_args(false);
  CLI::Option* const json =
      app.add_option("--json", o.json_path,
                     "writes one JSON object per line to this file; - is standard output, and what "
                     "people read goes to standard error");
  app.add_option("--fact", o.facts,
                 "key=value: settles what the file leaves \"auto\", e.g. lr=3e-4; the flags above "
                 "are facts too, and so are --steps and --width")
      ->allow_extra_args(false);
  CLI::Option* const describe = app.add_option(
      "--describe", o.describe_path,
      "writes names, shapes and units of the model as JSON to this file, - is stdout, and "
      "ends: zero-mem plans from it; --data and --json do not act then");
  CLI::Option* const save_dir = app.add_option(
      "--save-dir", o.save_dir,
      "folder for checkpoints; one is saved after the last step, also after a signal");
  app.add_option("--save-every", o.save_every,
                 "steps from one checkpoint to the next; 0: no others")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->needs(save_dir);
  app.add_option("--keep", o.keep, "how many checkpoints stay, the newest ones; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->needs(save_dir);
  app.add_flag("--save-async", o.save_async,
               "trains on while a copy of the state is written; takes the memory of the copy")
      ->needs(save_dir);
  CLI::Option* const resume = app.add_option(
      "--resume", o.resume,
      "a checkpoint, or a folder of them, to go on from; --steps counts from the very "
      "beginning");
  app.add_flag("--quiet", o.quiet, "only the final line");
  app.add_flag("--verbose", o.verbose, "one line per step, and the whole configuration in force");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // As of a variable of the shell that is not set: it is not the same as without the flag.
  for (const CLI::Option* const option : {config, json, describe, save_dir, resume}) {
    if (option->empty() || !option->results().back().empty()) continue;
    std::cerr << "zero-train: " << option->get_name() << " is empty: expected a path\n";
    return 2;
  }
  o.ranks_given = !ranks->empty();
  if (data->empty() && o.describe_path.empty()) {
    std::cerr
        << "zero-train: --data is required, unless the model is only described (--describe)\n";
    return 2;
  }
  if (o.quiet && o.verbose) {
    std::cerr << "zero-train: --quiet and --verbose contradict each other\n";
    return 2;
  }
  return std::nullopt;
}

void take_ranks(const zero::Launch& launch, Options& options) {
  if (launch.world_size == 1) return;
  if (options.ranks_given && options.ranks != launch.world_size) {
    throw zero::ConfigError("--ranks is " + std::to_string(options.ranks) + ", and " +
                            std::to_string(launch.world_size) +
                            " processes were started, each of them a rank: leave it out");
  }
  options.ranks = launch.world_size;
}

Setup resolve(const Options& options) {
  const zero::Facts facts = facts_of(options);
  Setup setup{options,
              options.config_path.empty()
                  ? zero::Config::parse(kDefaultConfig, "built-in config", facts)
                  : zero::Config::load(options.config_path, facts),
              options.shape, zero::DType::kFloat32};
  zero::Config& config = setup.config;
  // Before the assignments, so that they do not meet what the flag overrides; and after them, since
  // one may have replaced a section.
  const auto flag_dtype = [&] {
    if (options.dtype) apply_dtype(config, zero::dtype_from_name(*options.dtype).value());
  };
  flag_dtype();
  for (const std::string& assignment : options.sets) {
    if (options.dtype) check_against_dtype(config, assignment, *options.dtype);
    apply_set(config, assignment);
  }
  flag_dtype();
  if (options.stage) config.set("zero_optimization.stage", std::to_string(*options.stage));
  if (options.micro_batch) {
    config.set("train_micro_batch_size_per_gpu", std::to_string(*options.micro_batch));
  }
  if (options.accumulation) {
    config.set("gradient_accumulation_steps", std::to_string(*options.accumulation));
  }
  setup.dtype = precision::dtype_of(config);
  // What the parameters are, where neither the file nor a flag says it.
  if (facts.dtype && !options.dtype && setup.dtype == zero::DType::kFloat32) {
    setup.dtype = *facts.dtype;
  }

  // With a total in the file the micro-batch follows from it; else the model's own default stands.
  std::optional<std::int64_t> own;
  if (!config.train_batch_size && !config.micro_batch_size && !facts.micro_batch) {
    own = options.shape.micro_batch;
  }
  config.resolve_batch(options.ranks, own);
  if (config.micro_batch_size.value() > (1 << 30)) {
    throw zero::ConfigError("train_micro_batch_size_per_gpu is " +
                            std::to_string(*config.micro_batch_size) + ", at most 2^30 here");
  }
  setup.shape.micro_batch = static_cast<int>(*config.micro_batch_size);
  gpt::check_shape(setup.shape);
  return setup;
}

}  // namespace train
