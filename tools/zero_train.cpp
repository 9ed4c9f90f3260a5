// zero-train: trains the reference GPT under ZeRO, ranks as threads of this process or as
// processes.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>

#include "tools/train_data.hpp"
#include "tools/train_model.hpp"
#include "tools/train_options.hpp"
#include "tools/train_report.hpp"
#include "tools/train_run.hpp"
#include "tools/train_signal.hpp"
#include "zero/error.hpp"
#include "zero/world.hpp"

namespace {

constexpr int kUsageError = 2;
constexpr int kRunFailed = 1;

int complain(const std::exception& error, int code, const zero::Launch& launch) {
  // In one piece, since processes share the terminal.
  const std::string who =
      launch.world_size > 1 ? zero::detail::concat("rank ", launch.rank, ": ") : std::string();
  std::cerr << "zero-train: " + who + error.what() + '\n';
  return code;
}

void show_config(const zero::Config& config, const train::Options& options) {
  if (options.quiet) return;
  for (const zero::Remark& warning : config.warnings()) {
    std::cerr << "warning: " << to_string(warning) << '\n';
  }
  for (const zero::Remark& note : config.notes()) std::cerr << "note: " << to_string(note) << '\n';
}

// No weights and no activations are made: the model is registered on a device without memory.
int describe(const train::Setup& setup) {
  zero::World world = zero::World::meta(0, setup.options.ranks);
  const train::WrappedModel model(setup.shape, setup.dtype, 1, setup.config, world);
  const std::string text = model.optimizer().shape().to_json() + "\n";
  const std::string& path = setup.options.describe_path;
  if (path == "-") {
    std::cout << text;
    return 0;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("--describe " + path + ": cannot be written");
  return 0;
}

// The one rank that this process is.
int train_as_process(const train::Setup& setup, const train::Corpus& corpus,
                     const zero::RunOptions& run, const std::atomic<int>& signal,
                     train::JsonLines& json) {
  zero::World world = zero::World::from_environment({.timeout = run.timeout});
  try {
    return train::run_rank(setup, corpus, world, signal, json);
  } catch (const std::exception& error) {
    world.communicator().abort(
        zero::detail::concat("rank ", world.rank(), " ended with an error: ", error.what()));
    throw;
  }
}

int train_all(const train::Setup& setup, const train::Corpus& corpus, train::JsonLines& json,
              const zero::Launch& launch) {
  const train::SignalWatcher signals;
  zero::RunOptions run;
  if (const auto timeout_s = setup.config.runtime.timeout_s) {
    run.timeout = std::chrono::duration<double>(*timeout_s);
  }
  int signal = 0;
  if (launch.world_size > 1) {
    signal = train_as_process(setup, corpus, run, signals.received(), json);
    return signal == 0 ? 0 : 128 + signal;
  }
  zero::run_ranks(
      setup.options.ranks,
      [&](zero::World& world) {
        const int told = train::run_rank(setup, corpus, world, signals.received(), json);
        if (world.rank() == 0) signal = told;
      },
      run);
  return signal == 0 ? 0 : 128 + signal;
}

int run(int argc, char** argv) {
  train::Options options;
  if (const auto code = train::parse_command_line(argc, argv, options)) return *code;
  zero::Launch launch;
  try {
    launch = zero::find_launch();
    train::take_ranks(launch, options);
    const train::Setup setup = train::resolve(options);
    if (!options.describe_path.empty()) {
      try {
        if (launch.rank != 0) return 0;
        return describe(setup);
      } catch (const std::bad_alloc&) {
        return complain(train::no_memory(setup), kRunFailed, launch);
      } catch (const std::length_error&) {  // beyond what a vector may hold at all
        return complain(train::no_memory(setup), kRunFailed, launch);
      }
    }
    const train::Corpus corpus = train::Corpus::load(options.data);
    corpus.check_context(setup.shape.context);
    train::JsonLines json(launch.rank == 0 ? options.json_path : std::string());
    if (launch.rank == 0) show_config(setup.config, options);
    try {
      return train_all(setup, corpus, json, launch);
    } catch (const zero::ConfigError& error) {  // what only shows against the registered model
      return complain(error, kUsageError, launch);
    } catch (const std::exception& error) {
      return complain(error, kRunFailed, launch);
    }
  } catch (const std::exception& error) {
    return complain(error, kUsageError, launch);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
  std::fputs("zero-train: not everything could be written to standard output\n", stderr);
  return code == 0 ? kRunFailed : code;
}
