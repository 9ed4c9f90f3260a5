// The update of a shard on the host is the update of its pieces.
#include <gtest/gtest.h>

#include "tests/shard_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::kernels {
namespace {

using Rule = UpdateConstants::Rule;

template <class G, class P>
void expect_pieces(bool has_params) {
  for (const Rule rule : {Rule::kAdamDecoupled, Rule::kAdamL2, Rule::kSgd}) {
    const std::vector<UpdateConstants> constants = shard_constants(rule);
    for (const Pieces& pieces : {awkward_pieces(false), awkward_pieces(true), Pieces().gap(7)}) {
      const auto count = static_cast<std::size_t>(pieces.elems);
      ShardArrays<G, P> expected(count), found(count);
      expected.update_pieces(pieces, constants, has_params);
      ImmediateStream stream;
      update_shard(found.range(0, count, has_params), pieces.view(), constants.data(), rule,
                   stream);
      EXPECT_TRUE(found == expected);
      EXPECT_EQ(stream.tasks, pieces.table.empty() ? 0 : 1);
      EXPECT_NE(found == (ShardArrays<G, P>(count)), !pieces.table.empty());
    }
  }
}

TEST(KernelsShard, IsTheUpdateOfItsPieces) {
  expect_pieces<float, float>(false);
  expect_pieces<float, bf16>(true);
  expect_pieces<bf16, bf16>(true);
  expect_pieces<fp16, fp16>(true);
  expect_pieces<bf16, float>(true);
}

TEST(KernelsShard, SgdNeedsNoMoments) {
  const Pieces pieces = Pieces().piece(3, 0).piece(2, 1);
  const std::vector<UpdateConstants> constants = shard_constants(Rule::kSgd);
  ShardArrays<float, float> expected(5), found(5);
  expected.update_pieces(pieces, constants, false);
  UpdateRange range = found.range(0, 5, false);
  range.exp_avg = range.exp_avg_sq = nullptr;
  ImmediateStream stream;
  update_shard(range, pieces.view(), constants.data(), Rule::kSgd, stream);
  EXPECT_TRUE(found == expected);
}

// The table and the constants are read when the stream gets there, not at the call.
TEST(KernelsShard, ReadsConstantsInStreamOrder) {
  class LaterStream final : public Stream {
   public:
    LaterStream() : Stream(DeviceKind::kHost) {}
    void enqueue(Task task) override { later = std::move(task); }
    Event record() override { return {}; }
    void wait(const Event&) override {}
    void synchronize() override {}
    Task later;
  } stream;
  const Pieces pieces = Pieces().piece(9, 1);
  std::vector<UpdateConstants> constants(kShardParams);
  ShardArrays<float, float> expected(9), found(9);
  update_shard(found.range(0, 9, false), pieces.view(), constants.data(), Rule::kSgd, stream);
  const std::vector<UpdateConstants> later = shard_constants(Rule::kSgd);
  std::copy(later.begin(), later.end(), constants.begin());  // same place
  stream.later();
  expected.update_pieces(pieces, constants, false);
  EXPECT_TRUE(found == expected);
}

TEST(KernelsShard, ComputesNothingOnMeta) {
  ImmediateStream meta(DeviceKind::kMeta);
  UpdateRange range;
  range.grad.elems = 4;
  update_shard(range, {nullptr, 1}, nullptr, Rule::kSgd, meta);
  EXPECT_EQ(meta.tasks, 0);
}

TEST(KernelsShard, RefusesWhatItCannotDo) {
  ImmediateStream host, cuda(DeviceKind::kCuda);
  UpdateRange range;
  range.grad.elems = 4;
  EXPECT_THROW(update_shard(range, {nullptr, std::int64_t{1} << 31}, nullptr, Rule::kSgd, host),
               UsageError);
  EXPECT_THROW(update(range, {}, cuda), Error);
}

}  // namespace
}  // namespace zero::kernels
