// The update of a shard on CUDA gives the bits of the host's, piece by piece.
#include "tests/cuda_fixtures.hpp"
#include "tests/shard_fixtures.hpp"

namespace zero {
namespace {

using kernels::Pieces;
using kernels::same_bits;
using kernels::ShardArrays;
using kernels::ShardPiece;
using kernels::UpdateConstants;
using test::OnDevice;
using Rule = UpdateConstants::Rule;

// Where each array begins, in elements after an aligned place.
struct Offsets {
  std::size_t fp32 = 0, grad = 0, params = 0;
};

template <class G, class P>
void expect_parity(Device& device, const Pieces& pieces, Offsets offsets, bool has_params) {
  const auto count = static_cast<std::size_t>(pieces.elems);
  const OnDevice<ShardPiece> d_pieces(device, pieces.table);
  for (const Rule rule : {Rule::kAdamDecoupled, Rule::kAdamL2, Rule::kSgd}) {
    ShardArrays<G, P> arrays(count);
    const OnDevice<float> master(device, arrays.master, offsets.fp32),
        exp_avg(device, arrays.exp_avg, offsets.fp32),
        exp_avg_sq(device, arrays.exp_avg_sq, offsets.fp32);
    const OnDevice<G> grad(device, arrays.grad, offsets.grad);
    const OnDevice<P> params(device, arrays.params, offsets.params);
    const std::vector<UpdateConstants> constants = kernels::shard_constants(rule);
    const OnDevice<UpdateConstants> d_constants(device, constants);
    kernels::update_shard({master.data(), exp_avg.data(), exp_avg_sq.data(), grad.view(),
                           has_params ? params.data() : nullptr, *kDTypeOf<P>},
                          {d_pieces.data(), pieces.view().count}, d_constants.data(), rule,
                          device.caller_stream());
    arrays.update_pieces(pieces, constants, has_params);
    SCOPED_TRACE(testing::Message()
                 << count << " elements in " << pieces.table.size() << " pieces at " << offsets.fp32
                 << " rule " << static_cast<int>(rule));
    EXPECT_TRUE(same_bits(master.read(), arrays.master));
    EXPECT_TRUE(same_bits(exp_avg.read(), arrays.exp_avg));
    EXPECT_TRUE(same_bits(exp_avg_sq.read(), arrays.exp_avg_sq));
    EXPECT_TRUE(same_bits(params.read(), arrays.params));
  }
}

template <class G>
void expect_parity_of_params(Device& device, const Pieces& pieces, std::size_t offset) {
  const Offsets alike{offset, offset, offset};
  expect_parity<G, float>(device, pieces, alike, false);
  expect_parity<G, float>(device, pieces, alike, true);
  expect_parity<G, bf16>(device, pieces, alike, true);
  expect_parity<G, fp16>(device, pieces, alike, true);
}

using CudaUpdate = test::OnCuda;

TEST_F(CudaUpdate, EveryTypeAndPiece) {
  for (const bool gaps : {false, true}) {
    const Pieces pieces = kernels::awkward_pieces(gaps);
    expect_parity_of_params<float>(*device, pieces, gaps ? 3 : 0);
    expect_parity_of_params<bf16>(*device, pieces, gaps ? 0 : 5);
    expect_parity_of_params<fp16>(*device, pieces, gaps ? 2 : 8);
  }
}

TEST_F(CudaUpdate, EveryLengthAndStart) {
  for (const std::int64_t count :
       {1, 7, 8, 9, 31, 255, 256, 257, 1023, 1024, 2047, 2048, 2049, 5003}) {
    for (const std::size_t offset : {0, 1, 3, 4, 8}) {
      const Offsets alike{offset, offset, offset};
      const Pieces one = Pieces().piece(count, 0);
      const Pieces within = Pieces().gap(3).piece(count, 1).gap(count % 5);
      expect_parity<float, bf16>(*device, one, alike, true);
      expect_parity<bf16, bf16>(*device, within, alike, true);
    }
  }
}

TEST_F(CudaUpdate, ArraysThatAreNotAlignedAlike) {
  for (const Offsets& offsets : {Offsets{0, 1, 0}, Offsets{1, 0, 1}, Offsets{2, 2, 3}}) {
    expect_parity<float, float>(*device, kernels::awkward_pieces(true), offsets, true);
    expect_parity<bf16, fp16>(*device, kernels::awkward_pieces(false), offsets, true);
  }
}

TEST_F(CudaUpdate, NothingWithoutPieces) {
  const Offsets none;
  expect_parity<float, float>(*device, Pieces(), none, false);
  expect_parity<float, float>(*device, Pieces().gap(100), none, false);
  expect_parity<float, float>(*device, Pieces().piece(0, 0).gap(3000).piece(0, 1), none, true);
  expect_parity<float, float>(*device, Pieces().gap(2500).piece(1, 0), none, true);
}

// SGD has no moments: its kernel must not look at them, whatever their alignment.
TEST_F(CudaUpdate, SgdNeedsNoMoments) {
  const Pieces pieces = kernels::awkward_pieces(true);
  const auto count = static_cast<std::size_t>(pieces.elems);
  ShardArrays<float, float> arrays(count);
  const std::vector<UpdateConstants> constants = kernels::shard_constants(Rule::kSgd);
  const OnDevice<float> master(*device, arrays.master), grad(*device, arrays.grad);
  const OnDevice<ShardPiece> d_pieces(*device, pieces.table);
  const OnDevice<UpdateConstants> d_constants(*device, constants);
  kernels::update_shard({master.data(), nullptr, nullptr, grad.view(), nullptr},
                        {d_pieces.data(), pieces.view().count}, d_constants.data(), Rule::kSgd,
                        stream());
  arrays.update_pieces(pieces, constants, false);
  EXPECT_TRUE(same_bits(master.read(), arrays.master));
}

}  // namespace
}  // namespace zero
