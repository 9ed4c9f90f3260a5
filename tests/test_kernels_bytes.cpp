#include <gtest/gtest.h>

#include <numeric>

#include "kernel_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::kernels {
namespace {

// Large enough for the copy that goes past the caches.
constexpr std::size_t kLarge = (std::size_t{32} << 20) + 129;

TEST(KernelsBytes, CopiesAnySizeAndAlignment) {
  for (Isa isa : isas()) {
    SCOPED_TRACE(isa_name(isa));
    IsaScope scope(isa);
    for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                              std::size_t{65}, std::size_t{1000}, kLarge}) {
      for (std::size_t offset : {0u, 1u, 37u}) {
        std::vector<unsigned char> from(bytes + 200), to(bytes + 200, 0xaa);
        for (std::size_t i = 0; i < from.size(); ++i) {
          from[i] = static_cast<unsigned char>((i * 31 + (i >> 8)) & 0x7f);
        }
        copy_now(to.data() + offset, from.data() + 5, static_cast<std::int64_t>(bytes));
        EXPECT_TRUE(std::equal(from.begin() + 5, from.begin() + 5 + static_cast<long>(bytes),
                               to.begin() + static_cast<long>(offset)))
            << bytes << " at " << offset;
        for (std::size_t i = 0; i < to.size(); ++i) {
          if (i < offset || i >= offset + bytes) {
            ASSERT_EQ(to[i], 0xaa) << i;
          }
        }
      }
    }
  }
}

TEST(KernelsBytes, CopyAndFillOnAStream) {
  ImmediateStream stream;
  std::vector<unsigned char> a(100, 1), b(100, 2);
  copy(a.data(), b.data(), 50, stream);
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0), 150);
  fill_bytes(a.data(), 7, 10, stream);
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0), 70 + 80 + 50);
  EXPECT_EQ(stream.tasks, 2);
}

TEST(KernelsBytes, MetaStreamsComputeNothing) {
  ImmediateStream meta(DeviceKind::kMeta);
  copy(nullptr, nullptr, 100, meta);
  fill_bytes(nullptr, 0, 100, meta);
  cast({nullptr, DType::kFloat32, 5}, {nullptr, DType::kBFloat16, 5}, 2.0f, meta);
  add({nullptr, DType::kFloat32, 5}, {nullptr, DType::kBFloat16, 5}, meta);
  grad_stats({nullptr, DType::kFloat32, 5}, {}, 0, 0, nullptr, nullptr, meta);
  update({nullptr, nullptr, nullptr, {nullptr, DType::kFloat32, 5}, nullptr}, {}, meta);
  EXPECT_EQ(meta.tasks, 0);
}

TEST(KernelsBytes, CudaStreamsAreRefusedByName) {
  ImmediateStream cuda(DeviceKind::kCuda);
  char byte = 0;
  try {
    fill_bytes(&byte, 1, 1, cuda);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fill_bytes"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("CUDA"), std::string::npos);
  }
}

TEST(KernelsIsa, SelectionIsLimitedToTheMachine) {
  EXPECT_EQ(active_isa(), best_isa());
  {
    IsaScope scope(Isa::kBaseline);
    EXPECT_EQ(active_isa(), Isa::kBaseline);
  }
  EXPECT_EQ(active_isa(), best_isa());
  if (best_isa() < Isa::kAvx512) {
    EXPECT_THROW(set_active_isa(Isa::kAvx512), UsageError);
  }
}

}  // namespace
}  // namespace zero::kernels
