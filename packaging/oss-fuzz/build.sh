#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds the fuzz targets as OSS-Fuzz does, from $SRC/draftproof into $OUT, with its compilers, flags and engine.

# The libraries of the system are built with libstdc++.
export CXXFLAGS="${CXXFLAGS//-stdlib=libc++/}"
# OpenMP's is where the system's clang looks for it, and the compilers here are others.
openmp=$(ls -d /usr/lib/llvm-*/lib/clang/*/include/omp.h | tail -1)
export CXXFLAGS="$CXXFLAGS -idirafter ${openmp%/omp.h}" LIBRARY_PATH="${openmp%/clang/*}"
build=${WORK:-/tmp}/draftproof
cmake -S "$SRC/draftproof" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DDRAFTPROOF_FUZZ=ON -DDRAFTPROOF_WERROR=OFF -DLIB_FUZZING_ENGINE="$LIB_FUZZING_ENGINE"
cmake --build "$build" --target fuzz_libfuzzer fuzz

# What the targets need where they run: the fixtures beside them, and libraries that are not there.
mkdir -p "$OUT/lib" "$OUT/fixtures/models"
cp -r "$SRC/draftproof/fixtures/external" "$OUT/fixtures/"
cp -r "$SRC/draftproof/fixtures/models/tale-target" "$OUT/fixtures/models/"
for program in "$build"/fuzz_*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  name=$(basename "$program")
  target=${name#fuzz_}
  ldd "$program" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm|ld-linux.*)\.so/ {print $3}' | xargs -I{} cp {} "$OUT/lib/"
  cp "$program" "$OUT/"
  patchelf --set-rpath '$ORIGIN/lib' "$OUT/$name"
  rm -rf "$build/seeds" && "$build/fuzz" "$target" --write-seeds "$build/seeds"
  failed=$SRC/draftproof/tests/fuzz/corpus/$target
  [ ! -d "$failed" ] || cp "$failed"/* "$build/seeds/"
  (cd "$build/seeds" && zip -q -r "$OUT/${name}_seed_corpus.zip" .)
  dictionary=$SRC/draftproof/tests/fuzz/dictionaries/$target.dict
  [ ! -f "$dictionary" ] || cp "$dictionary" "$OUT/$name.dict"
done
