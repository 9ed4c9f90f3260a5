// The kernels beside the ceiling of their own memory traffic, measured in the same rounds.
//
//   bench_ratios [--quick] [--elems N] [--seconds S] [--only NAME]      (see --help)
//
// Exit status: 0, whatever the ratios are; a table row says MISSED below a target.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "bench/bench_memory.hpp"
#include "bench/ceilings.hpp"
#include "bench/command_line.hpp"
#include "bench/interleaved.hpp"

namespace zero::bench {
namespace {

struct Options {
  std::int64_t elems = std::int64_t{1} << 25;  // arrays well beyond any cache
  int rounds = 15;
  double seconds = 20;  // per table
  std::string only;
};

// Buffers of `elems` elements, shared by all tables.
struct Arrays {
  explicit Arrays(std::int64_t n)
      : elems(n),
        p(memory.get<float>(n)),
        m(memory.get<float>(n)),
        v(memory.get<float>(n)),
        g(memory.get<float>(n)),
        g16(memory.get<bf16>(n)),
        p16(memory.get<bf16>(n)) {
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < n; ++i) {
      state = state * 1664525u + 1013904223u;
      const float x = 1e-4f + static_cast<float>(state >> 8) * 1e-3f / 16777216;
      p[i] = 0.1f + x;
      m[i] = 1e-4f;
      v[i] = 1e-6f;
      g[i] = x;
      g16[i] = from_float<bf16>(x);
      p16[i] = from_float<bf16>(0.1f);
    }
  }

  HugePages memory;
  std::int64_t elems;
  float *p, *m, *v, *g;
  bf16 *g16, *p16;
};

struct Part {
  std::int64_t begin, elems;
};
Part part(std::int64_t elems, int thread, int threads) {
  const std::int64_t step = elems / threads / 1024 * 1024;
  const std::int64_t begin = thread * step;
  return {begin, (thread + 1 == threads ? elems : begin + step) - begin};
}

constexpr kernels::UpdateSettings kSettings{
    kernels::UpdateConstants::Rule::kAdamDecoupled, 1e-3, 0.9, 0.999, 1e-8, 0.01, true, 10, 1.0};

class Tables {
 public:
  Tables(const Options& options, int threads)
      : options_(options), threads_(threads), a_(options.elems) {}

  // A table of its own for each, so that kernel and ceiling find the same traces in the caches.
  void adam_fp32() {
    Interleaved run = table();
    const double bytes = 28 * static_cast<double>(a_.elems);
    add(run, "adam fp32 ceiling", bytes, "", 0, [this](Part r) {
      adam_ceiling(a_.p + r.begin, a_.m + r.begin, a_.v + r.begin, a_.g + r.begin, r.elems);
    });
    add(run, "adam fp32", bytes, "adam fp32 ceiling", 0.95, [this](Part r) {
      update(r, {a_.g + r.begin, DType::kFloat32, r.elems}, nullptr);
    });
    finish(run, "Adam, all fp32");
  }

  void adam_mixed() {
    Interleaved run = table();
    const double bytes = 28 * static_cast<double>(a_.elems);
    add(run, "adam mixed ceiling", bytes, "", 0, [this](Part r) {
      adam_mixed_ceiling(a_.p + r.begin, a_.m + r.begin, a_.v + r.begin, a_.g16 + r.begin,
                         a_.p16 + r.begin, r.elems);
    });
    add(run, "adam bf16, fp32 master", bytes, "adam mixed ceiling", 0.90, [this](Part r) {
      update(r, {a_.g16 + r.begin, DType::kBFloat16, r.elems}, a_.p16 + r.begin);
    });
    finish(run, "Adam, bf16 gradients and parameters, fp32 master");
  }

  void elementwise() {
    Interleaved run = table();
    const double n = static_cast<double>(a_.elems);
    add(run, "read 4 write 2, streamed", 6 * n, "", 0, [this](Part r) {
      mix_ceiling<2, 0, 1, true>(a_.g + r.begin, nullptr, a_.p16 + r.begin, r.elems / 32);
    });
    add(run, "read 2 write 4, streamed", 6 * n, "", 0, [this](Part r) {
      mix_ceiling<1, 0, 2, true>(a_.g16 + r.begin, nullptr, a_.m + r.begin, r.elems / 32);
    });
    add(run, "cast fp32 -> bf16", 6 * n, "read 4 write 2, streamed", 0, [this](Part r) {
      ImmediateStream stream;
      kernels::cast({a_.p16 + r.begin, DType::kBFloat16, r.elems},
                    {a_.g + r.begin, DType::kFloat32, r.elems}, 1.0f, stream);
    });
    add(run, "cast bf16 -> fp32", 6 * n, "read 2 write 4, streamed", 0, [this](Part r) {
      ImmediateStream stream;
      kernels::cast({a_.m + r.begin, DType::kFloat32, r.elems},
                    {a_.g16 + r.begin, DType::kBFloat16, r.elems}, 1.0f, stream);
    });
    add(run, "memcpy fp32", 8 * n, "", 0, [this](Part r) {
      std::memcpy(a_.m + r.begin, a_.g + r.begin, static_cast<std::size_t>(r.elems) * 4);
    });
    add(run, "copy fp32", 8 * n, "memcpy fp32", 0,
        [this](Part r) { kernels::copy_now(a_.m + r.begin, a_.g + r.begin, r.elems * 4); });
    finish(run, "Cast and copy");
  }

  void slices() {
    Interleaved run = table();
    const double n = static_cast<double>(a_.elems);
    add(run, "read 2 streams write 1, streamed", 12 * n, "", 0, [this](Part r) {
      mix_ceiling<1, 1, 1, true>(a_.p + r.begin, a_.g + r.begin, a_.m + r.begin, r.elems / 16);
    });
    add(run, "read 2 streams write 1", 12 * n, "", 0, [this](Part r) {
      mix_ceiling<1, 1, 1, false>(a_.p + r.begin, a_.g + r.begin, a_.m + r.begin, r.elems / 16);
    });
    const std::string ceiling = "read 2 streams write 1, streamed";
    add(run, "sum 2 slices fp32", 12 * n, ceiling, 0, [this](Part r) {
      sum({a_.p + r.begin, a_.g + r.begin}, DType::kFloat32, a_.m + r.begin, r.elems);
    });
    add(run, "sum 2 slices bf16", 6 * n, ceiling, 0, [this](Part r) {
      sum({a_.p + r.begin, a_.g + r.begin}, DType::kBFloat16, a_.m + r.begin, r.elems);
    });
    finish(run, "Sum of slices");
  }

  void norm() {
    Interleaved run = table();
    const double n = static_cast<double>(a_.elems);
    add(run, "read", 4 * n, "", 0, [this](Part r) {
      mix_ceiling<1, 0, 0, false>(a_.g + r.begin, nullptr, nullptr, r.elems / 16);
    });
    add(run, "grad_stats fp32", 4 * n, "read", 0, [this](Part r) {
      stats({a_.g + r.begin, DType::kFloat32, r.elems});
    });
    add(run, "grad_stats bf16", 2 * n, "read", 0, [this](Part r) {
      stats({a_.g16 + r.begin, DType::kBFloat16, r.elems});
    });
    finish(run, "Exact sum of squares");
  }

 private:
  Interleaved table() const { return {threads_, options_.rounds, options_.seconds}; }

  template <class Work>
  void add(Interleaved& run, const std::string& name, double bytes, const std::string& reference,
           double target, Work work) {
    run.add(name, bytes, static_cast<double>(a_.elems), reference, target,
            [this, work](int thread) { work(part(a_.elems, thread, threads_)); });
  }

  void finish(Interleaved& run, const std::string& title) const {
    run.run();
    run.print(title + ", " + std::to_string(threads_) + " thread(s), " + std::to_string(a_.elems) +
              " elements");
  }

  void update(Part r, kernels::ConstView grad, void* params) {
    ImmediateStream stream;
    kernels::update(
        {a_.p + r.begin, a_.m + r.begin, a_.v + r.begin, grad, params, DType::kBFloat16},
        kernels::make_update_constants(kSettings), stream);
  }

  static void sum(std::initializer_list<const void*> sources, DType dtype, void* destination,
                  std::int64_t elems) {
    kernels::sum_slices({sources.begin(), sources.size()}, dtype, {&destination, 1}, dtype, elems,
                        2.0f, false, kernels::SumOrder::kSequential);
  }

  static void stats(kernels::ConstView grad) {
    ImmediateStream stream;
    kernels::GradStats result;
    std::uint64_t bad = kernels::kNoBadParam;
    kernels::grad_stats(grad, {}, 0, 0, &result, &bad, stream);
    if (!result.finite()) std::abort();
  }

  const Options& options_;
  const int threads_;
  Arrays a_;
};

int run(int argc, char** argv) {
  Options options;
  bool quick = false;
  CLI::App app("Kernels beside the ceiling of their own memory traffic, on one thread and on two.",
               "bench_ratios");
  set_defaults(app);
  app.add_flag(
         "--quick", quick,
         "2^20 elements and 0.5 seconds where not given, few rounds: whether it runs, not how "
         "fast")
      ->disable_flag_override();
  add_whole(app, "--elems", options.elems, std::int64_t{1024}, std::int64_t{1} << 32,
            "elements of every array, rounded down to a multiple of 1024")
      ->type_name("N");
  add_seconds(app, options.seconds, "at most so long per table");
  app.add_option("--only", options.only, "one group of tables; without it: all")
      ->type_name("NAME")
      ->check(CLI::IsMember({"adam", "elementwise", "slices", "norm"}));
  if (const std::optional<int> code = parse(app, argc, argv)) return *code;
  if (quick) {
    options.rounds = 3;
    if (app.count("--elems") == 0) options.elems = std::int64_t{1} << 20;
    if (app.count("--seconds") == 0) options.seconds = 0.5;
  }
  options.elems = options.elems / 1024 * 1024;
  const auto wanted = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  for (int threads : {1, 2}) {
    Tables tables(options, threads);
    if (wanted("adam")) {
      tables.adam_fp32();
      tables.adam_mixed();
    }
    if (wanted("elementwise")) tables.elementwise();
    if (wanted("slices")) tables.slices();
    if (wanted("norm")) tables.norm();
  }
  return 0;
}

}  // namespace
}  // namespace zero::bench

int main(int argc, char** argv) { return zero::bench::run(argc, argv); }
