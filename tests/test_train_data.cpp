// Splitting, drawing by slot, and the tree that combines losses.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "tools/train_data.hpp"

namespace {

using train::Batch;
using train::Corpus;

std::string counting(std::size_t n) {
  std::string text(n, '\0');
  for (std::size_t i = 0; i < n; ++i) text[i] = static_cast<char>(i);
  return text;
}

TEST(TrainData, TheLastTenthIsHeldOut) {
  for (const std::size_t n : {0u, 1u, 9u, 10u, 11u, 255u}) {
    const Corpus corpus(counting(n));
    EXPECT_EQ(corpus.bytes(), n);
    EXPECT_EQ(corpus.held_out_bytes(), n / 10);
    EXPECT_EQ(corpus.train_bytes(), n - n / 10);
  }
}

TEST(TrainData, TargetsFollowTokensAndStayInTheirPart) {
  const Corpus corpus(counting(200));
  Batch batch;
  for (std::uint64_t slot = 0; slot < 300; ++slot) {
    corpus.draw(3, slot, 4, 19, batch);
    ASSERT_EQ(batch.tokens.size(), 4u * 19);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      ASSERT_EQ(batch.targets[i], batch.tokens[i] + 1);
      ASSERT_LT(batch.targets[i], 180);
    }
    corpus.held_out(static_cast<std::int64_t>(slot), 304, 4, 19, batch);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      ASSERT_EQ(batch.targets[i], batch.tokens[i] + 1);
      ASSERT_GE(batch.tokens[i], 180);
      ASSERT_LT(batch.targets[i], 200);
    }
  }
}

TEST(TrainData, ASlotIsDrawnFromItsNumberAlone) {
  const Corpus corpus(counting(250));
  Batch once, again, other;
  corpus.draw(1, 7, 8, 5, once);
  corpus.draw(1, 8, 8, 5, other);
  corpus.draw(1, 7, 8, 5, again);
  EXPECT_EQ(once.tokens, again.tokens);
  EXPECT_NE(once.tokens, other.tokens);
  corpus.draw(2, 7, 8, 5, other);
  EXPECT_NE(once.tokens, other.tokens);
}

TEST(TrainData, HeldOutWindowsReachFromTheFirstByteToTheLast) {
  const Corpus corpus(counting(200));
  Batch batch;
  corpus.held_out(0, 3, 3, 4, batch);
  EXPECT_EQ(batch.tokens.front(), 180);
  EXPECT_EQ(batch.targets.back(), 199);
}

TEST(TrainData, TheShortestTextThatServesIsTakenAndOneByteLessIsRefused) {
  EXPECT_NO_THROW(Corpus(counting(70)).check_context(6));
  EXPECT_THROW(Corpus(counting(69)).check_context(6), std::runtime_error);
  EXPECT_THROW(Corpus(counting(0)).check_context(1), std::runtime_error);
  Batch batch;
  Corpus(counting(70)).held_out(0, 2, 2, 6, batch);
  EXPECT_EQ(batch.tokens[0], 63);
}

TEST(TrainData, FilesAreReadOneAfterTheOtherAndMissingOnesNamed) {
  const std::string a = testing::TempDir() + "train_a.txt";
  const std::string b = testing::TempDir() + "train_b.txt";
  std::ofstream(a) << "first";
  std::ofstream(b) << "second";
  EXPECT_EQ(Corpus::load({a, b}).bytes(), 11u);
  try {
    Corpus::load({a, "/nonexistent/file"});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/file"), std::string::npos);
  }
}

TEST(TrainData, TreeSumAddsPairwise) {
  EXPECT_EQ(train::tree_sum({}), 0.0);
  for (int n = 1; n <= 17; ++n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 1.0);
    EXPECT_EQ(train::tree_sum(values), n * (n + 1) / 2.0);
  }
  // (1 + 2^53) + (1 + 1): the first 1 is lost to rounding, the pair is not.
  const std::vector<double> values = {1, 0x1p53, 1, 1};
  EXPECT_EQ(train::tree_sum(values), 0x1p53 + 2);
}

}  // namespace
