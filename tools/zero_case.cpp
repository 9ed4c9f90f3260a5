// zero-case: runs reproduction files (README, "Case files"): parameters and gradients given as
// numbers, so that a bug report is a file.
//
// Exit code: 0 everything holds; 1 something does not, or the output cannot be written; 3 nothing
// failed, but a file needs what is not built yet; 2 wrong usage, a file that cannot be read, or no
// CUDA device where one is asked for.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "tools/case_json.hpp"
#include "tools/case_reader.hpp"
#include "tools/case_runner.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace {

enum ExitCode { kAllHold = 0, kMismatch = 1, kBadUsage = 2 };

struct Line {
  std::string file;
  int stage = -1;  // -1: the file as a whole
  const char* verdict = "ok";
  std::string detail;
};

// The problems of a configuration come one a line; here they share one.
std::string one_line(const std::string& text) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) line += line.ends_with(':') ? " " : "; ";
    line += text.substr(at, end - at);
    at = std::min(text.find_first_not_of("\n ", end), text.size());
  }
  return line;
}

void print(const Line& line, bool json) {
  const std::string stage = std::to_string(line.stage);
  if (json) {
    std::printf("{\"type\": \"case\", \"file\": %s, \"stage\": %s, \"verdict\": \"%s\"%s%s}\n",
                zero::cases::quote(line.file).c_str(), line.stage < 0 ? "null" : stage.c_str(),
                line.verdict, line.detail.empty() ? "" : ", \"detail\": ",
                line.detail.empty() ? "" : zero::cases::quote(line.detail).c_str());
  } else {
    std::printf("%-13s %s%s%s%s%s\n", line.verdict, line.file.c_str(),
                line.stage < 0 ? "" : " stage ", line.stage < 0 ? "" : stage.c_str(),
                line.detail.empty() ? "" : ": ", one_line(line.detail).c_str());
  }
  std::fflush(stdout);
}

// Runs one file at the stages asked for that the file allows; returns what applies of the codes.
std::vector<ExitCode> run_file(const std::string& path, const std::vector<int>& stages,
                               zero::DeviceKind device, bool json) {
  zero::cases::CaseFile file;
  try {
    file = zero::cases::load_case(path);
  } catch (const std::exception& error) {
    print({path, -1, "BAD FILE", error.what()}, json);
    return {kBadUsage};
  }
  std::vector<ExitCode> codes;
  for (const int stage : file.stages) {
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) continue;
    const zero::cases::Outcome outcome = zero::cases::run_case(file, stage, device);
    switch (outcome.verdict) {
      case zero::cases::Verdict::kHolds:
        print({path, stage, "ok", ""}, json);
        codes.push_back(kAllHold);
        break;
      case zero::cases::Verdict::kFails:
        print({path, stage, "FAIL", outcome.detail}, json);
        codes.push_back(kMismatch);
        break;
    }
  }
  if (codes.empty()) {
    print({path, -1, "not run", "the file is for none of the stages of --stages"}, json);
    codes.push_back(kBadUsage);
  }
  return codes;
}

int run(int argc, char** argv) {
  CLI::App app("Runs reproduction files: small training runs written as numbers.", "zero-case");
  std::vector<std::string> files;
  std::vector<int> stages = {0, 1, 2, 3};
  std::string device_name = "host";
  bool json = false;
  app.add_option("FILE", files, "case files (JSON)")->required();
  app.add_option("--stages", stages, "ZeRO stages to run at, of those the file is for: 0,1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is a file
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("--device", device_name,
                 "where the ranks hold their memory and compute; cuda: rank r on device r modulo "
                 "their number")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  app.add_flag("--json", json, "one JSON object per line instead of text");
  app.footer(
      "Exit code: 0 all hold, 1 a mismatch or output that cannot be written, 2 wrong usage, a bad\n"
      "file or no CUDA device.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kAllHold : kBadUsage;
  }
  const auto device = device_name == "cuda" ? zero::DeviceKind::kCuda : zero::DeviceKind::kHost;
  if (device == zero::DeviceKind::kCuda) {
    try {  // says what is missing once, and not for every file and stage
      zero::make_cuda_device();
    } catch (const zero::CudaError& error) {
      std::fprintf(stderr, "zero-case: --device cuda: %s\n", error.what());
      return kBadUsage;
    }
  }

  std::vector<ExitCode> codes;
  for (const std::string& file : files) {
    for (const ExitCode code : run_file(file, stages, device, json)) codes.push_back(code);
  }
  for (const ExitCode code : {kBadUsage, kMismatch}) {
    if (std::find(codes.begin(), codes.end(), code) != codes.end()) return code;
  }
  return kAllHold;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
  std::fputs("zero-case: not everything could be written to standard output\n", stderr);
  return code == kAllHold ? kMismatch : code;
}
