#!/usr/bin/env bash
# What is installed works after it was moved: for pkg-config (shared, static) and find_package(TileComm) users.
# usage: package_test.sh <build dir> <C compiler> <C++ compiler>
set -euo pipefail

build=$1 cc=$2 cxx=$3
consumer=$(cd "$(dirname "$0")/consumer" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH

cmake --install "$build" --prefix "$work/first" >/dev/null
mkdir "$work/a place"
prefix="$work/a place/moved"
mv "$work/first" "$prefix"
pkgconfig_dir=$(dirname "$(find "$prefix" -name tilecomm.pc)")
libdir=$(dirname "$pkgconfig_dir")

echo "== installed"
find "$prefix" -mindepth 1 -printf '%P\n' | sort
text=$(grep -rIlF -e "$work/first" -e "$build" -e "${consumer%/ext-test/consumer}" "$prefix" || true)
[ -z "$text" ] || { echo "a path of the sources, the build or the first prefix is left in: $text"; exit 1; }

# Runs a program and tells whether it needs libtilecomm.so: run <shared|static> <program>
run() {
  local wanted=$1 program=$2 got=static
  if readelf -d "$program" | grep -q 'NEEDED.*libtilecomm\.so\.0'; then got=shared; fi
  [ "$got" = "$wanted" ] || { echo "$program: libtilecomm is $got, not $wanted"; exit 1; }
  echo "== $(basename "$program") ($wanted)"
  if [ "$wanted" = shared ]; then LD_LIBRARY_PATH=$libdir "$program"; else "$program"; fi
}

# pkg-config prints a shell's words: a blank in the prefix is escaped.
flags() { PKG_CONFIG_PATH=$pkgconfig_dir pkg-config "$@" tilecomm; }
compile() { eval "\"$1\" $2 -o \"$3\" \"$4\" $5"; }

grep -qF "set(PACKAGE_VERSION \"$(flags --modversion)\")" "$libdir/cmake/TileComm/TileCommConfigVersion.cmake"
compile "$cc" -std=c99 "$work/c_shared" "$consumer/consumer.c" "$(flags --cflags --libs) -pthread -lm"
run shared "$work/c_shared"
compile "$cxx" -std=c++11 "$work/cxx_shared" "$consumer/consumer.cc" "$(flags --cflags --libs) -pthread"
run shared "$work/cxx_shared"

# A tree without the shared library, as static users keep it: -ltilecomm then means the archive.
cp -r "$prefix" "$work/archive"
rm "$work"/archive/"${libdir#"$prefix"/}"/libtilecomm.so*
static_flags=$(PKG_CONFIG_PATH="$work/archive/${pkgconfig_dir#"$prefix"/}" pkg-config --cflags --libs --static tilecomm)
compile "$cc" -std=c99 "$work/c_archive" "$consumer/consumer.c" "$static_flags"
run static "$work/c_archive"
# Nothing shared at all, libc included.
compile "$cc" "-std=c99 -static" "$work/c_static" "$consumer/consumer.c" "$(flags --cflags --libs --static)"
run static "$work/c_static"

# Without C++ first: the static library must name what its C++ needs.
for languages in C "C;CXX"; do
  cmake -S "$consumer" -B "$work/consumer" -G Ninja --fresh -DCMAKE_PREFIX_PATH="$prefix" -DLANGUAGES="$languages" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" --no-warn-unused-cli >/dev/null
  cmake --build "$work/consumer" >/dev/null
  run shared "$work/consumer/consumer_tilecomm"
  run static "$work/consumer/consumer_tilecomm_static"
done
run shared "$work/consumer/consumer_cxx_tilecomm"
run static "$work/consumer/consumer_cxx_tilecomm_static"
echo "package: ok"
