#!/usr/bin/env bash
# From nothing to a trained model: installs what is missing, builds the tools, and trains a small
# GPT on this project's own text with two ranks at stage 2. Ends in the loss curve and the memory
# table.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/install_packages.sh
cmake --preset release
cmake --build --preset release --target zero-train

mapfile -t text < <(find README.md include src kernels stages tools \
                      -name '*.md' -o -name '*.hpp' -o -name '*.cpp' | sort)
echo "training on ${#text[@]} files of this project, 2 ranks, stage 2"
build/bin/zero-train --config configs/stage2.json --ranks 2 --steps "${ZERO_QUICKSTART_STEPS:-500}" \
  --data "${text[@]}"
