#!/usr/bin/env bash
# The layers hold, and the check that says so sees each kind of violation.
set -euo pipefail
check="$ZERO_SOURCE_DIR/tools/check_layers.py"
python3 "$check" "$ZERO_SOURCE_DIR"

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{include/zero,src,kernels,stages,tools,tests,bench}
touch "$tree"/include/zero/{error,device,communicator,world}.hpp "$tree"/src/{layout,grad_norm}.hpp
echo '#include "zero/error.hpp"' >"$tree/include/zero/device.hpp"
echo '#include "src/layout.hpp"' >"$tree/tests/test_layout.cpp"
python3 "$check" "$tree"

# FILE LINE EXPECTED: the line alone must make the check fail with the expected text.
must_fail() {
  printf '%s\n' "// first line" "$2" >"$tree/$1"
  if output=$(python3 "$check" "$tree"); then
    echo "not seen: $2 in $1" >&2
    exit 1
  fi
  if [[ "$output" != *"$1:"*"$3"* ]]; then
    printf 'expected "%s" about %s, got:\n%s\n' "$3" "$1" "$output" >&2
    exit 1
  fi
  rm "$tree/$1"
}
must_fail include/zero/ledger.hpp '#include "zero/communicator.hpp"' "layer 1 includes"
must_fail src/layout.cpp '#include "src/grad_norm.hpp"' "layer 2 includes"
must_fail kernels/adam_host.cpp '#include "zero/communicator.hpp"' "layer 2 includes"
must_fail stages/stage0.cpp '  #  include "zero/world.hpp"' "layer 5 includes"
must_fail src/grad_norm.cpp '#include "../tests/test_layout.cpp"' "layer 4 includes"
must_fail tools/zero_train.cpp '#include "src/layout.hpp"' "tools may include"
must_fail tools/zero_train.cpp '#include "kernel/none.hpp"' "is no file of this project"
must_fail src/novelty.cpp '#include "zero/error.hpp"' "no layer is named"
python3 "$check" "$tree"
