// The command line of zero-train, and what follows from it and the configuration file together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/gpt.hpp"
#include "zero/config.hpp"
#include "zero/dtype.hpp"
#include "zero/world.hpp"

namespace train {

struct Options {
  std::string config_path;  // empty: the built-in configuration
  std::vector<std::string> data;
  int ranks = 2;
  bool ranks_given = false;
  std::int64_t steps = 500;
  std::uint64_t seed = 1;
  gpt::Shape shape;  // micro_batch is settled by resolve()
  std::optional<std::int64_t> micro_batch;
  std::optional<std::int64_t> accumulation;
  std::optional<std::string> dtype;
  std::optional<int> stage;
  std::vector<std::string> sets;   // json.path=value
  std::vector<std::string> facts;  // key=value
  std::string json_path;           // empty: none; "-": standard output
  std::string describe_path;       // the same; if given, nothing is trained
  std::string save_dir;            // empty: nothing is saved
  std::int64_t save_every = 0;     // 0: only after the last step
  std::int64_t keep = 0;           // 0: all
  bool save_async = false;
  std::string resume;  // a checkpoint, or a folder of them; empty: from the start
  bool quiet = false;
  bool verbose = false;
};

// What a run needs, all of it checked.
struct Setup {
  Options options;
  zero::Config config;  // batch triple settled
  gpt::Shape shape;
  zero::DType dtype = zero::DType::kFloat32;
};

// The configuration used where none is given.
extern const char* const kDefaultConfig;

// An exit code if the program is to end here (after --help, or a message about a bad flag).
std::optional<int> parse_command_line(int argc, const char* const* argv, Options& options);

// In a job of several processes each is a rank. Throws zero::ConfigError where --ranks says another
// number.
void take_ranks(const zero::Launch& launch, Options& options);

// Flags override the file. Throws zero::ConfigError, or std::invalid_argument for a shape that does
// not fit.
Setup resolve(const Options& options);

}  // namespace train
