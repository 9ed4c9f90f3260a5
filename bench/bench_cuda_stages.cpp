// The stages on CUDA devices: time of a step, bytes by the ledger and by the driver, and whether
// all end with the same weights; ranks as threads, ranks through NCCL, and a step replayed from a
// CUDA graph beside the same step issued kernel by kernel.
//
//   bench_cuda_stages [--only threads|nccl|graph] [--elems N] [--units N] ...      (see --help)
//
// Tables go to stdout, nothing else does. Exit status: 0, also where there is no CUDA device; 1 if
// a run failed or ended with other bits than the others; 2 for a wrong command line.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

#include "bench/command_line.hpp"
#include "bench/cuda_graph.hpp"
#include "bench/cuda_stages.hpp"
#include "zero/error.hpp"
#include "zero/nccl.hpp"

namespace zero::bench {
namespace {

constexpr auto kDeadline = std::chrono::seconds(60);  // of a wait among ranks
constexpr int kStages = 4;

void by_threads(int world_size, const std::function<void(World&)>& body) {
  RunOptions options;
  options.timeout = kDeadline;
  options.device = DeviceKind::kCuda;
  run_ranks(world_size, body, options);
}

// Each rank with a communicator of its own, as processes have it; rank r on device r modulo their
// number. Rethrows the error that came first.
void by_nccl(int world_size, const std::function<void(World&)>& body) {
  const NcclId id = make_nccl_id();
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    try {
      World world =
          make_nccl_world(id, rank, world_size, rank % cuda_device_count(), {.timeout = kDeadline});
      body(world);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < world_size; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

// The rows of one world size. Returns how many of them are not as they should be.
int print_stages(const char* ranks_are, const StageOptions& options, int world_size,
                 const Ranks& ranks) {
  constexpr double kMiB = 1 << 20;
  int wrong = 0;
  std::optional<std::uint64_t> expected;  // the first that came through
  for (int stage = 0; stage < kStages; ++stage) {
    std::printf("%-8s %5d %5d ", ranks_are, world_size, stage);
    try {
      const StageRow row = run_stage(options, stage, world_size, ranks);
      if (!expected) expected = row.hash;
      const bool same = row.hash == *expected;
      wrong += !same;
      std::printf("%9.3f %10.2f %10.2f %10.2f %10.2f  %016llx%s\n", row.ms_per_step,
                  static_cast<double>(row.traffic_bytes) / kMiB,
                  static_cast<double>(row.peak_bytes) / kMiB,
                  static_cast<double>(row.peak_bytes_all) / kMiB,
                  static_cast<double>(row.driver_bytes) / kMiB,
                  static_cast<unsigned long long>(row.hash), same ? "" : "  DIFFERENT");
    } catch (const std::exception& error) {
      ++wrong;
      std::printf("FAILED: %s\n", error.what());
    }
    std::fflush(stdout);
  }
  return wrong;
}

void print_head(const StageOptions& options) {
  std::printf(
      "%lld elements in %d units, bf16 with fp32 masters, %d windows of %d steps\n"
      "%-8s %5s %5s %9s %10s %10s %10s %10s  %s\n",
      static_cast<long long>(options.elems), options.units, options.windows, options.steps, "ranks",
      "count", "stage", "ms/step", "moved MiB", "peak MiB", "all ranks", "driver", "state");
}

int print_graphs(const StageOptions& options) {
  int wrong = 0;
  std::printf("%-8s %5s %9s %11s %7s %7s  %s\n", "graph", "stage", "plain ms", "replayed ms",
              "ratio", "nodes", "bits");
  for (int stage = 0; stage < kStages; ++stage) {
    std::printf("%-8s %5d ", "graph", stage);
    try {
      const GraphRow row = run_graph(options, stage);
      wrong += !row.same_bits;
      std::printf("%9.3f %11.3f %7.3f %7zu  %s\n", row.plain_ms, row.replayed_ms,
                  row.replayed_ms / row.plain_ms, row.nodes, row.same_bits ? "same" : "DIFFERENT");
    } catch (const std::exception& error) {
      ++wrong;
      std::printf("FAILED: %s\n", error.what());
    }
    std::fflush(stdout);
  }
  return wrong;
}

int skip(const std::string& what, const std::string& why) {
  std::cout << "bench_cuda_stages: " << what << "skipped: " << why << "\n";
  return 0;
}

int print_nccl(const StageOptions& options, int world_size) {
  try {
    make_nccl_id();
  } catch (const CommError& error) {
    if (std::string(error.what()).find("built without NCCL") == std::string::npos) throw;
    return skip("nccl: ", error.what());
  }
  return print_stages("nccl", options, world_size, by_nccl);
}

int run(int argc, char** argv) {
  StageOptions options;
  std::string only;
  int nccl_ranks = 0;
  CLI::App app(
      "Training at stages 0 to 3 on CUDA devices, of a model that is device memory alone. Columns: "
      "milliseconds of a step, the median over windows; bytes of the model that a rank receives in "
      "a step; peak bytes by the ledger, of the rank with the highest and of all; bytes that the "
      "driver counts beyond those before, without the model's own buffers (NCCL's and other "
      "processes' show too); a hash of masters and moments, which has to be the same at all "
      "stages.\nRanks are 1, "
      "2 and 4 threads, on as many of the devices as there are ranks. Without a CUDA device it "
      "prints why, after \"skipped\", and exits 0.",
      "bench_cuda_stages");
  set_defaults(app);
  app.add_option("--only", only, "one part instead of all")
      ->check(CLI::IsMember({"threads", "nccl", "graph"}))
      ->type_name("PART");
  add_whole(app, "--elems", options.elems, std::int64_t{1}, std::int64_t{1} << 34, "of the model")
      ->type_name("N");
  add_whole(app, "--units", options.units, 1, 10000, "of the model")->type_name("N");
  add_whole(app, "--windows", options.windows, 1, 1000, "of steps; the median counts")
      ->type_name("N");
  add_whole(app, "--steps", options.steps, 1, 64, "of a window")->type_name("N");
  app.add_option("--nccl-ranks", nccl_ranks,
                 "0: one for each CUDA device; NCCL takes no more than that")
      ->check(CLI::Range(0, 256))
      ->type_name("N");
  if (const auto code = parse(app, argc, argv)) return *code;
  if (options.elems < options.units) {
    return refuse(app, "--elems " + std::to_string(options.elems) + ": fewer than --units " +
                           std::to_string(options.units));
  }
  std::vector<std::unique_ptr<Device>> devices;  // what the driver takes for them is taken here
  try {
    do {
      devices.push_back(make_cuda_device(static_cast<int>(devices.size())));
    } while (static_cast<int>(devices.size()) < cuda_device_count());
  } catch (const CudaError& error) {
    return skip("", error.what());
  }
  if (nccl_ranks == 0) nccl_ranks = static_cast<int>(devices.size());

  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  int wrong = 0;
  if (wanted("threads") || wanted("nccl")) {
    // Code that the driver loads at first use shall not count as a run's memory.
    run_stage({.elems = 4096, .units = 4, .windows = 1, .steps = 2}, 3, 2, by_threads);
    print_head(options);
  }
  if (wanted("threads")) {
    for (const int ranks : {1, 2, 4}) wrong += print_stages("threads", options, ranks, by_threads);
  }
  if (wanted("nccl")) wrong += print_nccl(options, nccl_ranks);
  if (wanted("graph")) {
    if (const std::string why = why_no_graphs(); why.empty()) {
      wrong += print_graphs(options);
    } else {
      skip("graph: ", why);
    }
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace zero::bench

int main(int argc, char** argv) {
  try {
    return zero::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_cuda_stages: " << error.what() << "\n";
    return 1;
  }
}
