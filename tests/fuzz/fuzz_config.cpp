// libFuzzer on the loader of configurations. The same promises are tested on seeded mutations in
// every run of the suite (test_config_fuzz.cpp); this is for longer ones:
//   cmake --preset fuzz && cmake --build --preset fuzz && mkdir -p corpus
//   build-fuzz/bin/fuzz_config -max_total_time=600 -max_len=4096 corpus configs
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/config_property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const zero::Facts& facts : {zero::Facts(), zero::config_test::all_facts()}) {
    const zero::config_test::Outcome outcome = zero::config_test::read_any(text, facts);
    if (outcome.broken.empty()) continue;
    std::fprintf(stderr, "%s\n", outcome.broken.c_str());
    std::abort();
  }
  return 0;
}
