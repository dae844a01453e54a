#!/bin/sh
# Installs into a separate folder, and builds and runs the example there as a user would: with the compiler and flags of
# the build, and nothing else from it. SPDX-License-Identifier: MIT
#
#     run.sh BUILD CXX FLAGS
set -eu
build=$1 compiler=$2 flags=$3
PATH=/usr/bin:$PATH  # the distribution's CMake first, which may be older than another that is installed
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
grep "the careless sampler is one whose" "$folder/said"

cp -r "$source/docs/examples/generate" "$folder/generate"
cmake -S "$folder/generate" -B "$folder/build-generate" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_BUILD_TYPE=Debug >"$folder/configure.log" ||
  { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder/build-generate"
models=$source/fixtures/models
(cd "$folder" && build-generate/generate "$models/tale-target" "dflash:$models/tale-dflash" "Once upon a time" >said)
grep -q '^32 tokens in [12]. rounds$' "$folder/said" && grep -qx PASS_EXACT "$folder/said" || { cat "$folder/said"; exit 1; }

# The package must find Boost, which its headers include, at configuration and not fail at compilation.
if cmake -S "$folder/example" -B "$folder/without" -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON >"$folder/said" 2>&1; then
  echo "the package is found without Boost, and its headers need it" >&2
  exit 1
fi
grep -q Boost "$folder/said"

# Every installed header can be included by itself.
cd "$folder/prefix/include/draftproof"
find . -name '*.h' | sort | sed 's/^..\(.*\)/#include <draftproof\/\1>/' >"$folder/all.cpp"
test "$(wc -l <"$folder/all.cpp")" -gt 50
test ! -e ref/drafts/lookup_file.h  # no part of what docs/library.md promises
"$compiler" -std=c++20 -fsyntax-only -I"$folder/prefix/include" "$folder/all.cpp"

# A callable that is not a sampler is refused with a message.
refused() {
  printf '#include <draftproof/oracle/matchers.h>\nTEST(A, B) { EXPECT_THAT(%s, draftproof::HasExactDistribution({1})); }\n' "$1" \
    >"$folder/refused.cpp"
  if "$compiler" -std=c++20 -fsyntax-only -I.. -include gtest/gtest.h "$folder/refused.cpp" 2>"$folder/said"; then
    echo "a sampler compiles that is none: $1" >&2
    exit 1
  fi
  grep -q "assert.*$2" "$folder/said"
}
refused '[n = 0](draftproof::RandomSource&) mutable { return n++; }' "pass a mutable one as std::ref"
refused '[](draftproof::RandomSource&) { return 0.5; }' "a token, which is an integer"

"$folder/prefix/bin/draftproof" --version
for file in man/man1/draftproof.1.gz bash-completion/completions/draftproof zsh/site-functions/_draftproof \
  fish/vendor_completions.d/draftproof.fish; do
  test -s "$folder/prefix/share/$file"
done
if grep -rl "$source" "$folder/prefix/lib" "$folder/prefix/include" --include='*.cmake' --include='*.h'; then
  echo "what is installed names the folder it was built from" >&2
  exit 1
fi
