#include "tools/ckpt_options.hpp"

#include <CLI/CLI.hpp>
#include <limits>
#include <string>

namespace ckpt {

namespace {

constexpr const char* kAbout =
    "Looks into checkpoints, checks them, and writes them in other forms.";

constexpr const char* kFooter =
    "DIR is the folder of one checkpoint (with a manifest.json), or a folder with checkpoints in "
    "it,\n"
    "as zero-train --save-dir names it: of these the one that a resume would take. Nothing but\n"
    "convert and prune writes into such a folder; keep those two away from one that a run is\n"
    "saving into.\n"
    "Exit codes: 0 all is well; 1 verify found damage or nothing that a resume could take, diff a\n"
    "difference, or the output could not be written; 2 it could not be done, or bad flags.\n"
    "Example: zero-ckpt verify checkpoints && zero-ckpt consolidate checkpoints "
    "model.safetensors";

CLI::Option* add_count(CLI::App& command, const char* flag, int& value, const char* what) {
  return command.add_option(flag, value, what)
      ->required()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, Options& o) {
  CLI::App app(kAbout, "zero-ckpt");
  app.footer(kFooter);
  app.require_subcommand(1);

  CLI::App& inspect =
      *app.add_subcommand("inspect", "what is in a checkpoint; reads its manifest alone");
  inspect.add_option("DIR", o.path, "a checkpoint, or a folder of them")->required();
  inspect.add_flag("--json", o.json,
                   "one JSON object: the manifest without checksums of blocks, and sizes");

  CLI::App& verify = *app.add_subcommand(
      "verify",
      "reads all of it: every checksum, every element there exactly once, every value finite; "
      "of a folder of checkpoints every one");
  verify.add_option("DIR", o.path, "a checkpoint, or a folder of them")->required();
  verify.add_flag(
      "--json", o.json,
      "one JSON object: checkpoints (folder, whole, problems), and which a resume takes, or why "
      "none");

  CLI::App& consolidate = *app.add_subcommand(
      "consolidate", "the weights in one safetensors file, which the Python package reads");
  consolidate.add_option("DIR", o.path, "a checkpoint, or a folder of them")->required();
  consolidate
      .add_option(
          "FILE", o.other,
          "the file to write, e.g. model.safetensors; it appears when it is complete, in the "
          "place of an older one; anything but a plain file, and what belongs to a checkpoint, is "
          "left alone")
      ->required();
  std::string dtype = "master";
  consolidate
      .add_option(
          "--dtype", dtype,
          "master: fp32 (frozen parameters in their own dtype); working: every parameter in "
          "the dtype that the model computes with")
      ->check(CLI::IsMember({"master", "working"}))
      ->capture_default_str();

  CLI::App& diff = *app.add_subcommand(
      "diff", "what two checkpoints hold that is not the same, bit for bit, however they are cut");
  diff.add_option("A", o.path, "one")->required();
  diff.add_option("B", o.other, "the other")->required();

  CLI::App& convert =
      *app.add_subcommand("convert",
                          "the same checkpoint as another number of ranks would have written it; "
                          "only for programs that "
                          "want it so, since any number of ranks can load any checkpoint");
  convert.add_option("DIR", o.path, "a checkpoint, or a folder of them")->required();
  convert.add_option("OUT", o.other, "the folder to write step-NNNNNNNN into")->required();
  add_count(convert, "--world-size", o.world_size, "how many files");

  CLI::App& prune = *app.add_subcommand("prune", "removes old checkpoints, and says which");
  prune.add_option("DIR", o.path, "a folder of checkpoints")->required();
  add_count(prune, "--keep", o.keep,
            "how many of the newest stay; the one that a resume takes stays in any case");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (dtype == "working") o.dtype = zero::WeightsDtype::kWorking;
  if (verify.parsed()) o.command = Command::kVerify;
  if (consolidate.parsed()) o.command = Command::kConsolidate;
  if (diff.parsed()) o.command = Command::kDiff;
  if (convert.parsed()) o.command = Command::kConvert;
  if (prune.parsed()) o.command = Command::kPrune;
  return std::nullopt;
}

}  // namespace ckpt
