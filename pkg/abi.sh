#!/usr/bin/env bash
# Compares the public interface of a built library (with debug information) with the committed dump, or renews the dump.
# usage: pkg/abi.sh {check|update} <libtilecomm.so>
set -euo pipefail

if [ $# -ne 2 ]; then
  sed -n '3s/^# //p' "$0" >&2
  exit 2
fi
pkg=$(cd "$(dirname "$0")" && pwd)
committed=$pkg/abi/libtilecomm.abi

# Only what tc.h says; no path and no line number, which differ between two checkouts.
dump() {
  abidw --headers-dir "$pkg/../include" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
    --no-write-default-sizes --exported-interfaces-only "$1" | sed "s: path='[^']*/: path=':" >"$2"
}

symbols() { sed -n "s/.*<elf-symbol name='\([^']*\)' version='\([^']*\)'.*/\1@\2/p" "$1" | sort; }

case $1 in
  update)
    mkdir -p "$pkg/abi"
    dump "$2" "$committed"
    ;;
  check)
    built=$(mktemp)
    trap 'rm -f "$built"' EXIT
    dump "$2" "$built"
    # Added functions are welcome, everything else is a break: bump the version, then run `pkg/abi.sh update`.
    status=0
    abidiff --no-added-syms "$committed" "$built" || status=$?
    # abidiff is content while one of two aliases (tcX, ptcX) is left.
    removed=$(comm -23 <(symbols "$committed") <(symbols "$built"))
    if [ -n "$removed" ]; then
      printf 'Removed symbols:\n%s\n' "$removed"
      status=1
    fi
    exit "$status"
    ;;
  *) exec "$0" ;;
esac
