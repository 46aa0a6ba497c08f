#!/usr/bin/env bash
# The library exports exactly the functions that tc.h declares, tc* (weak) and ptc*, all at the version script's node.
# usage: symbols_test.sh <tc.h> <tilecomm.map> <libtilecomm.so>
set -euo pipefail

export LC_ALL=C
header=$1 map=$2 library=$3
node=TC_0.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${CC:-cc}" -E -P "$header" | tr '\n' ' ' | grep -oE '\bp?tc[A-Z][A-Za-z0-9]* ?\(' | tr -d ' (' | sort -u \
  >"$work/header"
sed -n "/^$node {/,/^};/s/^ *\(p\?tc[A-Za-z0-9]*\);$/\1/p" "$map" | sort >"$work/map"
nm -D --defined-only "$library" | awk '{print $3, $2}' | sort >"$work/exported"
# The node itself is listed as an absolute symbol.
{ sed "/^tc/s/$/@@$node W/;/^ptc/s/$/@@$node T/" "$work/header" && echo "$node A"; } | sort >"$work/wanted"
sed -n 's/^ptc/tc/p' "$work/header" >"$work/profiled"
sed -n '/^tc/p' "$work/header" >"$work/plain"

status=0
same() { diff -u --label "$1" --label "$2" "$3" "$4" || status=1; }
same "tc* in tc.h" "ptc* in tc.h" "$work/plain" "$work/profiled"
same "tc.h" "tilecomm.map" "$work/header" "$work/map"
same "wanted of the library" "nm -D" "$work/wanted" "$work/exported"
[ "$(wc -l <"$work/header")" -ge 114 ] || { echo "only $(wc -l <"$work/header") functions found in tc.h"; status=1; }
exit "$status"
