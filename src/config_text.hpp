// Small text helpers of the configuration: JSON paths, quoting for messages, nearest names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zero::detail {

// Keys that start with "_" or "//" are comments.
bool is_comment_key(std::string_view key);

// "zero_optimization" + "stage" -> "zero_optimization.stage". A key that is more than letters,
// digits and underscores is written as ["..."], so that no blank or dot in it goes unseen.
std::string join_path(std::string_view parent, std::string_view key);

// The text as a JSON string. Cut after `limit` bytes, with "..." in the place of the rest.
std::string quoted(std::string_view text, std::size_t limit = std::string_view::npos);

// For messages: control characters become '?', and what is beyond `limit` bytes becomes "...".
std::string shortened(std::string_view text, std::size_t limit);

// The candidate with the fewest insertions, deletions and replacements of single characters to
// `name`, the first of several; upper and lower case count as the same. Empty if more than half of
// the longer one would have to change.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

std::string lowercase(std::string_view text);

}  // namespace zero::detail
