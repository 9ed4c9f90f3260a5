// The kernels on CUDA give the bits of the host's, at every size, alignment and type.
#include <cstring>

#include "kernels/cuda_kernels.hpp"
#include "tests/cuda_fixtures.hpp"
#include "tests/shard_fixtures.hpp"

namespace zero {
namespace {

using kernels::numbers;
using kernels::same_bits;
using test::OnCuda;
using test::OnDevice;

constexpr std::size_t kSizes[] = {0, 1, 7, 8, 9, 31, 255, 256, 257, 2047, 2048, 2049, 5003};

using CudaKernels = OnCuda;

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
