#!/bin/sh
# Installs into a folder of its own, and builds and runs the example there as somebody else would: with the compiler and
# flags of the build, and nothing else from it.
# SPDX-License-Identifier: MIT
#
#     run.sh BUILD CXX FLAGS
set -eu
build=$1 compiler=$2 flags=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/prefix" >"$folder/install.log" || { cat "$folder/install.log"; exit 1; }
cp -r "$source/docs/examples/third_party_sampler" "$folder/example"
cmake -S "$folder/example" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_BUILD_TYPE=Debug >"$folder/configure.log" ||
  { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder/build"
"$folder/build/sampler_test" >"$folder/said" || { cat "$folder/said"; exit 1; }
grep "the careless sampler is one whose law" "$folder/said"

# Every header that is there can be included, but for those of one instruction set.
cd "$folder/prefix/include/draftproof"
find . -name '*.h' ! -name 'lanes_*' | sort | sed 's/^..\(.*\)/#include "\1"/' >"$folder/all.cpp"
test "$(wc -l <"$folder/all.cpp")" -gt 50
"$compiler" -std=c++20 -fsyntax-only -I"$folder/prefix/include/draftproof" "$folder/all.cpp"

"$folder/prefix/bin/draftproof" --version
if grep -rl "$source" "$folder/prefix/lib" "$folder/prefix/include" --include='*.cmake' --include='*.h'; then
  echo "what is installed names the folder it was built from" >&2
  exit 1
fi
