// Memory of a rank: the arena it comes from, the account it is in, the buffer that owns it.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/arena.hpp"
#include "zero/buffer.hpp"
#include "zero/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ZERO_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZERO_TEST_ASAN 1
#endif
#endif

namespace zero {
namespace {

using detail::Arena;

bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % Device::kAlignment == 0;
}

TEST(Arena, BlocksAreAlignedWritableAndApart) {
  Arena arena;
  std::map<std::byte*, std::size_t> blocks;
  for (const std::size_t bytes :
       {0, 1, 127, 128, 129, 255, 256, 4095, 4096, 65535, 65536, 65537, 3 << 20}) {
    for (int i = 0; i < 3; ++i) {
      auto* const p = static_cast<std::byte*>(arena.allocate(bytes));
      ASSERT_NE(p, nullptr);
      EXPECT_TRUE(is_aligned(p)) << bytes;
      std::memset(p, 0x5a, bytes);
      ASSERT_TRUE(blocks.emplace(p, bytes).second) << "the same address twice";
    }
  }
  std::byte* end = nullptr;
  for (const auto& [p, bytes] : blocks) {
    EXPECT_GE(p, end) << "blocks overlap";
    end = p + bytes;
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], std::byte{0x5a});
  }
  for (const auto& [p, bytes] : blocks) arena.deallocate(p, bytes);
}

TEST(Arena, EmptyBlocksHaveAddressesOfTheirOwn) {
  Arena arena;
  void* const a = arena.allocate(0);
  void* const b = arena.allocate(0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  arena.deallocate(a, 0);
  EXPECT_EQ(arena.allocate(0), a);
}

TEST(Arena, TakesTheFirstBlockThatFits) {
  Arena arena;
  void* const a = arena.allocate(1024);
  void* const b = arena.allocate(128);
  void* const c = arena.allocate(512);
  void* const d = arena.allocate(128);
  arena.deallocate(a, 1024);
  arena.deallocate(c, 512);
  EXPECT_EQ(arena.allocate(512), a);  // lower, though c fits exactly
  EXPECT_LT(arena.allocate(256), b);  // the rest of a
  EXPECT_EQ(arena.allocate(512), c);
  static_cast<void>(d);
}

// Three neighbours, released in every order, are one block again.
TEST(Arena, NeighboursAreJoinedInAnyOrder) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const std::vector<int>& order : orders) {
    Arena arena;
    void* blocks[3];
    for (void*& block : blocks) block = arena.allocate(10'000);
    void* const wall = arena.allocate(1);
    const std::size_t reserved = arena.reserved_bytes();
    for (const int i : order) arena.deallocate(blocks[i], 10'000);
    EXPECT_EQ(arena.allocate(30'000), blocks[0]);
    EXPECT_EQ(arena.reserved_bytes(), reserved);
    arena.deallocate(wall, 1);
  }
}

TEST(Arena, ReuseDoesNotGrow) {
  Arena arena;
  std::vector<std::pair<void*, std::size_t>> held;
  std::size_t after_first = 0;
  for (int round = 0; round < 50; ++round) {
    for (const std::size_t bytes : {100'000, 7, 0, 2'500'000, 40'000, 128, 900}) {
      held.emplace_back(arena.allocate(bytes), bytes);
    }
    // Released in another order each time.
    while (!held.empty()) {
      const std::size_t i = static_cast<std::size_t>(round) * 31 % held.size();
      arena.deallocate(held[i].first, held[i].second);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (round == 0) after_first = arena.reserved_bytes();
  }
  EXPECT_EQ(arena.reserved_bytes(), after_first);
  EXPECT_GE(after_first, 2'641'035u);
}

TEST(Arena, RandomTrafficNeverOverlaps) {
  Arena arena;
  std::map<std::byte*, std::pair<std::size_t, unsigned char>> held;
  std::uint32_t state = 7;
  const auto next = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 12) % below;
  };
  for (int i = 0; i < 4000; ++i) {
    if (held.size() > 40 || (!held.empty() && next(2) == 0)) {
      auto it = held.begin();
      std::advance(it, next(static_cast<std::uint32_t>(held.size())));
      const auto [bytes, mark] = it->second;
      for (std::size_t b = 0; b < bytes; ++b) {
        ASSERT_EQ(static_cast<unsigned char>(it->first[b]), mark);
      }
      arena.deallocate(it->first, bytes);
      held.erase(it);
    } else {
      const std::size_t bytes = next(8) == 0 ? next(200'000) : next(3000);
      const auto mark = static_cast<unsigned char>(next(256));
      auto* const p = static_cast<std::byte*>(arena.allocate(bytes));
      std::memset(p, mark, bytes);
      ASSERT_TRUE(held.emplace(p, std::pair{bytes, mark}).second);
    }
  }
}

TEST(Arena, HugeSlabsAreAlignedToHugePages) {
  Arena arena;
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  void* const p = arena.allocate(3 * kHuge + 5);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % kHuge, 0u);
  EXPECT_EQ(arena.reserved_bytes() % kHuge, 0u);
  EXPECT_LE(arena.reserved_bytes(), 4 * kHuge);
  std::memset(p, 1, 3 * kHuge + 5);
}

TEST(Arena, RefusesWhatTheSystemCannotGive) {
  Arena arena;
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {std::size_t{1} << 60, kMost >> 1, kMost - (std::size_t{4} << 20),
                                  kMost - 4096, kMost - 127, kMost - 3, kMost}) {
    EXPECT_THROW(arena.allocate(bytes), OutOfMemory) << bytes;
  }
  EXPECT_EQ(arena.reserved_bytes(), 0u);
  EXPECT_NE(arena.allocate(100), nullptr);  // and goes on
}

#if defined(ZERO_TEST_ASAN)
class ArenaDeath : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static void touch(volatile float* p) { *p = 1.0f; }
  Arena arena;
};

TEST_F(ArenaDeath, UseAfterReleaseIsReported) {
  auto* const p = static_cast<float*>(arena.allocate(1000));
  touch(p + 249);
  arena.deallocate(p, 1000);
  EXPECT_DEATH(touch(p), "use-after-poison");
  EXPECT_DEATH(touch(p + 249), "use-after-poison");
}

TEST_F(ArenaDeath, OverrunByOneElementIsReported) {
  for (const std::size_t elems : {0, 1, 2, 3, 31, 32, 33, 1000}) {
    auto* const p = static_cast<float*>(arena.allocate(elems * sizeof(float)));
    auto* const next = static_cast<float*>(arena.allocate(64));
    for (std::size_t i = 0; i < elems; ++i) touch(p + i);
    EXPECT_DEATH(touch(p + elems), "use-after-poison") << elems;
    EXPECT_DEATH(touch(next - 1), "use-after-poison") << elems;
  }
}
#endif

TEST(Ledger, CountsCurrentAndPeak) {
  Ledger ledger;
  ledger.charge(Category::kParams, 100);
  ledger.charge(Category::kGrads, 50);
  ledger.release(Category::kParams, 60);
  ledger.charge(Category::kGrads, 5);
  EXPECT_EQ(ledger.account(Category::kParams).current_bytes, 40);
  EXPECT_EQ(ledger.account(Category::kParams).peak_bytes, 100);
  EXPECT_EQ(ledger.account(Category::kGrads).current_bytes, 55);
  EXPECT_EQ(ledger.account(Category::kGrads).peak_bytes, 55);
  EXPECT_EQ(ledger.account(Category::kExpAvg).peak_bytes, 0);
  EXPECT_EQ(ledger.total().current_bytes, 95);
  EXPECT_EQ(ledger.total().peak_bytes, 150);  // of the sum: 100 + 50, not 100 + 55
}

TEST(Ledger, PeaksStartAnew) {
  Ledger ledger;
  ledger.charge(Category::kGather, 100);
  ledger.release(Category::kGather, 70);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.account(Category::kGather).peak_bytes, 30);
  EXPECT_EQ(ledger.total().peak_bytes, 30);
  ledger.charge(Category::kGather, 1);
  EXPECT_EQ(ledger.total().peak_bytes, 31);
}

TEST(Ledger, CountsBeyondThirtyTwoBits) {
  Ledger ledger;
  ledger.charge(Category::kExpAvg, std::int64_t{1} << 40);
  ledger.charge(Category::kExpAvgSq, std::int64_t{1} << 40);
  EXPECT_EQ(ledger.total().peak_bytes, std::int64_t{1} << 41);
}

TEST(Ledger, TheTableShowsEveryCategory) {
  Ledger ledger;
  ledger.charge(Category::kMasterWeights, 12345);
  ledger.release(Category::kMasterWeights, 345);
  const std::string table = ledger.table();
  for (const char* text : {"params", "grads", "master_weights", "exp_avg", "exp_avg_sq", "bucket",
                           "gather", "workspace", "total", "12345", "12000"}) {
    EXPECT_NE(table.find(text), std::string::npos) << text << " is not in\n" << table;
  }
}

class BufferTest : public ::testing::Test {
 protected:
  Buffer make(std::int64_t elems, DType dtype = DType::kFloat32,
              Category category = Category::kGrads) {
    return {*device, ledger, category, elems, dtype, "bucket 7"};
  }
  std::int64_t held() const { return ledger.total().current_bytes; }
  std::unique_ptr<Device> device = make_host_device();
  Ledger ledger;
};

TEST_F(BufferTest, CountsWhatItHoldsWhileItLives) {
  {
    const Buffer buffer = make(10, DType::kBFloat16);
    EXPECT_TRUE(buffer);
    EXPECT_TRUE(is_aligned(buffer.data()));
    EXPECT_EQ(buffer.elems(), 10);
    EXPECT_EQ(buffer.bytes(), 20);
    EXPECT_EQ(buffer.at(3), buffer.data() + 6);
    EXPECT_EQ(ledger.account(Category::kGrads).current_bytes, 20);
    EXPECT_EQ(held(), 20);
  }
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(ledger.account(Category::kGrads).peak_bytes, 20);
}

TEST_F(BufferTest, EmptyOnesAreBuffersToo) {
  Buffer none;
  EXPECT_FALSE(none);
  none.reset();
  const Buffer zero = make(0);
  EXPECT_TRUE(zero);
  EXPECT_EQ(zero.bytes(), 0);
  EXPECT_EQ(held(), 0);
}

TEST_F(BufferTest, SizesThatNoCountOfBytesHoldsAreRefused) {
  for (const std::int64_t elems : {std::int64_t{-1}, std::int64_t{1} << 62, INT64_MAX}) {
    try {
      const Buffer buffer = make(elems);
      ADD_FAILURE() << elems << " accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(elems)), std::string::npos);
    }
  }
}

TEST_F(BufferTest, MovesItsMemory) {
  Buffer a = make(10);
  std::byte* const data = a.data();
  Buffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: looked at on purpose
  EXPECT_EQ(a.elems(), 0);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(held(), 40);

  Buffer c = make(5, DType::kFloat16, Category::kBucket);
  EXPECT_EQ(held(), 50);
  c = std::move(b);  // what c held goes back
  EXPECT_EQ(held(), 40);
  EXPECT_EQ(ledger.account(Category::kBucket).current_bytes, 0);
  EXPECT_EQ(c.dtype(), DType::kFloat32);
  EXPECT_EQ(c.bytes(), 40);

  Buffer& same = c;
  c = std::move(same);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(held(), 40);

  c.reset();
  c.reset();
  EXPECT_EQ(held(), 0);
  c = make(3);  // an empty one can be filled again
  EXPECT_EQ(held(), 12);
}

TEST_F(BufferTest, ReleasedMemoryIsUsedAgain) {
  const std::byte* first = make(1000).data();
  const std::size_t reserved = device->reserved_bytes();
  EXPECT_EQ(make(1000).data(), first);
  EXPECT_EQ(device->reserved_bytes(), reserved);
}

TEST_F(BufferTest, OutOfMemoryNamesCategoryOwnerAndBytes) {
  const Buffer other = make(777, DType::kFloat32, Category::kExpAvg);
  const std::int64_t elems = std::int64_t{1} << 60;
  try {
    make(elems);
    FAIL() << "got 4 EiB";
  } catch (const OutOfMemory& error) {
    const std::string what = error.what();
    for (const std::string& text : {std::string("grads"), std::string("bucket 7"),
                                    std::to_string(elems * 4), std::string("3108")}) {
      EXPECT_NE(what.find(text), std::string::npos) << text << " is not in: " << what;
    }
  }
  EXPECT_EQ(held(), 3108);  // nothing was charged
}

}  // namespace
}  // namespace zero
