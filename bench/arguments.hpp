// The command line of a bench: flags with a value, checked, each refusal naming flag and value.
//
// Thread-safety: one thread. Every member may end the process: 0 after --help, 2 after a refusal.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace zero::bench {

class Arguments {
 public:
  // `usage` is what --help prints: "usage: NAME ...", with a line for each flag.
  Arguments(int argc, char** argv, std::string name, const char* usage)
      : argc_(argc), argv_(argv), name_(std::move(name)), usage_(usage) {}

  // Goes on to the next argument; false at the end.
  bool next() {
    if (++at_ >= argc_) return false;
    flag_ = argv_[at_];
    if (flag_ != "--help") return true;
    std::fputs(usage_, stdout);
    std::exit(std::fflush(stdout) == 0 ? 0 : 1);
  }
  bool is(std::string_view flag) const { return flag_ == flag; }

  // The value of the flag.
  std::string text() {
    if (++at_ >= argc_) refuse(flag_ + " needs a value");
    return argv_[at_];
  }
  std::int64_t whole(std::int64_t least, std::int64_t most) {
    const std::string given = text();
    std::int64_t value = 0;
    if (!parse(given, value) || value < least || value > most) {
      refuse(flag_ + " \"" + given + "\": valid: a whole number from " + std::to_string(least) +
             " to " + std::to_string(most));
    }
    return value;
  }
  double seconds() {
    const std::string given = text();
    double value = 0;
    if (!parse(given, value) || !(value > 0 && value <= kLongest)) {
      refuse(flag_ + " \"" + given + "\": valid: a number above 0, at most 86400");
    }
    return value;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    std::fprintf(stderr, "%s: %s\n", name_.c_str(), why.c_str());
    std::exit(2);
  }
  [[noreturn]] void refuse_unknown() const {
    refuse("unknown argument \"" + flag_ + "\"\n" + usage_);
  }

 private:
  static constexpr double kLongest = 86400;

  template <class T>
  static bool parse(const std::string& given, T& value) {
    const char* const end = given.data() + given.size();
    const auto result = std::from_chars(given.data(), end, value);
    return result.ec == std::errc() && result.ptr == end;
  }

  int argc_;
  char** argv_;
  std::string name_;
  const char* usage_;
  int at_ = 0;
  std::string flag_;
};

}  // namespace zero::bench
