// What the kernel tests share: a stream that runs at once, and every instruction set in turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace zero::kernels {

// Runs tasks at once and counts them.
class ImmediateStream final : public Stream {
 public:
  explicit ImmediateStream(DeviceKind kind = DeviceKind::kHost) : Stream(kind) {}
  void enqueue(Task task) override {
    ++tasks;
    task();
  }
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}

  int tasks = 0;
};

inline std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= best_isa()) all.push_back(isa);
  }
  return all;
}

inline std::string isa_name(Isa isa) {
  return isa == Isa::kBaseline ? "baseline" : isa == Isa::kAvx2 ? "avx2" : "avx512";
}

// Restores the selection at the end of a test.
class IsaScope {
 public:
  explicit IsaScope(Isa isa) : before_(active_isa()) { set_active_isa(isa); }
  ~IsaScope() { set_active_isa(before_); }
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  Isa before_;
};

// A small generator of reproducible numbers (Numerical Recipes, "quick and dirty").
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed) {}
  std::uint32_t bits() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ ^ (state_ >> 15);
  }
  float uniform() {  // [-1, 1)
    return static_cast<float>(static_cast<std::int32_t>(bits() >> 8)) * 0x1p-23f - 1.0f;
  }

 private:
  std::uint32_t state_;
};

template <class T>
ConstView view(const std::vector<T>& v) {
  return {v.data(), *kDTypeOf<T>, static_cast<std::int64_t>(v.size())};
}
template <class T>
View view(std::vector<T>& v) {
  return {v.data(), *kDTypeOf<T>, static_cast<std::int64_t>(v.size())};
}

}  // namespace zero::kernels
