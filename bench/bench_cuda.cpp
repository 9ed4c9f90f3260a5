// The kernels on a CUDA device: bytes read and written, GB/s, and the share of what a copy within
// the device reaches, which is measured in turns with the kernel.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "bench/command_line.hpp"
#include "kernels/cuda_kernels.hpp"
#include "kernels/kernels.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero::bench {
namespace {

using kernels::UpdateConstants;

constexpr int kRounds = 21;    // of which the median counts
constexpr int kLaunches = 10;  // of a round, before the host waits

class DeviceArray {
 public:
  DeviceArray(Device& device, std::int64_t bytes)
      : device_(device), bytes_(static_cast<std::size_t>(bytes)), data_(device.allocate(bytes_)) {
    kernels::fill_bytes(data_, 0, bytes, device.caller_stream());
  }
  template <class T>
  DeviceArray(Device& device, const std::vector<T>& values)
      : DeviceArray(device, static_cast<std::int64_t>(values.size() * sizeof(T))) {
    kernels::copy(data_, values.data(), static_cast<std::int64_t>(bytes_), device.caller_stream());
    device.caller_stream().synchronize();
  }
  ~DeviceArray() { device_.deallocate(data_, bytes_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  template <class T>
  T* get() const {
    return static_cast<T*>(data_);
  }

 private:
  Device& device_;
  std::size_t bytes_;
  void* data_;
};

// Magnitudes over a few powers of two, as gradients have them.
template <class T>
std::vector<T> gradients(std::int64_t elems) {
  std::vector<T> values(static_cast<std::size_t>(elems));
  std::uint32_t random = 1;
  const auto next = [&random] {
    random = random * 1664525u + 1013904223u;
    return static_cast<float>(random >> 8) * 0x1p-23f - 1.0f;
  };
  for (T& value : values) value = from_float<T>(next() * next() * 1e-3f);
  return values;
}

template <class Body>
double seconds_of(Stream& stream, const Body& body) {
  stream.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < kLaunches; ++k) body();
  stream.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
         kLaunches;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Rounds of the kernel and of a copy that reads and writes as many bytes together.
template <class Body>
void measure(benchmark::State& state, Device& device, std::int64_t bytes, const Body& body) {
  Stream& stream = device.caller_stream();
  const std::int64_t half = bytes / 2;
  const DeviceArray from(device, half), to(device, half);
  const auto copy = [&] { kernels::copy(to.get<void>(), from.get<void>(), half, stream); };
  seconds_of(stream, body);
  seconds_of(stream, copy);
  std::vector<double> kernel_seconds, copy_seconds;
  for (auto _ : state) {
    kernel_seconds.push_back(seconds_of(stream, body));
    copy_seconds.push_back(seconds_of(stream, copy));
    state.SetIterationTime(kernel_seconds.back());
  }
  const double kernel = median(kernel_seconds), copied = median(copy_seconds);
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["us"] = kernel * 1e6;
  state.counters["GB/s"] = static_cast<double>(bytes) / kernel * 1e-9;
  state.counters["copy_GB/s"] = static_cast<double>(2 * half) / copied * 1e-9;
  state.counters["share_of_copy"] =
      static_cast<double>(bytes) / static_cast<double>(2 * half) * copied / kernel;
}

// `G` float: master is the parameter; else 16-bit gradients and parameters beside an fp32 master.
template <class G>
void update_shard(benchmark::State& state, Device& device, std::int64_t elems) {
  constexpr bool kMixed = sizeof(G) == 2;
  const std::int64_t pieces = std::min(state.range(0), elems);
  const DeviceArray master(device, 4 * elems), exp_avg(device, 4 * elems),
      exp_avg_sq(device, 4 * elems), grad(device, gradients<G>(elems)),
      params(device, kMixed ? 2 * elems : 0);
  std::vector<kernels::ShardPiece> table;
  std::vector<UpdateConstants> constants;
  for (std::int64_t k = 0; k < pieces; ++k) {
    table.push_back({elems / pieces * k, k + 1 == pieces ? elems : elems / pieces * (k + 1),
                     static_cast<std::int32_t>(k), 0});
    constants.push_back(kernels::make_update_constants(
        {UpdateConstants::Rule::kAdamDecoupled, 1e-3, 0.9, 0.999, 1e-8, 0.01, true, 10, 1}));
  }
  const DeviceArray d_table(device, table), d_constants(device, constants);
  const kernels::UpdateRange range = {master.get<float>(),
                                      exp_avg.get<float>(),
                                      exp_avg_sq.get<float>(),
                                      {grad.get<G>(), *kDTypeOf<G>, elems},
                                      kMixed ? params.get<G>() : nullptr,
                                      *kDTypeOf<G>};
  measure(state, device, 28 * elems, [&] {
    kernels::update_shard(range, {d_table.get<kernels::ShardPiece>(), pieces},
                          d_constants.get<UpdateConstants>(), UpdateConstants::Rule::kAdamDecoupled,
                          device.caller_stream());
  });
}

template <class T>
void sum_slices(benchmark::State& state, Device& device, std::int64_t elems) {
  const std::int64_t count = state.range(0);
  std::vector<std::unique_ptr<DeviceArray>> slices;
  std::vector<const void*> sources;
  for (std::int64_t s = 0; s < count; ++s) {
    slices.push_back(std::make_unique<DeviceArray>(device, gradients<T>(elems)));
    sources.push_back(slices.back()->template get<void>());
  }
  const DeviceArray sum(device, elems * static_cast<std::int64_t>(sizeof(T)));
  void* const destination = sum.get<void>();
  measure(state, device, (count + 1) * elems * static_cast<std::int64_t>(sizeof(T)), [&] {
    kernels::cuda_kernels()->sum(sources, *kDTypeOf<T>, {&destination, 1}, *kDTypeOf<T>, elems,
                                 static_cast<float>(count), false, kernels::SumOrder::kSequential,
                                 device.caller_stream().native());
  });
}

template <class T>
void grad_stats(benchmark::State& state, Device& device, std::int64_t elems) {
  const DeviceArray grad(device, gradients<T>(elems));
  const DeviceArray stats(device, std::vector<kernels::GradStats>(1));
  const DeviceArray bad(device, std::vector<std::uint64_t>{kernels::kNoBadParam});
  measure(state, device, elems * static_cast<std::int64_t>(sizeof(T)), [&] {
    kernels::grad_stats({grad.get<T>(), *kDTypeOf<T>, elems}, {}, 0, 0,
                        stats.get<kernels::GradStats>(), bad.get<std::uint64_t>(),
                        device.caller_stream());
  });
}

using Bench = void (*)(benchmark::State&, Device&, std::int64_t);

benchmark::internal::Benchmark* add(const char* name, Bench bench, Device& device,
                                    std::int64_t elems) {
  return benchmark::RegisterBenchmark(name,
                                      [bench, &device, elems](benchmark::State& state) {
                                        try {
                                          bench(state, device, elems);
                                        } catch (const OutOfMemory& error) {
                                          state.SkipWithError(error.what());
                                        }
                                      })
      ->UseManualTime()
      ->Iterations(kRounds)
      ->Unit(benchmark::kMicrosecond);
}

int run(int argc, char** argv) {
  std::int64_t elems = std::int64_t{64} << 20;
  CLI::App app("Kernels on a CUDA device beside a copy within it. Each round times " +
                   std::to_string(kLaunches) +
                   " launches by the host's clock, then as many copies of the same bytes; the "
                   "columns after Iterations are medians of " +
                   std::to_string(kRounds) +
                   " rounds.\nWithout a CUDA device it prints why, after \"skipped\", and exits 0. "
                   "Flags of Google Benchmark, --benchmark_filter=REGEX above all, are taken too.",
               "bench_cuda");
  set_defaults(app);
  app.allow_extras();
  add_whole(app, "--elems", elems, std::int64_t{1}, std::int64_t{1} << 34,
            "elements of each array; well past the caches of the device")
      ->type_name("N");
  if (const auto code = parse(app, argc, argv)) return *code;
  std::vector<std::string> rest = app.remaining();
  std::vector<char*> arguments = {argv[0]};
  for (std::string& argument : rest) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  int count = static_cast<int>(arguments.size()) - 1;
  benchmark::Initialize(&count, arguments.data());
  if (count > 1) {
    return refuse(app, std::string("The following argument was not expected: ") + arguments[1] +
                           "\nRun with --help for more information.");
  }
  std::unique_ptr<Device> device;
  try {
    device = make_cuda_device();
  } catch (const CudaError& error) {
    std::cout << "bench_cuda: skipped: " << error.what() << "\n";
    return 0;
  }
  for (const std::int64_t pieces : {1, 1000}) {
    add("update_shard<fp32>", update_shard<float>, *device, elems)->ArgName("pieces")->Arg(pieces);
    add("update_shard<bf16>", update_shard<bf16>, *device, elems)->ArgName("pieces")->Arg(pieces);
  }
  for (const std::int64_t slices : {2, 4, 8}) {
    add("sum_slices<fp32>", sum_slices<float>, *device, elems)->ArgName("slices")->Arg(slices);
    add("sum_slices<bf16>", sum_slices<bf16>, *device, elems)->ArgName("slices")->Arg(slices);
  }
  add("grad_stats<fp32>", grad_stats<float>, *device, elems);
  add("grad_stats<bf16>", grad_stats<bf16>, *device, elems);
  add("grad_stats<fp16>", grad_stats<fp16>, *device, elems);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace zero::bench

int main(int argc, char** argv) {
  try {
    return zero::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_cuda: " << error.what() << "\n";
    return 1;
  }
}
