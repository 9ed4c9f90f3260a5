// The collectives of the thread communicator beside the memcpy limit, measured in the same rounds.
//
//   bench_collectives [--quick] [--ranks N] [--mib N] [--seconds S]      (see --help)
//
// The limit: every rank copies, at the same time, as many bytes as an optimal algorithm must bring
// to it: (N-1)/N of the buffer, and twice that for an all-reduce. Before each timed operation the
// ranks write their buffers, as a backward pass would.
#include <memory>

#include "bench/bench_memory.hpp"
#include "bench/command_line.hpp"
#include "bench/interleaved.hpp"
#include "zero/world.hpp"

namespace zero::bench {
namespace {

struct Options {
  int ranks = 2;
  std::int64_t bytes = std::int64_t{64} << 20;
  int rounds = 15;
  double seconds = 30;
};

// The buffers of one rank.
struct Buffers {
  explicit Buffers(std::int64_t bytes)
      : full(memory.get<char>(bytes)), other(memory.get<char>(bytes)) {}
  HugePages memory;
  char *full, *other;
};

class Collectives {
 public:
  explicit Collectives(const Options& options)
      : options_(options),
        shard_bytes_(options.bytes / options.ranks / 128 * 128),
        worlds_(static_cast<std::size_t>(options.ranks)),
        buffers_(static_cast<std::size_t>(options.ranks)),
        run_(options.ranks, options.rounds, options.seconds) {
    const auto moved = static_cast<double>(shard_bytes_ * (options.ranks - 1) * options.ranks);
    add("memcpy limit", moved, "", 0, [this](int rank) {
      std::memcpy(buffers(rank).other, buffers(rank).full,
                  static_cast<std::size_t>(shard_bytes_ * (options_.ranks - 1)));
    });
    add("all_gather", moved, "memcpy limit", 0.85, [this](int rank) {
      char* const full = buffers(rank).full;
      World& world = *worlds_[static_cast<std::size_t>(rank)];
      world.communicator().all_gather(full + rank * shard_bytes_, full, shard_bytes_ / 4,
                                      DType::kFloat32, {}, world.device().caller_stream());
    });
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const std::string suffix(dtype_name(dtype));
      const std::int64_t elems = shard_bytes_ / static_cast<std::int64_t>(dtype_bytes(dtype));
      add("reduce_scatter " + suffix, moved, "memcpy limit", 0.70, [this, dtype, elems](int rank) {
        World& world = *worlds_[static_cast<std::size_t>(rank)];
        world.communicator().reduce_scatter(buffers(rank).full, dtype, buffers(rank).other, dtype,
                                            elems, reduction(), {}, world.device().caller_stream());
      });
      add("all_reduce " + suffix, 2 * moved, "memcpy limit", 1.20, [this, dtype, elems](int rank) {
        World& world = *worlds_[static_cast<std::size_t>(rank)];
        world.communicator().all_reduce(buffers(rank).full, dtype, elems, reduction(), {},
                                        world.device().caller_stream());
      });
    }
    add("barrier", 1, "", 0, [this](int rank) {
      World& world = *worlds_[static_cast<std::size_t>(rank)];
      world.communicator().barrier({}, world.device().caller_stream());
    });
  }

  void measure() {
    run_ranks(options_.ranks, [this](World& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      worlds_[rank] = &world;
      buffers_[rank] = std::make_unique<Buffers>(shard_bytes_ * options_.ranks);
      run_.run(world.rank());
    });
    run_.print("Collectives of the thread communicator, " + std::to_string(options_.ranks) +
               " ranks, " + std::to_string(options_.bytes) + " bytes per rank");
  }

 private:
  Buffers& buffers(int rank) { return *buffers_[static_cast<std::size_t>(rank)]; }
  Reduction reduction() const { return {static_cast<float>(options_.ranks), false, false}; }

  void add(const std::string& name, double bytes, const std::string& reference, double target,
           Interleaved::Body body) {
    run_.add(name, bytes, bytes / 4, reference, target, std::move(body), [this](int rank) {
      std::memset(buffers(rank).full, 0x3a,
                  static_cast<std::size_t>(shard_bytes_ * options_.ranks));
    });
  }

  const Options options_;
  const std::int64_t shard_bytes_;
  std::vector<World*> worlds_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
  Interleaved run_;
};

int run(int argc, char** argv) {
  Options options;
  bool quick = false;
  std::int64_t mib = options.bytes >> 20;
  CLI::App app("Collectives of the thread communicator beside the memcpy limit.",
               "bench_collectives");
  set_defaults(app);
  app.add_flag("--quick", quick,
               "4 MiB and 0.5 seconds where not given, few rounds: whether it runs, not how fast")
      ->disable_flag_override();
  add_whole(app, "--ranks", options.ranks, 2, 4096, "threads")->type_name("N");
  add_whole(app, "--mib", mib, std::int64_t{1}, std::int64_t{1} << 20, "buffer of every rank, MiB")
      ->type_name("N");
  add_seconds(app, options.seconds, "at most so long");
  if (const std::optional<int> code = parse(app, argc, argv)) return *code;
  if (quick) {
    options.rounds = 3;
    if (app.count("--mib") == 0) mib = 4;
    if (app.count("--seconds") == 0) options.seconds = 0.5;
  }
  options.bytes = mib << 20;
  Collectives(options).measure();
  return 0;
}

}  // namespace
}  // namespace zero::bench

int main(int argc, char** argv) { return zero::bench::run(argc, argv); }
