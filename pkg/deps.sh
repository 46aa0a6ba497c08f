#!/usr/bin/env bash
# Installs what building and testing TileComm needs and is missing (apt). Does nothing when nothing is missing.
set -euo pipefail

packages=(cmake g++ ninja-build pkg-config libgtest-dev libbenchmark-dev libhwy-dev nlohmann-json3-dev libcli11-dev
  abigail-tools clang-format python3 python3-cffi python3-pycparser)
cmake_minimum=3.25

version_at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
cmake_version() { command -v cmake >/dev/null && cmake --version | sed -n '1s/[^0-9]*//p'; }

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "pkg/deps.sh: no apt here. Install, under your system's names: ${packages[*]} (cmake >= $cmake_minimum)." >&2
  for tool in cmake c++ ninja; do
    command -v "$tool" >/dev/null || { echo "pkg/deps.sh: $tool is missing." >&2; exit 1; }
  done
  version_at_least "$cmake_minimum" "$(cmake_version)" || { echo "pkg/deps.sh: cmake is too old." >&2; exit 1; }
  exit 0
fi

# A name of another architecture or a removed package does not count as installed.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "pkg/deps.sh: as root, run: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "pkg/deps.sh: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

version_at_least "$cmake_minimum" "$(cmake_version)" || {
  echo "pkg/deps.sh: cmake $(cmake_version) is too old; put cmake >= $cmake_minimum into PATH." >&2
  exit 1
}
