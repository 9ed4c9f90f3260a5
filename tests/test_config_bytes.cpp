// Sizes in bytes as people write and read them, against whole-number arithmetic.
#include <cstdint>
#include <limits>
#include <string>

#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string refused(const std::string& text) {
  try {
    return "accepted as " + std::to_string(parse_bytes(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::int64_t power(std::int64_t base, int exponent) {
  std::int64_t result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

TEST(ConfigBytes, EveryUnitInAnyCase) {
  const char* const kLetters = "KMGTPE";
  for (int i = 0; i < 6; ++i) {
    const std::string letter(1, kLetters[i]);
    const std::string small(1, static_cast<char>(kLetters[i] - 'A' + 'a'));
    for (const std::string& name : {letter, small}) {
      for (const char* b : {"B", "b"}) {
        EXPECT_EQ(parse_bytes("7" + name + b), 7 * power(1000, i + 1)) << name << b;
        EXPECT_EQ(parse_bytes("7 " + name + b), 7 * power(1000, i + 1)) << name << b;
        for (const char* binary : {"i", "I"}) {
          EXPECT_EQ(parse_bytes("3" + name + binary + b), 3 * power(1024, i + 1)) << name << b;
          EXPECT_EQ(parse_bytes("3 " + name + binary + b), 3 * power(1024, i + 1)) << name << b;
        }
      }
    }
    // A unit ends with B.
    EXPECT_CONTAINS(refused("1" + letter), "is no size in bytes") << letter;
    EXPECT_CONTAINS(refused("1" + letter + "i"), "is no size in bytes") << letter;
  }
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("12"), 12);
  EXPECT_EQ(parse_bytes("12B"), 12);
  EXPECT_EQ(parse_bytes("12 b"), 12);
}

TEST(ConfigBytes, FractionsAreRoundedDownExactly) {
  EXPECT_EQ(parse_bytes("1.5kB"), 1500);
  EXPECT_EQ(parse_bytes("1.0019 kB"), 1001);
  EXPECT_EQ(parse_bytes("1.001 kB"), 1001);  // 1000.9999999999999 in doubles
  EXPECT_EQ(parse_bytes("0.9999kB"), 999);
  EXPECT_EQ(parse_bytes("0.0009kB"), 0);
  EXPECT_EQ(parse_bytes("0.5 KiB"), 512);
  EXPECT_EQ(parse_bytes("1.0009765625KiB"), 1025);
  EXPECT_EQ(parse_bytes("1.00097656249KiB"), 1024);
  EXPECT_EQ(parse_bytes("9007199254740.993kB"), 9007199254740993);  // 2^53 + 1
  EXPECT_EQ(parse_bytes("5.0"), 5);
  // There is no part of a byte.
  EXPECT_CONTAINS(refused("1.5"), "is no size in bytes");
  EXPECT_CONTAINS(refused("1.5 B"), "is no size in bytes");
}

TEST(ConfigBytes, ExponentsAndTheUnitsThatBeginWithE) {
  EXPECT_EQ(parse_bytes("1e3"), 1000);
  EXPECT_EQ(parse_bytes("1e3kB"), 1'000'000);
  EXPECT_EQ(parse_bytes("1E3kB"), 1'000'000);
  EXPECT_EQ(parse_bytes("1e+3 KiB"), 1024'000);
  EXPECT_EQ(parse_bytes("25e-1kB"), 2500);
  EXPECT_EQ(parse_bytes("1e-3kB"), 1);
  EXPECT_EQ(parse_bytes("1e-9kB"), 0);
  EXPECT_EQ(parse_bytes("1e-999999999999999999999GB"), 0);
  EXPECT_EQ(parse_bytes("0e999999999999999999999GB"), 0);
  EXPECT_EQ(parse_bytes("2EB"), 2 * power(1000, 6));
  EXPECT_EQ(parse_bytes("2EiB"), 2 * power(1024, 6));
  EXPECT_EQ(parse_bytes("2.5 eb"), 25 * power(10, 17));
  EXPECT_EQ(parse_bytes("1e0EB"), power(1000, 6));
  EXPECT_CONTAINS(refused("1e"), "is no size in bytes");
  EXPECT_CONTAINS(refused("1e+GB"), "is no size in bytes");
}

TEST(ConfigBytes, TheLargestIsTwoToThe63MinusOne) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), kMax);
  EXPECT_EQ(parse_bytes("9223372036854775.807kB"), kMax);
  EXPECT_EQ(parse_bytes("9.223372036854775807EB"), kMax);
  EXPECT_EQ(parse_bytes("7.99 EiB"), 9211842821808707338);  // floor(799 x 2^60 / 100)
  for (const char* text : {"9223372036854775808", "9223372036854775.808kB", "8EiB", "8192PiB",
                           "9.223372036854775808EB", "10EB", "1e30", "1e30GB", "1e400",
                           "1e999999999999999999999 GB"}) {
    EXPECT_CONTAINS(refused(text), "is no size in bytes") << text;
  }
}

TEST(ConfigBytes, WhatIsNoSizeIsRefusedWithItsText) {
  for (const char* text :
       {"",     " ",     "GiB",  " GiB",  "kB",    "B",     "-1",       "-1kB", "-1.5GiB", "+1",
        "+1kB", "1  GB", " 1GB", "1GB ",  "1 GB ", "1\tGB", "1 parsec", "1GBs", "1k",      "0x10",
        "01GB", ".5GB",  "1.GB", "1,5GB", "1GB2",  "1 2GB", "inf",      "nan",  "1e3 e3"}) {
    const std::string message = refused(text);
    EXPECT_CONTAINS(message, "\"" + std::string(text) + "\" is no size in bytes") << text;
    EXPECT_CONTAINS(message, "24GiB") << text;
  }
}

TEST(ConfigBytes, WrittenForPeople) {
  const struct {
    std::int64_t bytes;
    const char* text;
  } kCases[] = {{0, "0 B"},
                {1, "1 B"},
                {999, "999 B"},
                {1023, "1023 B"},
                {1024, "1.00 KiB"},
                {1536, "1.50 KiB"},
                {1024 * 1024 - 1, "1.00 MiB"},  // 1024.00 KiB would be the next unit
                {1024 * 1024, "1.00 MiB"},
                {std::int64_t{24} << 30, "24.00 GiB"},
                {std::int64_t{3} << 40, "3.00 TiB"},
                {std::int64_t{3} << 50, "3.00 PiB"},
                {std::int64_t{3} << 60, "3.00 EiB"},
                {kMax, "8.00 EiB"},
                {-1, "-1 B"},
                {-2048, "-2.00 KiB"}};
  for (const auto& c : kCases) EXPECT_EQ(format_bytes(c.bytes), c.text) << c.bytes;
}

TEST(ConfigBytes, WhatIsWrittenCanBeRead) {
  for (int unit = 0; unit <= 6; ++unit) {
    for (const std::int64_t n : {1, 2, 3, 5, 7}) {
      const std::int64_t bytes = n * power(1024, unit);
      EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
      EXPECT_EQ(parse_bytes(std::to_string(bytes)), bytes);
      if (unit == 0 || (unit == 6 && n == 7)) continue;  // no whole number; beyond the largest
      EXPECT_EQ(parse_bytes(format_bytes(bytes + bytes / 4)), bytes + bytes / 4);
    }
  }
}

}  // namespace
}  // namespace zero
