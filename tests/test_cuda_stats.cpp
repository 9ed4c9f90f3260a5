// The statistics of gradients on CUDA have the digits of the host's, and name the same parameter.
#include <cmath>
#include <limits>

#include "tests/cuda_fixtures.hpp"
#include "tests/shard_fixtures.hpp"

namespace zero {
namespace {

using kernels::GradStats;
using kernels::Pieces;
using kernels::ShardPiece;
using test::OnDevice;

// The targets of a device, gathered over calls.
class Targets {
 public:
  explicit Targets(Device& device)
      : device_(device), stats_(device, {GradStats{}}), bad_(device, {kernels::kNoBadParam}) {}

  template <class G>
  void add(const std::vector<G>& grad, std::size_t offset, const Pieces& pieces,
           std::int64_t first_elem, std::int32_t fallback) {
    const OnDevice<G> d_grad(device_, grad, offset);
    const OnDevice<ShardPiece> d_pieces(device_, pieces.table);
    kernels::grad_stats(d_grad.view(), {d_pieces.data(), pieces.view().count}, first_elem, fallback,
                        stats_.data(), bad_.data(), device_.caller_stream());
    device_.caller_stream().synchronize();
    kernels::ImmediateStream host;
    kernels::grad_stats(kernels::view(grad), pieces.view(), first_elem, fallback, &host_stats_,
                        &host_bad_, host);
  }
  void expect_equal() const {
    GradStats found;  // with carries done, as the host has them
    found.add(stats_.read()[0]);
    EXPECT_EQ(found.sum_squares, host_stats_.sum_squares);
    EXPECT_EQ(found.max_abs_bits, host_stats_.max_abs_bits);
    EXPECT_EQ(bad_.read()[0], host_bad_);
  }
  std::uint64_t bad() const { return bad_.read()[0]; }

 private:
  Device& device_;
  OnDevice<GradStats> stats_;
  OnDevice<std::uint64_t> bad_;
  GradStats host_stats_;
  std::uint64_t host_bad_ = kernels::kNoBadParam;
};

template <class G>
void expect_parity(Device& device, const std::vector<G>& grad, std::size_t offset = 0) {
  Targets targets(device);
  targets.add(grad, offset, Pieces(), 0, 3);
  targets.expect_equal();
}

template <class G>
std::vector<G> powers(std::size_t count, int (*exponent)(int index)) {
  std::vector<float> values = kernels::numbers<float>(count, 7);
  std::vector<G> grad;
  for (std::size_t i = 0; i < count; ++i) {
    grad.push_back(from_float<G>(std::ldexp(values[i], exponent(static_cast<int>(i)))));
  }
  return grad;
}

template <class G>
void expect_every_kind(Device& device, std::size_t count, std::size_t offset) {
  SCOPED_TRACE(testing::Message() << count << " at " << offset);
  expect_parity(device, kernels::numbers<G>(count, 8), offset);
  // Over all exponents; rising, so that every thread's window moves again and again; falling, so
  // that all but the first lie below it; zeros, then something.
  expect_parity(device, powers<G>(count, [](int i) { return i % 270 - 145; }), offset);
  expect_parity(device, powers<G>(count, [](int i) { return i / 300 - 60; }), offset);
  expect_parity(device, powers<G>(count, [](int i) { return 60 - i / 300; }), offset);
  expect_parity(device, powers<G>(count, [](int i) { return i < 3000 ? -400 : -12; }), offset);
}

using CudaStats = test::OnCuda;

TEST_F(CudaStats, EverySizeAndKindOfValue) {
  for (const std::size_t count : {0u, 1u, 7u, 8u, 255u, 257u, 4097u, 32768u, 40001u}) {
    const std::size_t offset = count % 9;
    expect_every_kind<float>(*device, count, offset);
    expect_every_kind<bf16>(*device, count, offset);
    expect_every_kind<fp16>(*device, count, offset);
  }
}

TEST_F(CudaStats, EveryStart) {
  for (std::size_t offset = 0; offset < 9; ++offset) {
    expect_parity(*device, kernels::numbers<float>(2049, 5), offset);
    expect_parity(*device, kernels::numbers<bf16>(2049, 5), offset);
    expect_parity(*device, kernels::numbers<fp16>(33, 5), offset);
  }
}

template <class G>
void expect_parity_of_bits(Device& device, std::uint16_t lowest, std::uint16_t highest) {
  std::vector<G> grad;
  for (std::uint32_t bits = lowest; bits <= highest; ++bits) {
    grad.push_back(G{static_cast<std::uint16_t>(bits)});
  }
  expect_parity(device, grad);
}

TEST_F(CudaStats, EveryBitPatternAndTheLargestSums) {
  expect_parity_of_bits<bf16>(*device, 0, 0xffff);
  expect_parity_of_bits<fp16>(*device, 0, 0xffff);
  expect_parity_of_bits<fp16>(*device, 0x7c01, 0x7e00);  // a NaN is made quiet: 0x7e00 is not most
  expect_parity_of_bits<fp16>(*device, 0, 0x3ff);
  for (const float value : {std::numeric_limits<float>::max(), std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min(), 0x1.fffffep0f, 0.0f}) {
    expect_parity(*device, std::vector<float>(35000, value));
    expect_parity(*device, std::vector<bf16>(35000, from_float<bf16>(value)));
    expect_parity(*device, std::vector<fp16>(35000, from_float<fp16>(value)));
  }
  std::vector<float> full(3000, 0x1.fffffep0f);  // the top of a window and its bottom
  for (std::size_t i = 1; i < full.size(); i += 2) full[i] = 0x1.fffffep-22f;
  expect_parity(*device, full);
}

TEST_F(CudaStats, NameTheFirstBadParameter) {
  for (const kernels::BadCase& c : kernels::bad_cases()) {
    Targets targets(*device);
    targets.add(c.grad, c.bad % 5, c.pieces, c.first_elem, c.fallback);
    targets.expect_equal();
    EXPECT_EQ(targets.bad(), c.bad) << c.name;
  }
}

TEST_F(CudaStats, GatherOverCalls) {
  Targets targets(*device);
  const Pieces first = Pieces().piece(40000, 5), second = Pieces().gap(7).piece(100, 3).gap(7);
  std::vector<float> grad = kernels::numbers<float>(40000, 1, 1e-3f);
  targets.add(grad, 0, first, 0, 0);
  targets.expect_equal();
  grad[39999] = std::numeric_limits<float>::quiet_NaN();
  targets.add(grad, 1, first, 0, 0);
  EXPECT_EQ(targets.bad(), 5u);
  targets.add(kernels::numbers<bf16>(114, 2, 1e6f), 2, second, 0, 0);  // finite: nothing new
  EXPECT_EQ(targets.bad(), 5u);
  std::vector<fp16> halves = kernels::numbers<fp16>(57, 3);
  halves[40] = from_float<fp16>(-std::numeric_limits<float>::infinity());
  targets.add(halves, 3, second, 57, 9);
  EXPECT_EQ(targets.bad(), 3u);
  targets.add(halves, 3, second, 70, 9);  // in the gap at the end, and 9 is above 3
  EXPECT_EQ(targets.bad(), 3u);
  targets.add(grad, 0, first, 0, 0);
  EXPECT_EQ(targets.bad(), 3u);
  targets.expect_equal();
}

}  // namespace
}  // namespace zero
