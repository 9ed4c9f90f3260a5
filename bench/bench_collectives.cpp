// The collectives of the thread communicator beside the memcpy limit, measured in the same rounds.
//
//   bench_collectives [--quick] [--ranks N] [--mib N] [--seconds S]      (see --help)
//
// The limit: every rank copies, at the same time, as many bytes as an optimal algorithm must bring
// to it: (N-1)/N of the buffer, and twice that for an all-reduce. Before each timed operation the
// ranks write their buffers, as a backward pass would.
#include <memory>

#include "bench/arguments.hpp"
#include "bench/bench_memory.hpp"
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

constexpr const char* kUsage =
    "usage: bench_collectives [--quick] [--ranks N] [--mib N] [--seconds S]\n"
    "Collectives of the thread communicator beside the memcpy limit.\n"
    "  --quick      4 MiB, few rounds: whether it runs, not how fast\n"
    "  --ranks N    threads, at least 2 (default 2)\n"
    "  --mib N      buffer of every rank, MiB (default 64)\n"
    "  --seconds S  at most so long (default 30)\n";

int run(int argc, char** argv) {
  Options options;
  Arguments arguments(argc, argv, "bench_collectives", kUsage);
  while (arguments.next()) {
    if (arguments.is("--quick")) {
      options.bytes = std::int64_t{4} << 20;
      options.rounds = 3;
      options.seconds = 0.5;
    } else if (arguments.is("--ranks")) {
      options.ranks = static_cast<int>(arguments.whole(2, 4096));
    } else if (arguments.is("--mib")) {
      options.bytes = arguments.whole(1, std::int64_t{1} << 20) << 20;
    } else if (arguments.is("--seconds")) {
      options.seconds = arguments.seconds();
    } else {
      arguments.refuse_unknown();
    }
  }
  Collectives(options).measure();
  return 0;
}

}  // namespace
}  // namespace zero::bench

int main(int argc, char** argv) { return zero::bench::run(argc, argv); }
