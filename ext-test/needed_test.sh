#!/usr/bin/env bash
# The library needs nothing but the C and C++ runtime, and bears the soname that its users record.
# usage: needed_test.sh <libtilecomm.so> <soname>
set -euo pipefail

library=$1 soname=$2
dynamic=$(readelf -dW "$library")
allowed='^(libc|libm|libstdc\+\+|libgcc_s|libdl|libpthread|librt|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$'

needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
[ -n "$needed" ] || { echo "no NEEDED entry found"; exit 1; }
if grep -vE "$allowed" <<<"$needed"; then
  echo "^ the library may not need these"
  exit 1
fi
got=$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")
[ "$got" = "$soname" ] || { echo "soname is '$got', not '$soname'"; exit 1; }
if grep -E 'RPATH|RUNPATH|TEXTREL' <<<"$dynamic"; then
  echo "^ the library may not carry these"
  exit 1
fi
