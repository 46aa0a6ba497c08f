#!/usr/bin/env bash
# The README's C example compiles as it stands, runs, and says that its result is right.
# usage: readme_test.sh <repository> <libtilecomm.so>
set -euo pipefail

repository=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2016
sed -n '/^```c$/,/^```$/{/^```/d;p}' "$repository/README.md" >"$work/example.c"
grep -q 'int main' "$work/example.c" || { echo "README.md has no C example"; exit 1; }
"${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror -I"$repository/include" "$work/example.c" -o "$work/example" \
  "$library" -Wl,-rpath,"$(dirname "$library")"
output=$("$work/example")
echo "$output"
grep -q 'ok$' <<<"$output"
