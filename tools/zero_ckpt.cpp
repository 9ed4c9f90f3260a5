// zero-ckpt: looks into checkpoints, checks them, and writes them in other forms.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/ckpt_diff.hpp"
#include "tools/ckpt_inspect.hpp"
#include "tools/ckpt_options.hpp"
#include "tools/ckpt_verify.hpp"
#include "zero/checkpoint.hpp"
#include "zero/checkpoint_tools.hpp"

namespace {

enum ExitCode { kDone = 0, kFound = 1, kFailed = 2 };

// Names of files may be any bytes.
std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void note(const std::string& text) {
  if (!text.empty()) std::cerr << "note: " << text << '\n';
}

zero::CheckpointReader open(zero::FileSystem& files, const std::string& path) {
  zero::CheckpointReader reader(files, path);
  note(reader.note());
  return reader;
}

ExitCode verify(zero::FileSystem& files, const ckpt::Options& options) {
  const ckpt::Verified verified = ckpt::verify(files, options.path);
  note(verified.note);
  std::cout << (options.json ? dump(ckpt::verify_json(verified)) : ckpt::verify_text(verified));
  return verified.all_is_well() ? kDone : kFound;
}

ExitCode diff(zero::FileSystem& files, const ckpt::Options& options) {
  zero::CheckpointReader a = open(files, options.path), b = open(files, options.other);
  const ckpt::Differences found = ckpt::differences(a, b);
  for (const std::string& text : found.notes) note(text);
  for (const std::string& line : found.lines) std::cout << line << '\n';
  return found.lines.empty() ? kDone : kFound;
}

ExitCode run(zero::FileSystem& files, const ckpt::Options& options) {
  using ckpt::Command;
  if (options.command == Command::kVerify) return verify(files, options);
  if (options.command == Command::kDiff) return diff(files, options);
  if (options.command == Command::kPrune) {
    for (const std::string& name : zero::prune_checkpoints(files, options.path, options.keep)) {
      std::cout << name << '\n';
    }
    return kDone;
  }
  zero::CheckpointReader reader = open(files, options.path);
  if (options.command == Command::kConsolidate) {
    zero::consolidate_checkpoint(files, reader, options.other, options.dtype);
    std::cout << options.other << '\n';
  } else if (options.command == Command::kConvert) {
    std::cout << zero::convert_checkpoint(files, reader, options.other, options.world_size) << '\n';
  } else {
    std::cout << (options.json ? dump(ckpt::inspect_json(reader)) : ckpt::inspect_text(reader));
  }
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  ckpt::Options options;
  int code = kDone;
  if (const auto end = ckpt::parse_command_line(argc, argv, options)) {
    code = *end;  // --help has been printed
  } else {
    try {
      code = run(zero::posix_file_system(), options);
    } catch (const std::exception& error) {
      std::cerr << "zero-ckpt: " << error.what() << '\n';
      return kFailed;
    }
  }
  if (std::cout.flush()) return code;
  std::cerr << "zero-ckpt: not everything could be written to standard output\n";
  return code == kDone ? kFound : code;
}
