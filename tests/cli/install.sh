#!/usr/bin/env bash
# The installed package is found, compiled against, linked and run by a project that knows nothing
# of this tree.
set -euo pipefail
build=$(dirname "$ZERO_BIN_DIR")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
sanitize=$(cached ZERO_SANITIZE)

cmake --install "$build" --prefix "$work/prefix" >/dev/null
# The sources are copied, so that nothing is reached by a relative path.
cp -r "$ZERO_SOURCE_DIR/tests/consumer" "$work/source"
cmake -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" \
  -DCMAKE_EXE_LINKER_FLAGS="${sanitize:+-fsanitize=$sanitize}"
cmake --build "$work/build"
"$work/build/consumer" | tee "$work/output"
grep -qx 'w = 0.5 1.5 2.5' "$work/output"

# Everything public and nothing private is installed.
diff <(cd "$ZERO_SOURCE_DIR/include" && find . -name '*.hpp' | sort) \
     <(cd "$work/prefix/include" && find . -type f | sort)
