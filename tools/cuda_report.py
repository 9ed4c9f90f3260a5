#!/usr/bin/env python3
"""Registers, shared memory, spills and occupancy of every CUDA kernel, by file and architecture.

Usage: cuda_report.py BUILD_DIR

Compiles the .cu files of a build configured with ZERO_CUDA=ON once more, by the commands in its
compile_commands.json, and asks the assembler. The block size is the one that a kernel declares by
__launch_bounds__, which is the one that it is launched with. Occupancy is the share of a
multiprocessor's 2048 threads that are resident at once, by the limits of compute capability 8.0 and
9.0 (CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability").

Exits 1 if a kernel spills registers, or keeps more local memory than its arrays with an index of
run time need, or declares no block size.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SHARED_BYTES = {"sm_80": 164 << 10, "sm_90": 228 << 10}  # of a multiprocessor
REGISTERS, THREADS, BLOCKS, PARTITIONS, WARP = 65536, 2048, 32, 4, 32
# Bytes of local memory that belong to the algorithm: the waiting sums of a tree, for packs of 8 and
# for single elements, 9 levels each, to a multiple of 16; the settings of a group; the digits of a sum.
LOCAL_BYTES = {"sum_kernel<.*true>": 336, "begin_kernel": 40, "conclude_kernel": 160}

INFO = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '(?P<arch>sm_\d+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.S)
ENTRY = re.compile(r"\.entry (\w+)\([^{]*?\.maxntid (\d+)", re.S)


def compile_again(command, folder):
    """The assembler's report and the block size of each kernel of one file."""
    arguments = [a for a in shlex.split(command["command"]) if not a.startswith("-Werror")]
    while "nvcc" not in arguments[0]:
        arguments.pop(0)  # a compiler launcher
    at = arguments.index("-o")
    del arguments[at:at + 2]
    arguments += ["-Xptxas=-v", "--keep", "--keep-dir", folder, "-o", f"{folder}/out.o"]
    done = subprocess.run(arguments, cwd=command["directory"], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    threads = {}
    for ptx in pathlib.Path(folder).glob("*.ptx"):
        threads.update({name: int(count) for name, count in ENTRY.findall(ptx.read_text())})
    return done.stderr + done.stdout, threads


def blocks_per_multiprocessor(arch, registers, shared, threads):
    def round_up(value, unit):
        return (value + unit - 1) // unit * unit

    warps = (threads + WARP - 1) // WARP
    resident = REGISTERS // PARTITIONS // round_up(registers * WARP, 256) * PARTITIONS
    return min(BLOCKS, THREADS // threads, resident // warps,
               SHARED_BYTES[arch] // round_up(shared + 1024, 128))


def readable(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True,
                          check=True).stdout
    short = []
    for line in text.splitlines():
        line = re.sub(r"^void |\(anonymous namespace\)::|zero::(kernels::)?", "", line)
        line = re.sub(r"\(UpdateConstants::Rule\)(\d)",
                      lambda m: ("AdamW", "AdamL2", "Sgd")[int(m[1])], line)
        short.append(re.sub(r">\(.*|(?<=\w)\((?!.*>).*", lambda m: m[0][0].strip("("), line))
    return dict(zip(names, short))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 0 if "--help" in sys.argv[1:] else 2
    commands = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    kernels = []
    for command in commands:
        if not command["file"].endswith(".cu") or "nvcc" not in command["command"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            log, threads = compile_again(command, folder)
        kernels += [(match, threads.get(match["name"])) for match in INFO.finditer(log)]
    if not kernels:
        sys.exit(f"{sys.argv[1]} builds no CUDA kernel; configure it with ZERO_CUDA=ON")
    names = readable(list(dict.fromkeys(match["name"] for match, _ in kernels)))
    wrong = []
    print(f"{'arch':6} {'regs':>4} {'shared':>6} {'local':>5} {'spills':>6} {'block':>5} "
          f"{'blocks/SM':>9} {'occupancy':>9}  kernel")
    for match, threads in sorted(kernels, key=lambda k: (names[k[0]["name"]], k[0]["arch"])):
        name, arch = names[match["name"]], match["arch"]
        registers, local = int(match["registers"]), int(match["stack"])
        spills = int(match["stores"]) + int(match["loads"])
        smem = re.search(r"(\d+) bytes smem", match["rest"])
        shared = int(smem[1]) if smem else 0
        if threads is None:
            wrong.append(f"{name} ({arch}) declares no __launch_bounds__")
            continue
        blocks = blocks_per_multiprocessor(arch, registers, shared, threads)
        print(f"{arch:6} {registers:4} {shared:6} {local:5} {spills:6} {threads:5} {blocks:9} "
              f"{blocks * threads / THREADS:9.0%}  {name}")
        if spills > 0:
            wrong.append(f"{name} ({arch}) spills {spills} bytes")
        most = max([size for pattern, size in LOCAL_BYTES.items() if re.search(pattern, name)] + [0])
        if local > most:
            wrong.append(f"{name} ({arch}) has {local} bytes of local memory, {most} are expected")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
