// The batch triple against a search over all triples.
#include <limits>
#include <string>
#include <tuple>

#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::parse;
using Size = std::optional<std::int64_t>;

struct Triple {
  Size train, micro, accumulation;
  friend bool operator==(const Triple&, const Triple&) = default;
};

Triple of(const Config& config) {
  return {config.train_batch_size, config.micro_batch_size, config.accumulation_steps};
}

Config with(const Triple& given, bool reproducible = false) {
  std::string text = "{\"runtime\": {\"reproducible\": ";
  text += reproducible ? "true}" : "false}";
  const auto add = [&](const char* key, Size value) {
    if (value) text += std::string(", \"") + key + "\": " + std::to_string(*value);
  };
  add("train_batch_size", given.train);
  add("train_micro_batch_size_per_gpu", given.micro);
  add("gradient_accumulation_steps", given.accumulation);
  return parse(text + "}");
}

// The one triple that the rules allow, found by trying all; empty if there is none.
std::optional<Triple> search(const Triple& given, int world, Size caller) {
  Triple wanted = given;
  if (!wanted.micro && !(wanted.train && wanted.accumulation)) wanted.micro = caller;
  if (!wanted.train && !wanted.micro) return std::nullopt;
  if (!wanted.accumulation && !(wanted.train && wanted.micro)) wanted.accumulation = 1;
  for (std::int64_t micro = 1; micro <= 32; ++micro) {
    for (std::int64_t accumulation = 1; accumulation <= 32; ++accumulation) {
      const Triple t = {micro * accumulation * world, micro, accumulation};
      if (wanted.train.value_or(*t.train) == *t.train && wanted.micro.value_or(micro) == micro &&
          wanted.accumulation.value_or(accumulation) == accumulation) {
        return t;
      }
    }
  }
  return std::nullopt;
}

std::string refusal(Config config, int world, Size caller = std::nullopt) {
  const Triple before = of(config);
  try {
    config.resolve_batch(world, caller);
  } catch (const ConfigError& error) {
    EXPECT_EQ(of(config), before);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(ConfigBatch, EveryCombinationOfGivenAndMissing) {
  const Size trains[] = {std::nullopt, 1, 2, 3, 4, 6, 8, 12, 16, 24, 30};
  const Size sizes[] = {std::nullopt, 1, 2, 3, 4};
  int accepted = 0;
  int refused = 0;
  for (int world = 1; world <= 8; ++world) {
    for (const Size train : trains) {
      for (const Size micro : sizes) {
        for (const Size accumulation : sizes) {
          for (const Size caller : {Size(), Size(2), Size(3)}) {
            const Triple given = {train, micro, accumulation};
            Config config = with(given);
            const auto expected = search(given, world, caller);
            if (expected) {
              ++accepted;
              config.resolve_batch(world, caller);
              EXPECT_EQ(of(config), *expected);
              const bool overruled = caller && *caller != *expected->micro;
              EXPECT_EQ(config_test::warns(config, "train_micro_batch_size_per_gpu"), overruled);
              config.resolve_batch(world);  // settled already
              EXPECT_EQ(of(config), *expected);
            } else {
              ++refused;
              const std::string message = refusal(config, world, caller);
              EXPECT_CONTAINS(message, "train_batch_size");
              EXPECT_CONTAINS(message, "world size " + std::to_string(world));
            }
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(ConfigBatch, TheMessageHasAllFourNumbers) {
  const std::string message = refusal(with({4099, 37, std::nullopt}), 5);
  for (const char* part :
       {"file.json: ", "train_batch_size 4099", "train_micro_batch_size_per_gpu 37",
        "gradient_accumulation_steps not given", "world size 5", "4099 / (37 x 5) is not whole"}) {
    EXPECT_CONTAINS(message, part);
  }
  EXPECT_CONTAINS(refusal(with({16, 4, 4}), 2), "16 is not 4 x 4 x 2 = 32");
  EXPECT_CONTAINS(refusal(with({30, std::nullopt, std::nullopt}), 1, 4),
                  "train_micro_batch_size_per_gpu 4 (from the caller)");
  EXPECT_CONTAINS(refusal(with({}), 2), "give train_batch_size or train_micro_batch_size_per_gpu");
}

TEST(ConfigBatch, NumbersBeyondTheirTypesAreRefused) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_CONTAINS(refusal(with({std::nullopt, kMax, 2}), 1), "beyond 64 bits");
  EXPECT_CONTAINS(refusal(with({std::nullopt, kMax, 1}), 2), "beyond 64 bits");
  EXPECT_CONTAINS(refusal(with({kMax, 1, std::nullopt}), 1), "more than 2147483647");
  EXPECT_CONTAINS(refusal(with({8, kMax, std::nullopt}), 8), "not whole");
  Config config = with({kMax, std::nullopt, 1});
  config.resolve_batch(1);
  EXPECT_EQ(config.micro_batch_size, kMax);
}

TEST(ConfigBatch, ReproducibleNeedsPowersOfTwo) {
  for (int world = 1; world <= 9; ++world) {
    for (std::int64_t accumulation = 1; accumulation <= 9; ++accumulation) {
      const auto is_power = [](std::int64_t x) { return x == 1 || x == 2 || x == 4 || x == 8; };
      Config config = with({std::nullopt, 3, accumulation}, true);
      if (is_power(world) && is_power(accumulation)) {
        config.resolve_batch(world);
        EXPECT_EQ(config.train_batch_size, 3 * accumulation * world);
      } else {
        EXPECT_CONTAINS(refusal(config, world), "runtime.reproducible");
      }
    }
  }
}

TEST(ConfigBatch, ASecondCallChangesNothing) {
  Config file = with({std::nullopt, 4, std::nullopt});
  file.resolve_batch(2, 8);
  const auto warnings = file.warnings();
  EXPECT_WARNS(file, "settled as 4 by file.json:1:38; the caller's 8 is not used");
  file.resolve_batch(2, 8);
  EXPECT_EQ(file.warnings(), warnings);
  file.resolve_batch(2, 4);
  file.resolve_batch(2);
  EXPECT_EQ(file.warnings(), warnings);

  Config caller = with({});
  const auto before = caller.warnings();
  caller.resolve_batch(2, 8);
  EXPECT_EQ(caller.warnings(), before);
  // What is settled stays, and it was not the file.
  caller.resolve_batch(2, 4);
  EXPECT_EQ(caller.micro_batch_size, 8);
  EXPECT_NO_WARNING(caller, "by file.json");
  EXPECT_WARNS(caller, "settled as 8 by an earlier call; the caller's 4 is not used");
  const auto after = caller.warnings();
  caller.resolve_batch(2, 4);
  EXPECT_EQ(caller.warnings(), after);
  // Another world size does not fit what is settled.
  EXPECT_CONTAINS(refusal(caller, 4, 8), "16 is not 8 x 1 x 4 = 32");
  caller.set("gradient_clipping", "0");
  caller.resolve_batch(2, 4);
  EXPECT_EQ(caller.micro_batch_size, 4);
  EXPECT_NO_WARNING(caller, "train_micro_batch_size_per_gpu");
}

TEST(ConfigBatch, ArgumentsAreChecked) {
  Config config = with({8, std::nullopt, std::nullopt});
  EXPECT_THROW(config.resolve_batch(0), UsageError);
  EXPECT_THROW(config.resolve_batch(-1), UsageError);
  EXPECT_CONTAINS(refusal(config, 1, 0), "train_micro_batch_size_per_gpu");
}

}  // namespace
}  // namespace zero
