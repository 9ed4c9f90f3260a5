// Every rank has the texts of all, whatever their lengths, on every backend; what travels is
// counted while it does and gone afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/rank_exchange.hpp"
#include "tests/device_access.hpp"
#include "tests/nccl_fixtures.hpp"
#include "tests/rank_fixtures.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using test::RankRuntime;
using testing::HasSubstr;

// As long as said, with every byte there is; another one on each rank.
std::string text(std::size_t size, int rank) {
  std::string all(size, '\0');
  for (std::size_t i = 0; i < size; ++i) all[i] = static_cast<char>(i * 7 + 31 * rank);
  return all;
}

void exchange(World& world, const std::string& config = "{}") {
  RankRuntime on(world, config);
  const std::vector<std::vector<std::size_t>> sizes = {
      {0}, {1}, {7, 0, 8}, {0, 9, 1}, {8}, {511, 513, 512}, {0, 1500}};
  for (const std::vector<std::size_t>& of_rank : sizes) {
    std::vector<std::string> expected;
    std::size_t longest = 0;
    for (int rank = 0; rank < world.world_size(); ++rank) {
      const std::size_t size = of_rank[static_cast<std::size_t>(rank) % of_rank.size()];
      expected.push_back(text(size, rank));
      longest = std::max(longest, size);
    }
    world.ledger().reset_peaks();
    const std::string& mine = expected[static_cast<std::size_t>(world.rank())];
    EXPECT_EQ(all_gather_text(on.rt, mine, {Purpose::kControl, "texts"}), expected);
    const Ledger::Account account = world.ledger().account(Category::kWorkspace);
    EXPECT_EQ(account.current_bytes, 0);
    EXPECT_EQ(account.peak_bytes, (longest == 0 ? 8 : 512) * world.world_size());
  }
}

TEST(RankExchange, EveryRankHasTheTextsOfAll) {
  for (const int ranks : {1, 2, 3, 5}) {
    test::run_on_device(ranks, [](World& world) { exchange(world); });
  }
}

TEST(RankExchange, OnAStreamBesideTheModels) {
  test::run_on_device(2, [](World& world) {
    exchange(world, R"({"zero_optimization": {"stage": 1, "overlap_comm": true}})");
  });
}

TEST(RankExchange, ThroughNccl) {
  test::run_nccl(3, [](World& world) { exchange(world); });
}

// A dry run allocates what a real one would, and goes on.
TEST(RankExchange, TheMetaDeviceTakesTheOthersToSayTheSame) {
  World world = World::meta(2, 5);
  RankRuntime on(world);
  EXPECT_EQ(all_gather_text(on.rt, "same", {Purpose::kControl, "texts"}),
            std::vector<std::string>(5, "same"));
  EXPECT_EQ(world.ledger().account(Category::kWorkspace), (Ledger::Account{0, 512 * 5}));
}

TEST(RankExchange, ARankThatDoesNotComeIsNamed) {
  try {
    run_ranks(2, [](World& world) {
      RankRuntime on(world);
      if (world.rank() == 1) throw UsageError("rank 1 has no text");
      all_gather_text(on.rt, "mine", {Purpose::kControl, "texts"});
    });
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 has no text"));
  }
}

}  // namespace
}  // namespace zero
