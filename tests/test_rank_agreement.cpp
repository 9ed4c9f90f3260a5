// Ranks that were set up differently all end with an error that has both sides, before anything is
// allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "src/rank_agreement.hpp"
#include "src/registration.hpp"
#include "tests/device_access.hpp"
#include "tests/nccl_fixtures.hpp"
#include "tests/rank_fixtures.hpp"
#include "zero/error.hpp"
#include "zero/version.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero {
namespace {

using detail::concat;
using Lines = std::vector<std::string>;
using Runner = std::function<void(int, const std::function<void(World&)>&)>;

void by_threads(int ranks, const std::function<void(World&)>& body) {
  test::run_on_device(ranks, body);
}
void by_nccl(int ranks, const std::function<void(World&)>& body) { test::run_nccl(ranks, body); }

// What each rank says to its set-up; empty: nothing.
Lines answers(int ranks, const std::function<void(World&)>& set_up,
              const Runner& run = by_threads) {
  Lines all(static_cast<std::size_t>(ranks), "not run");
  run(ranks, [&](World& world) {
    std::string& answer = all[static_cast<std::size_t>(world.rank())];
    try {
      set_up(world);
      answer.clear();
    } catch (const ConfigError& error) {
      answer = error.what();
    }
    EXPECT_EQ(world.ledger().total().current_bytes, 0);
  });
  return all;
}

// What all say; they are to say the same.
std::string answer(int ranks, const std::function<void(World&)>& set_up,
                   const Runner& run = by_threads) {
  const Lines all = answers(ranks, set_up, run);
  EXPECT_EQ(all, Lines(all.size(), all[0]));
  return all[0];
}

void all_alike(World& world, const Lines& lines) {
  test::RankRuntime on(world);
  zero::require_alike(on.rt, lines);
}

Lines numbered(std::size_t count) {
  Lines lines;
  for (std::size_t i = 0; i < count; ++i) lines.push_back(concat("line ", i, ": same"));
  return lines;
}

TEST(RankAgreement, TheFirstLineThatDiffersIsNamed) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t count : {0, 1, 2, 3, 4, 7}) {
      const auto same = [&](World& world) { all_alike(world, numbered(count)); };
      EXPECT_EQ(answer(ranks, same), "") << count;
      if (ranks == 1) continue;
      for (std::size_t at = 0; at < count; ++at) {
        const auto set_up = [&](World& world) {
          Lines lines = numbered(count);
          if (world.rank() == ranks - 1) {
            lines[at] = concat("line ", at, ": of the last");
            lines.back() += "!";
          }
          all_alike(world, lines);
        };
        EXPECT_EQ(answer(ranks, set_up),
                  concat("prepare(): the ranks are not set up alike: rank 0 has line ", at,
                         ": same; rank ", ranks - 1, " has line ", at, ": of the last",
                         at + 1 == count ? "!" : ""));
      }
    }
  }
}

TEST(RankAgreement, ARankWithFewerLines) {
  for (const std::size_t fewer : {0, 1, 2, 6}) {
    for (const int short_rank : {0, 1}) {
      const auto set_up = [&](World& world) {
        all_alike(world, numbered(world.rank() == short_rank ? fewer : 7));
      };
      const std::string line = concat("line ", fewer, ": same");
      EXPECT_EQ(answer(3, set_up), concat("prepare(): the ranks are not set up alike: rank 0 has ",
                                          short_rank == 0 ? "nothing more" : line, "; rank 1 has ",
                                          short_rank == 1 ? "nothing more" : line));
    }
  }
}

// A model of two parameters, prepared; `patch` and `shapes` may be of one rank.
struct Model {
  std::string patch = "{}";
  std::vector<std::pair<std::string, std::int64_t>> params = {{"a", 4}, {"b", 3}};
  DType dtype = DType::kFloat32;
  bool frozen = false;
};
void prepare(World& world, const Model& model) {
  Config config = Config::parse(R"({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0,
                                    "optimizer": {"type": "AdamW", "params": {"lr": 0.5}}})");
  config.merge(model.patch);
  ZeroOptimizer optimizer(config, world);
  std::vector<void*> pointers(2 * model.params.size());
  std::vector<ParamSpec> specs;
  for (std::size_t i = 0; i < model.params.size(); ++i) {
    ParamSpec spec;
    spec.name = model.params[i].first;
    spec.shape = {model.params[i].second};
    spec.dtype = model.dtype;
    spec.requires_grad = !model.frozen;
    spec.data = PointerSlot(&pointers[2 * i]);
    spec.grad = PointerSlot(&pointers[2 * i + 1]);
    spec.init = [](std::span<std::byte> values) {
      std::fill(values.begin(), values.end(), std::byte{});
    };
    specs.push_back(std::move(spec));
  }
  optimizer.add_unit("u", std::move(specs));
  optimizer.prepare();
}

// Rank 1 of 3 has another model than the others.
std::string answer_to(const Model& usual, const Model& odd, const Runner& run = by_threads) {
  const std::string text = answer(
      3, [&](World& world) { prepare(world, world.rank() == 1 ? odd : usual); }, run);
  const std::string begin = "prepare(): the ranks are not set up alike: ";
  return text.starts_with(begin) ? text.substr(begin.size()) : text;
}

TEST(RankAgreement, AnotherConfiguration) {
  EXPECT_EQ(answer_to({}, {}), "");
  EXPECT_EQ(answer_to({}, {.patch = R"({"optimizer": {"params": {"lr": 0.25}}})"}),
            "rank 0 has optimizer.params.lr: 0.5; rank 1 has optimizer.params.lr: 0.25");
  const Model stage_1 = {.patch = R"({"zero_optimization": {"stage": 1}})"};
  const Model stage_3 = {.patch = R"({"zero_optimization": {"stage": 3}})"};
  EXPECT_EQ(answer_to(stage_1, stage_3),
            "rank 0 has zero_optimization.stage: 1; rank 1 has zero_optimization.stage: 3");
  EXPECT_EQ(answer_to({}, {.patch = R"({"zero_optimization": {"reduce_bucket_size": 7}})"}),
            "rank 0 has zero_optimization.reduce_bucket_size: 500000000; rank 1 has "
            "zero_optimization.reduce_bucket_size: 7");
}

TEST(RankAgreement, ARankMayWaitAsLongAsItWants) {
  EXPECT_EQ(answer_to({}, {.patch = R"({"runtime": {"timeout_s": 77}})"}), "");
  EXPECT_EQ(answer_to({}, {.patch = R"({"runtime": {"memory_budget": "1GiB", "reserved": 5}})"}),
            "");
}

TEST(RankAgreement, OtherParameters) {
  const std::string usual = "rank 0 has parameter 1: b [3], fp32, group 0, of unit u; rank 1 has ";
  EXPECT_EQ(answer_to({}, {.params = {{"a", 4}, {"b", 5}}}),
            usual + "parameter 1: b [5], fp32, group 0, of unit u");
  EXPECT_EQ(answer_to({}, {.params = {{"a", 4}, {"c", 3}}}),
            usual + "parameter 1: c [3], fp32, group 0, of unit u");
  EXPECT_EQ(answer_to({}, {.params = {{"a", 4}}}), usual + "nothing more");
  EXPECT_EQ(answer_to({}, {.params = {{"b", 3}, {"a", 4}}}),
            "rank 0 has parameter 0: a [4], fp32, group 0, of unit u; rank 1 has parameter 0: b "
            "[3], fp32, group 0, of unit u");
  EXPECT_EQ(answer_to({.params = {{"a", 4}}}, {.params = {{"a", 4}}, .frozen = true}),
            "rank 0 has parameter 0: a [4], fp32, group 0, of unit u; rank 1 has parameter 0: a "
            "[4], fp32, group 0, frozen, of unit u");
}

TEST(RankAgreement, ThroughNccl) {
  if (const std::string why = test::nccl_refusal(2); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(answer_to({}, {.patch = R"({"optimizer": {"params": {"lr": 0.25}}})"}, by_nccl),
            "rank 0 has optimizer.params.lr: 0.5; rank 1 has optimizer.params.lr: 0.25");
}

// The first that is compared, so that it is told whatever else another version has.
TEST(RankAgreement, TheVersionComesFirst) {
  World world = World::from_environment();
  test::RankRuntime on(world);
  EXPECT_EQ(Registration(on.rt).set_up().at(0), concat("version of zero: ", kVersion));
}

}  // namespace
}  // namespace zero
