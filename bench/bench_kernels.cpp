// The kernels by size, instruction set and dtype, with the bytes they read and write.
//
// For ratios to what memory allows see bench_ratios: they need interleaved rounds.
#include <benchmark/benchmark.h>

#include <vector>

#include "bench/bench_memory.hpp"
#include "kernels/kernels.hpp"

namespace zero::bench {
namespace {

using kernels::Isa;

// Selects the instruction set of the benchmark's first argument; false where there is none.
bool select_isa(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  if (isa > kernels::best_isa()) {
    state.SkipWithError("not on this machine");
    return false;
  }
  kernels::set_active_isa(isa);
  return true;
}

void count(benchmark::State& state, std::int64_t elems, std::int64_t bytes_per_elem) {
  kernels::set_active_isa(kernels::best_isa());
  state.SetItemsProcessed(state.iterations() * elems);
  state.SetBytesProcessed(state.iterations() * elems * bytes_per_elem);
}

template <class G>
void update(benchmark::State& state) {
  if (!select_isa(state)) return;
  const std::int64_t elems = state.range(1);
  HugePages memory;
  float* const master = memory.get<float>(elems);
  float* const exp_avg = memory.get<float>(elems);
  float* const exp_avg_sq = memory.get<float>(elems);
  G* const grad = memory.get<G>(elems);
  for (std::int64_t i = 0; i < elems; ++i) grad[i] = from_float<G>(0.01f);
  constexpr bool kMixed = sizeof(G) == 2;
  G* const params = kMixed ? memory.get<G>(elems) : nullptr;
  const auto constants = kernels::make_update_constants(
      {kernels::UpdateConstants::Rule::kAdamDecoupled, 1e-3, 0.9, 0.999, 1e-8, 0.01, true, 10, 1});
  ImmediateStream stream;
  for (auto _ : state) {
    kernels::update(
        {master, exp_avg, exp_avg_sq, {grad, *kDTypeOf<G>, elems}, params, *kDTypeOf<G>}, constants,
        stream);
  }
  count(state, elems, 28);  // six of 4 bytes and the gradient, or with two of 2 bytes
}

template <class S, class D>
void cast(benchmark::State& state) {
  if (!select_isa(state)) return;
  const std::int64_t elems = state.range(1);
  HugePages memory;
  S* const from = memory.get<S>(elems);
  D* const to = memory.get<D>(elems);
  ImmediateStream stream;
  for (auto _ : state) {
    kernels::cast({to, *kDTypeOf<D>, elems}, {from, *kDTypeOf<S>, elems}, 3.0f, stream);
  }
  count(state, elems, sizeof(S) + sizeof(D));
}

// The third argument is the number of sources.
template <class T>
void sum_slices(benchmark::State& state) {
  if (!select_isa(state)) return;
  const std::int64_t elems = state.range(1), sources = state.range(2);
  HugePages memory;
  std::vector<const void*> slices;
  for (std::int64_t s = 0; s < sources; ++s) slices.push_back(memory.get<T>(elems));
  void* const destination = memory.get<T>(elems);
  for (auto _ : state) {
    kernels::sum_slices(slices, *kDTypeOf<T>, {&destination, 1}, *kDTypeOf<T>, elems,
                        static_cast<float>(sources), false, kernels::SumOrder::kSequential);
  }
  count(state, elems, (sources + 1) * static_cast<std::int64_t>(sizeof(T)));
}

template <class T>
void norm(benchmark::State& state) {
  if (!select_isa(state)) return;
  const std::int64_t elems = state.range(1);
  HugePages memory;
  T* const grad = memory.get<T>(elems);
  std::uint32_t random = 1;
  for (std::int64_t i = 0; i < elems; ++i) {
    random = random * 1664525u + 1013904223u;
    grad[i] = from_float<T>(static_cast<float>(random >> 8) * 1e-9f);
  }
  ImmediateStream stream;
  for (auto _ : state) {
    kernels::GradStats stats;
    std::uint64_t bad = kernels::kNoBadParam;
    kernels::grad_stats({grad, *kDTypeOf<T>, elems}, {}, 0, 0, &stats, &bad, stream);
    benchmark::DoNotOptimize(stats);
  }
  count(state, elems, sizeof(T));
}

// In the second-level cache, and in memory.
constexpr std::int64_t kSmall = 32 << 10, kLarge = 8 << 20;

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"isa", "elems"})->Unit(benchmark::kMicrosecond);
  for (const auto isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    for (const std::int64_t elems : {kSmall, kLarge}) b->Args({static_cast<int>(isa), elems});
  }
}

void sizes_and_sources(benchmark::internal::Benchmark* b) {
  b->ArgNames({"isa", "elems", "sources"})->Unit(benchmark::kMicrosecond);
  for (const auto isa : {Isa::kAvx2, Isa::kAvx512}) {
    for (const std::int64_t sources : {2, 8, 64}) {
      for (const std::int64_t elems : {kSmall, kLarge / 8}) {
        b->Args({static_cast<int>(isa), elems, sources});
      }
    }
  }
}

BENCHMARK_TEMPLATE(update, float)->Apply(sizes);
BENCHMARK_TEMPLATE(update, bf16)->Apply(sizes);
BENCHMARK_TEMPLATE(cast, float, bf16)->Apply(sizes);
BENCHMARK_TEMPLATE(cast, bf16, float)->Apply(sizes);
BENCHMARK_TEMPLATE(cast, float, fp16)->Apply(sizes);
BENCHMARK_TEMPLATE(norm, float)->Apply(sizes);
BENCHMARK_TEMPLATE(norm, bf16)->Apply(sizes);
BENCHMARK_TEMPLATE(sum_slices, float)->Apply(sizes_and_sources);
BENCHMARK_TEMPLATE(sum_slices, bf16)->Apply(sizes_and_sources);

}  // namespace
}  // namespace zero::bench

BENCHMARK_MAIN();
