#!/usr/bin/env bash
# Installs what is missing, builds, and runs the whole test suite.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/install_packages.sh
cmake --preset release
cmake --build --preset release
ctest --preset release
