#!/usr/bin/env python3
"""Checks that every file includes only its own layer or a lower one (design, section 3).

Usage: check_layers.py [ROOT]. Prints each violation as FILE:LINE and exits 1 if there is one.
A project file that no row of the table names is a violation too: a new part says where it belongs.
"""
import fnmatch
import pathlib
import re
import sys

# First match wins. A trailing * also takes the parts of one thing, e.g. src/config_schema.cpp.
LAYERS = [
    (0, ["include/zero/error.hpp", "include/zero/dtype.hpp", "include/zero/config*.hpp",
         "include/zero/device_kind.hpp", "include/zero/version.hpp"]),
    (0, ["include/zero/scheduler_settings.hpp"]),
    (0, ["src/error*", "src/dtype*", "src/config*"]),
    (1, ["include/zero/device.hpp", "include/zero/ledger.hpp", "include/zero/buffer.hpp"]),
    (1, ["src/device*", "src/ledger*", "src/buffer*", "src/arena*",
         "src/staging*", "src/profiler*", "src/cuda_check.hpp"]),
    (1, ["include/zero/file_system.hpp", "src/file_*"]),
    (2, ["include/zero/model_shape.hpp", "src/model_shape*"]),
    (2, ["include/zero/param_spec.hpp", "include/zero/layout.hpp", "src/layout*", "kernels/*"]),
    (2, ["include/zero/copy.hpp", "src/copy*"]),
    (3, ["include/zero/communicator.hpp", "include/zero/traffic.hpp",
         "include/zero/nccl_id.hpp"]),
    (3, ["src/communicator*", "src/local_group*", "src/traffic*"]),
    (4, ["include/zero/lr_schedule.hpp", "include/zero/step_result.hpp"]),
    (4, ["src/grad_reducer*", "src/param_gatherer*", "src/shard_optimizer*"]),
    (4, ["src/grad_norm*", "src/vote*", "src/loss_scaler*", "src/lr_schedule*"]),
    (4, ["src/runtime*", "src/registration*", "src/shard_sum*", "src/bucket_policy*"]),
    (4, ["src/rates*", "src/owned_pieces*", "src/step_log*", "src/rank_*"]),
    (5, ["include/zero/stage.hpp", "src/stage*", "stages/*"]),
    (6, ["include/zero/zero_optimizer.hpp", "include/zero/partition_manager.hpp"]),
    (6, ["include/zero/checkpoint*.hpp", "include/zero/save_load.hpp", "include/zero/world.hpp",
         "include/zero/nccl.hpp"]),
    (6, ["src/zero_optimizer*", "src/partition_manager*", "src/checkpoint*", "src/world*"]),
    (6, ["src/tensor_access*"]),
    (7, ["tools/*", "tests/*", "bench/*"]),
]
SUFFIXES = {".hpp", ".cpp", ".inc", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def layer_of(path):
    for layer, patterns in LAYERS:
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
            return layer
    return None


def resolve(root, includer, target):
    """The project file an include names, as a path below root; None if it is not one of ours."""
    for base in (root / includer).parent, root / "include", root:
        candidate = (base / target).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    return None


def violations(root):
    root = pathlib.Path(root).resolve()
    folders = ["include", "src", "kernels", "stages", "tools", "tests", "bench"]
    files = sorted(f for folder in folders for f in (root / folder).rglob("*")
                   if f.suffix in SUFFIXES)
    for file in files:
        name = file.relative_to(root).as_posix()
        layer = layer_of(name)
        if layer is None:
            yield f"{name}:1: no layer is named for this file; add it to tools/check_layers.py"
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = resolve(root, name, match[1])
            if target is None:
                # A project path that is not there would hide a violation.
                yield f'{name}:{number}: "{match[1]}" is no file of this project; use <> for others'
                continue
            target_layer = layer_of(target)
            if target_layer is not None and target_layer > layer:
                yield (f"{name}:{number}: layer {layer} includes {target} of layer "
                       f"{target_layer}; only layers 0 to {layer} are allowed")
            if name.startswith("tools/") and not target.startswith(("include/zero/", "tools/")):
                yield (f"{name}:{number}: a tool includes {target}; tools may include "
                       f"include/zero/ and tools/ only")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    found = list(violations(root))
    print("\n".join(found) if found else "layers hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
