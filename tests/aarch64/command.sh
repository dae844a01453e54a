#!/bin/sh
# SPDX-License-Identifier: MIT
# Cross-compiles the whole command for aarch64 and runs it under qemu, with and without dot products of bytes, beside the
# command of this machine: recorded runs, the signature, and traces are the same bytes, and a model is proved there. Needs
# root and debootstrap, which gets the libraries of that architecture, and takes as long as a build.
#
#     command.sh FOLDER DRAFTPROOF [CMAKE_OPTION ...]
#
# JOBS says with how many processes. TESTS names tests of folders to be built and run as well, for example
# "acceptance_test decoding_test".
set -eu
for program in aarch64-linux-gnu-g++ qemu-aarch64-static debootstrap; do
  command -v $program >/dev/null || { echo "skipped: $program is missing" >&2; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root" >&2; exit 77; }
source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
here=$(realpath "$2")
shift 2
root=$folder/root
libraries=/usr/lib/aarch64-linux-gnu

# What a program is linked with there. Nothing in it is run to set it up, so links that set-up scripts make are missing.
if [ ! -e "$folder/root.made" ]; then
  rm -rf "$root"
  compiler=$(aarch64-linux-gnu-g++ -dumpversion | cut -d. -f1)
  packages="libc6-dev libstdc++-$compiler-dev $(sed -n '/^packages="/,/"$/p' "$source/tools/install_packages.sh" |
    tr -d '"\\' | tr ' ' '\n' | grep '^lib.*-dev$\|-dev$' | tr '\n' ' ')"
  . /etc/os-release
  debootstrap --foreign --arch=arm64 --variant=minbase --include="$(echo $packages | tr ' ' ',')" \
    "$VERSION_CODENAME" "$root" http://deb.debian.org/debian >"$folder/log" || { tail "$folder/log"; exit 1; }
  for package in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
  done
  ln -sf hdf5-serial.pc "$root$libraries/pkgconfig/hdf5.pc"
  ln -sf openblas-pthread/cblas.h "$root/usr/include/aarch64-linux-gnu/cblas.h"
  ln -sf openblas-pthread/openblas_config.h "$root/usr/include/aarch64-linux-gnu/openblas_config.h"
  touch "$folder/root.made"
fi

PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root$libraries/pkgconfig:$root/usr/share/pkgconfig \
  cmake -S "$source" -B "$folder/build" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_SYSROOT="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON "$@" >"$folder/log" ||
  { tail -n 30 "$folder/log"; exit 1; }
# shellcheck disable=SC2086
cmake --build "$folder/build" --parallel "${JOBS:-$(nproc)}" --target draftproof ${TESTS:-}

# there CPU COMMAND...
there() {
  cpu=$1
  shift
  qemu-aarch64-static -cpu "$cpu" -L "$root" "$@"
}
command=$folder/build/draftproof
models=$source/fixtures/models
cd "$source"
there max "$command" --version
"$here" --version

there max "$command" signature >"$folder/signature"
head -n 1 "$folder/signature" | diff - "$source/fixtures/snapshots/signature.txt" >"$folder/differs" ||
  { grep -q '^<' "$folder/differs" && { cat "$folder/differs"; exit 1; }; }
echo "the signature is that of fixtures/snapshots"

for run in "$source"/fixtures/snapshots/*.h5; do
  there max "$command" fixture replay "$run"
done

# Traces name the kernels that made them and end with the digest of what they say, and differ in nothing else. They name
# the file of their rows, too: both traces have the same name, in two folders.
same_but_for_kernels() {
  for side in here there; do
    sed 's/"kernels":"[^"]*"/"kernels":""/; $s/"sha256":"[0-9a-f]*"/"sha256":""/' \
      "$folder/$side/trace.jsonl" >"$folder/$side/compared"
  done
  cmp "$folder/here/compared" "$folder/there/compared"
  rows=trace.jsonl.rows.h5
  [ ! -e "$folder/here/$rows" ] || cmp "$folder/here/$rows" "$folder/there/$rows"
}
written() {
  name=$1
  shift
  for draft in "self" "$@"; do
    for temperature in 0 1; do
      set -- generate "$models/$name" --draft "$draft" --prompt "Once upon a time" -n 24 --temperature $temperature \
        --seed 5 --rule rejection --trace
      rm -rf "$folder/here" "$folder/there"
      mkdir "$folder/here" "$folder/there"
      "$here" "$@" "$folder/here/trace.jsonl" >"$folder/here/text"
      for cpu in max cortex-a72; do
        there $cpu "$command" "$@" "$folder/there/trace.jsonl" >"$folder/there/text"
        cmp "$folder/here/text" "$folder/there/text"
        same_but_for_kernels
      done
    done
  done
  echo "$name gives the same texts and traces"
}
written tale-target "dflash:$models/tale-dflash" "eagle3:$models/tale-eagle3"
written tale-hybrid "mtp:$models/tale-hybrid-mtp"
written tale-gemma "mtp:$models/tale-gemma-assistant"
written tale-llama suffix

there max "$command" trace check "$folder/here/trace.jsonl" --target "$models/tale-llama"
"$here" trace check "$folder/there/trace.jsonl" --target "$models/tale-llama"
there max "$command" verify "$models/tale-small" --draft self --effort quick -n 12 --prompt "Once upon a time"
for test in ${TESTS:-}; do
  there max "$folder/build/$test" --gtest_filter='-*Slow*.*:*Sweep*.*'
done
