// Paths, quoting and nearest names.
#include <gtest/gtest.h>

#include "src/config_text.hpp"

namespace zero::detail {
namespace {

TEST(ConfigText, PathsShowOddKeys) {
  EXPECT_EQ(join_path("", "fp16"), "fp16");
  EXPECT_EQ(join_path("zero_optimization", "stage"), "zero_optimization.stage");
  EXPECT_EQ(join_path("a", "b "), "a[\"b \"]");
  EXPECT_EQ(join_path("a", "b.c"), "a[\"b.c\"]");
  EXPECT_EQ(join_path("", ""), "[\"\"]");
  EXPECT_EQ(join_path("a", std::string(80, 'k')), "a." + std::string(80, 'k'));
  EXPECT_EQ(join_path("a", std::string(81, 'k')), "a[\"" + std::string(80, 'k') + "...\"]");
}

TEST(ConfigText, QuotesAsJson) {
  EXPECT_EQ(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quoted(std::string_view("\0\n\x1f\x7f", 4)), "\"\\u0000\\u000a\\u001f\\u007f\"");
  EXPECT_EQ(quoted("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(quoted("abc", 3), "\"abc\"");
  EXPECT_EQ(quoted("abcd", 3), "\"abc...\"");
}

TEST(ConfigText, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("a\nb", 3), "a?b");
  EXPECT_EQ(shortened("a\xc3\xa9z", 2), "a...");  // two bytes: one would be half a character
  EXPECT_EQ(shortened("a\xc3\xa9z", 3), "a\xc3\xa9...");
  EXPECT_EQ(shortened("", 0), "");
}

TEST(ConfigText, Nearest) {
  EXPECT_EQ(nearest("stge", {"fp16", "stage", "state"}), "stage");
  EXPECT_EQ(nearest("kitten", {"mitten", "sitting"}), "mitten");
  EXPECT_EQ(nearest("STAGE", {"stake", "stage"}), "stage");
  EXPECT_EQ(nearest("ab", {"ba", "abcd", "a"}), "a");  // 2, 2, 1
  EXPECT_EQ(nearest("xy", {"xa", "xb"}), "xa");        // the first of equals
  EXPECT_EQ(nearest("abcd", {"abxy"}), "abxy");
  EXPECT_EQ(nearest("abcd", {"axyz"}), "");  // another word
  EXPECT_EQ(nearest("", {"abc", "ab"}), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(ConfigText, CommentKeys) {
  for (const char* key : {"_", "_x", "//", "// x"}) EXPECT_TRUE(is_comment_key(key)) << key;
  for (const char* key : {"", "/", "x_", " _x", "#"}) EXPECT_FALSE(is_comment_key(key)) << key;
}

}  // namespace
}  // namespace zero::detail
