#!/usr/bin/env bash
# What README.md tells people to type works, and the C++ it shows is code that is compiled.
#
# Every ```sh block after a line <!-- run --> is run, in a folder that looks like a built checkout;
# after <!-- run if PROGRAM -->, where that program is installed.
# tools/quickstart.sh and tools/test.sh would build everything anew: their syntax is checked.
# The ```json block after <!-- file: FILE --> equals that file.
# The ```cpp block after <!-- snippet: FILE --> equals the region // [snippet] of FILE.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/checkout/build" "$work/blocks"
for entry in "$ZERO_SOURCE_DIR"/*; do
  [[ $(basename "$entry") == build* ]] || ln -s "$entry" "$work/checkout/"
done
ln -s "$ZERO_BIN_DIR" "$work/checkout/build/bin"

python3 - "$ZERO_SOURCE_DIR" "$work/blocks" <<'PYTHON'
import pathlib, re, shutil, sys, textwrap
source, blocks = map(pathlib.Path, sys.argv[1:])
text = (source / "README.md").read_text(encoding="utf-8")

commands = re.findall(r"^<!-- run(?: if (\S+))? -->\s*\n```sh\n(.*?)^```$", text, re.M | re.S)
if not commands or len(commands) != text.count("```sh\n") or len(commands) != text.count("<!-- run"):
    sys.exit(f"README.md: {text.count('```sh')} sh blocks and {text.count('<!-- run')} marks "
             f"<!-- run -->, but {len(commands)} of them belong together")
for number, (program, command) in enumerate(commands):
    if program and shutil.which(program) is None:
        continue
    command = re.sub(r"^bash (tools/(?:quickstart|test)\.sh)", r"bash -n \1", command, flags=re.M)
    (blocks / f"{number:02}.sh").write_text(command)

snippets = re.findall(r"^<!-- snippet: (\S+) -->\s*\n```cpp\n(.*?)^```$", text, re.M | re.S)
if not snippets or len(snippets) != text.count("<!-- snippet: "):
    sys.exit("README.md: a mark <!-- snippet: FILE --> is missing, or no cpp block follows it")
for file, shown in snippets:
    region = re.search(r"^ *// \[snippet\]\n(.*?)^ *// \[/snippet\]$",
                       (source / file).read_text(encoding="utf-8"), re.M | re.S)
    if region is None:
        sys.exit(f"{file}: no region // [snippet] ... // [/snippet]")
    if textwrap.dedent(region[1]) != textwrap.dedent(shown):
        sys.exit(f"README.md: the snippet is not what {file} has:\n{textwrap.dedent(region[1])}")

files = re.findall(r"^<!-- file: (\S+) -->\s*\n```json\n(.*?)^```$", text, re.M | re.S)
if len(files) != text.count("<!-- file: "):
    sys.exit("README.md: no json block follows a mark <!-- file: FILE -->")
for file, shown in files:
    if (source / file).read_text(encoding="utf-8") != shown:
        sys.exit(f"README.md: the block is not what {file} has")
PYTHON

# mpirun as root, with more processes than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
cd "$work/checkout"
for block in "$work"/blocks/*.sh; do
  sed 's/^/$ /' "$block"
  bash -euo pipefail "$block" </dev/null
done
