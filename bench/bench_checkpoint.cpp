// Saving and loading beside dd on the same disk, and how long training stands still for an
// asynchronous save and for a synchronous one, in interleaved rounds.
//
//   bench_checkpoint --dir DIR [--ranks N] [--mib N] [--seconds S] [--quick]      (see --help)
//
// dd writes zeros and syncs them; what is read was written shortly before and comes from memory.
// Exit status: 0, whatever the figures are; 1 if something could not be written or read.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/command_line.hpp"
#include "bench/interleaved.hpp"
#include "zero/world.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::bench {
namespace {

struct Options {
  std::string dir;
  int ranks = 2;
  std::int64_t mib = 384;
  double seconds = 60;
  int rounds = 200;
};

// A model of a few equal units, fp32, with Adam: 12 bytes an element are saved.
class Trained {
 public:
  static constexpr std::int64_t kUnits = 4;

  Trained(World& world, std::int64_t elems)
      : pointers_(2 * kUnits),
        optimizer_(Config::parse(R"({"train_micro_batch_size_per_gpu": 1,
                     "zero_optimization": {"stage": 1}})"),
                   world) {
    for (std::int64_t u = 0; u < kUnits; ++u) {
      ParamSpec spec;
      spec.name = "w" + std::to_string(u);
      spec.shape = {elems / kUnits};
      spec.data = &pointers_[static_cast<std::size_t>(2 * u)];
      spec.grad = &pointers_[static_cast<std::size_t>(2 * u + 1)];
      spec.init = [u](std::span<std::byte> bytes) {
        const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4);
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<float>(i * 2654435761u + static_cast<std::size_t>(u));
        }
      };
      optimizer_.add_unit("unit " + std::to_string(u), {std::move(spec)});
    }
    optimizer_.prepare();
  }

  ZeroOptimizer& operator*() { return optimizer_; }

 private:
  std::vector<float*> pointers_;  // outlive the optimizer
  ZeroOptimizer optimizer_;
};

void dd(const std::string& arguments) {
  const std::string command = "dd bs=1M status=none " + arguments;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

std::string in_shell(const std::string& path) {
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

class Checkpoints {
 public:
  explicit Checkpoints(const Options& options)
      : options_(options), run_(options.ranks, options.rounds, options.seconds) {
    const std::string file = in_shell(options.dir + "/dd");
    const std::string root = options.dir + "/checkpoints";
    const auto count = std::to_string(options.mib);
    const auto alone = [](const std::function<void()>& work) {
      return [work](int rank) {
        if (rank == 0) work();
      };
    };
    add("dd, synced", "",
        alone([=] { dd("if=/dev/zero of=" + file + " conv=fsync count=" + count); }));
    add("save", "dd, synced", [=, this](int rank) { optimizer(rank).save(root, 0, {.keep = 1}); });
    add("save async: training stands still", "save",
        [=, this](int rank) { optimizer(rank).save(root, 0, {.keep = 1, .async = true}); });
    add("save async: to its end", "save", [=, this](int rank) {
      optimizer(rank).save(root, 0, {.keep = 1, .async = true});
      optimizer(rank).wait_for_save();
    });
    add("dd, reading", "", alone([=] { dd("if=" + file + " of=/dev/null"); }));
    add("load", "dd, reading", [=, this](int rank) { optimizer(rank).load(root); });
  }

  void measure() {
    trained_.resize(static_cast<std::size_t>(options_.ranks));
    run_ranks(options_.ranks, [&](World& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      trained_[rank] = std::make_unique<Trained>(world, (options_.mib << 20) / 12);
      optimizer(world.rank()).wait_for_save();  // every rank's is there
      run_.run(world.rank());
      trained_[rank].reset();
    });
    run_.print(std::to_string(options_.ranks) + " ranks, " + std::to_string(options_.mib) +
               " MiB of state in " + options_.dir);
  }

 private:
  ZeroOptimizer& optimizer(int rank) { return **trained_[static_cast<std::size_t>(rank)]; }

  void add(const std::string& name, const std::string& reference, Interleaved::Body body) {
    const double bytes = static_cast<double>(options_.mib) * (1 << 20);
    run_.add(name, bytes, bytes / 12, reference, 0, std::move(body),
             [this](int rank) { optimizer(rank).wait_for_save(); });
  }

  const Options options_;
  std::vector<std::unique_ptr<Trained>> trained_;
  Interleaved run_;
};

int run(int argc, char** argv) {
  Options options;
  bool quick = false;
  CLI::App app("Saving and loading checkpoints beside dd on the same disk.", "bench_checkpoint");
  set_defaults(app);
  app.add_flag("--quick", quick,
               "4 MiB and 0.5 seconds where not given, few rounds: whether it runs, not how fast")
      ->disable_flag_override();
  app.add_option("--dir", options.dir,
                 "an existing folder; one of its own in it is filled and removed")
      ->required()
      ->check(CLI::ExistingDirectory);
  add_whole(app, "--ranks", options.ranks, 1, 4096, "threads")->type_name("N");
  add_whole(app, "--mib", options.mib, std::int64_t{1}, std::int64_t{1} << 20,
            "state of all ranks together, MiB")
      ->type_name("N");
  add_seconds(app, options.seconds, "at most so long");
  if (const std::optional<int> code = parse(app, argc, argv)) return *code;
  if (quick) {
    options.rounds = 3;
    if (app.count("--mib") == 0) options.mib = 4;
    if (app.count("--seconds") == 0) options.seconds = 0.5;
  }
  std::string own = options.dir + "/bench_checkpoint-XXXXXX";
  if (mkdtemp(own.data()) == nullptr) return refuse(app, "--dir " + options.dir + ": not writable");
  options.dir = own;
  int code = 0;
  try {
    Checkpoints(options).measure();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_checkpoint: %s\n", error.what());
    code = 1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(own, ignored);
  return code;
}

}  // namespace
}  // namespace zero::bench

int main(int argc, char** argv) { return zero::bench::run(argc, argv); }
