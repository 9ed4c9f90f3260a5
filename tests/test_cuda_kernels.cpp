// The kernels on CUDA give the bits of the host's, at every size, alignment and type.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cuda_kernels.hpp"
#include "tests/cuda_fixtures.hpp"
#include "tests/kernel_fixtures.hpp"

namespace zero {
namespace {

using kernels::Random;
using kernels::UpdateConstants;
using test::OnCuda;
using test::OnDevice;
using Rule = UpdateConstants::Rule;

constexpr std::size_t kSizes[] = {0, 1, 7, 8, 9, 31, 255, 256, 257, 2047, 2048, 2049, 5003};

template <class T>
std::vector<T> numbers(std::size_t count, std::uint32_t seed, float scale = 1.0f) {
  Random random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = from_float<T>(random.uniform() * scale);
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class G, class P, bool kHasParams>
void expect_update_parity(Device& device, std::size_t count, std::size_t offset) {
  kernels::ImmediateStream host;
  for (const Rule rule : {Rule::kAdamDecoupled, Rule::kAdamL2, Rule::kSgd}) {
    std::vector<float> master = numbers<float>(count, 1);
    std::vector<float> exp_avg = numbers<float>(count, 2, 1e-2f);
    std::vector<float> exp_avg_sq = numbers<float>(count, 3, 1e-4f);
    for (float& value : exp_avg_sq) value = value < 0 ? -value : value;
    const std::vector<G> grad = numbers<G>(count, 4);
    std::vector<P> params(count);
    const OnDevice<float> d_master(device, master, offset), d_avg(device, exp_avg, offset),
        d_avg_sq(device, exp_avg_sq, offset);
    const OnDevice<G> d_grad(device, grad, offset);
    const OnDevice<P> d_params(device, params, offset);
    const UpdateConstants constants =
        kernels::make_update_constants({rule, 1e-2, 0.9, 0.95, 1e-6, 0.1, true, 3, 0.37});
    const auto elems = static_cast<std::int64_t>(count);
    kernels::update({master.data(),
                     exp_avg.data(),
                     exp_avg_sq.data(),
                     {grad.data(), *kDTypeOf<G>, elems},
                     kHasParams ? params.data() : nullptr,
                     *kDTypeOf<P>},
                    constants, host);
    kernels::update({d_master.data(),
                     d_avg.data(),
                     d_avg_sq.data(),
                     {d_grad.data(), *kDTypeOf<G>, elems},
                     kHasParams ? d_params.data() : nullptr,
                     *kDTypeOf<P>},
                    constants, device.caller_stream());
    EXPECT_TRUE(same_bits(d_master.read(), master)) << count << " at " << offset;
    EXPECT_TRUE(same_bits(d_avg.read(), exp_avg)) << count << " at " << offset;
    EXPECT_TRUE(same_bits(d_avg_sq.read(), exp_avg_sq)) << count << " at " << offset;
    EXPECT_TRUE(same_bits(d_params.read(), params)) << count << " at " << offset;
  }
}

using CudaKernels = OnCuda;

TEST_F(CudaKernels, UpdatesHaveTheBitsOfTheHost) {
  for (const std::size_t count : kSizes) {
    for (const std::size_t offset : {0, 3, 8}) {
      expect_update_parity<float, float, false>(*device, count, offset);
      expect_update_parity<bf16, bf16, true>(*device, count, offset);
      expect_update_parity<fp16, fp16, true>(*device, count, offset);
      expect_update_parity<float, bf16, true>(*device, count, offset);
    }
  }
}

template <class S, class D>
void expect_sum_parity(Device& device, std::size_t count, std::size_t ranks, std::size_t offset) {
  std::vector<std::vector<S>> slices;
  std::vector<std::unique_ptr<OnDevice<S>>> d_slices;
  std::vector<const void*> sources, d_sources;
  for (std::size_t r = 0; r < ranks; ++r) {
    slices.push_back(numbers<S>(count, static_cast<std::uint32_t>(10 + r)));
    d_slices.push_back(std::make_unique<OnDevice<S>>(device, slices.back(), offset));
    d_sources.push_back(d_slices.back()->data());
  }
  for (const auto& slice : slices) sources.push_back(slice.data());
  for (const float divisor : {1.0f, 4.0f, 3.0f}) {
    for (const bool accumulate : {false, true}) {
      for (const auto order : {kernels::SumOrder::kSequential, kernels::SumOrder::kTree}) {
        if (order == kernels::SumOrder::kTree && (ranks & (ranks - 1)) != 0) continue;
        std::vector<D> sum = numbers<D>(count, 99);
        const OnDevice<D> d_sum(device, sum, offset), d_copy(device, sum, offset);
        void* destination = sum.data();
        void* d_destinations[] = {d_sum.data(), d_copy.data()};
        const auto elems = static_cast<std::int64_t>(count);
        kernels::sum_slices(sources, *kDTypeOf<S>, {&destination, 1}, *kDTypeOf<D>, elems, divisor,
                            accumulate, order);
        if (count > 0) {
          kernels::cuda_kernels()->sum(
              d_sources, *kDTypeOf<S>, std::span<void* const>(d_destinations, 2), *kDTypeOf<D>,
              elems, divisor, accumulate, order, device.caller_stream().native());
        }
        EXPECT_TRUE(same_bits(d_sum.read(), sum)) << count << " of " << ranks << " at " << offset;
        EXPECT_TRUE(same_bits(d_copy.read(), sum)) << count << " of " << ranks << " at " << offset;
      }
    }
  }
}

TEST_F(CudaKernels, SumsHaveTheBitsOfTheHost) {
  for (const std::size_t count : {0u, 1u, 8u, 9u, 2048u, 2057u}) {
    for (const std::size_t ranks : {1u, 2u, 3u, 8u}) {
      for (const std::size_t offset : {0u, 3u}) {
        expect_sum_parity<float, float>(*device, count, ranks, offset);
        expect_sum_parity<bf16, bf16>(*device, count, ranks, offset);
        expect_sum_parity<bf16, float>(*device, count, ranks, offset);
        expect_sum_parity<fp16, fp16>(*device, count, ranks, offset);
      }
    }
  }
}

TEST_F(CudaKernels, CastsAddsAndFills) {
  kernels::ImmediateStream host;
  for (const std::size_t count : kSizes) {
    std::vector<float> wide = numbers<float>(count, 5);
    std::vector<bf16> narrow = numbers<bf16>(count, 6);
    const OnDevice<float> d_wide(*device, wide, 1);
    const OnDevice<bf16> d_narrow(*device, narrow, 2);
    kernels::add(kernels::view(wide), kernels::view(narrow), host);
    kernels::cast(kernels::view(narrow), kernels::view(wide), 3.0f, host);
    kernels::add(d_wide.view(), d_narrow.view(), stream());
    kernels::cast(d_narrow.view(), d_wide.view(), 3.0f, stream());
    EXPECT_TRUE(same_bits(d_wide.read(), wide)) << count;
    EXPECT_TRUE(same_bits(d_narrow.read(), narrow)) << count;
    kernels::fill_bytes(d_wide.data(), 0xab, static_cast<std::int64_t>(4 * count), stream());
    if (count > 0) std::memset(wide.data(), 0xab, 4 * count);
    EXPECT_TRUE(same_bits(d_wide.read(), wide)) << count;
  }
}

template <class G>
void expect_stats_parity(Device& device, std::vector<G> grad) {
  kernels::ImmediateStream host;
  kernels::GradStats stats;
  kernels::grad_stats(kernels::view(grad), &stats, host);
  const OnDevice<G> d_grad(device, grad);
  static_assert(sizeof(kernels::GradStats) % sizeof(float) == 0);
  const OnDevice<float> d_stats(device, std::vector<float>(sizeof(stats) / sizeof(float)));
  const OnDevice<float> d_index(device, std::vector<float>(2));
  const kernels::ConstView view{d_grad.data(), *kDTypeOf<G>,
                                static_cast<std::int64_t>(grad.size())};
  kernels::grad_stats(view, reinterpret_cast<kernels::GradStats*>(d_stats.data()),
                      device.caller_stream());
  kernels::cuda_kernels()->first_nonfinite(view, reinterpret_cast<std::int64_t*>(d_index.data()),
                                           device.caller_stream().native());
  kernels::GradStats found;
  const std::vector<float> raw = d_stats.read();
  std::memcpy(static_cast<void*>(&found), raw.data(), sizeof(found));
  EXPECT_EQ(found.max_abs_bits, stats.max_abs_bits) << grad.size();
  EXPECT_EQ(found.sum_of_squares(), stats.sum_of_squares()) << grad.size();
  std::int64_t index = 0;
  std::memcpy(&index, d_index.read().data(), sizeof(index));
  EXPECT_EQ(index, kernels::first_nonfinite(kernels::view(grad))) << grad.size();
}

TEST_F(CudaKernels, StatisticsAreExact) {
  for (const std::size_t count : {0u, 1u, 255u, 256u, 257u, 65535u, 65536u, 65537u, 140001u}) {
    std::vector<float> grad = numbers<float>(count, 7);
    for (std::size_t i = 0; i < count; ++i) {
      grad[i] *= std::ldexp(1.0f, static_cast<int>(i % 250) - 140);
    }
    expect_stats_parity(*device, grad);
    expect_stats_parity(*device, numbers<bf16>(count, 8));
    expect_stats_parity(*device, numbers<fp16>(count, 9));
    if (count < 255) continue;
    grad[200] = std::numeric_limits<float>::infinity();
    grad[count - 1] = std::numeric_limits<float>::quiet_NaN();
    expect_stats_parity(*device, grad);
  }
}

TEST(Cuda, WithoutADeviceTheErrorSaysSo) {
  std::string why;
  if (test::cuda_device_or_null(&why) != nullptr) {
    EXPECT_THROW(make_cuda_device(1000), CudaError);
    return;
  }
  EXPECT_TRUE(why.find("CUDA") != why.npos) << why;
}

}  // namespace
}  // namespace zero
