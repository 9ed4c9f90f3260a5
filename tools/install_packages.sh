#!/usr/bin/env bash
# Installs what the build needs and this machine lacks (Debian, Ubuntu).
# Usage: install_packages.sh [EXTRA_PACKAGE...]. Does nothing, and needs no root, if all is there.
set -euo pipefail

packages=(g++ cmake ninja-build libeigen3-dev nlohmann-json3-dev libcli11-dev libxxhash-dev
          libgtest-dev libgmock-dev libbenchmark-dev libopenmpi-dev openmpi-bin python3 "$@")

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_packages.sh: no apt-get here. Install by other means what these Debian packages" \
       "hold: ${packages[*]}. Then configure with: cmake --preset release" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ "$status" == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: missing packages: ${missing[*]}. Run as root, or install sudo." >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
         apt-get install -y -qq --no-install-recommends "${missing[@]}")
# Fresh images have no package lists, and old lists name files that are gone.
"${install[@]}" </dev/null >/dev/null 2>&1 || {
  "${as_root[@]}" apt-get update -qq </dev/null
  "${install[@]}" </dev/null
}
