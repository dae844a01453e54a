#!/bin/sh
# SPDX-License-Identifier: MIT
# Cross-compiles the kernels and their tests for aarch64 and runs the fast ones under qemu: compares NEON with the scalar
# table, and both with the snapshot that the tables of this machine are compared with.
# usage: tests/aarch64/run.sh BUILD_FOLDER CBLAS_FOLDER EIGEN_FOLDER
set -eu
build=$1

for program in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  if ! command -v $program >/dev/null; then
    echo "SKIPPED, aarch64 is not tested here: $program is missing; install the Debian packages g++-aarch64-linux-gnu" \
      "and qemu-user-static."
    exit 77
  fi
done

cmake -S "$(dirname "$0")" -B "$build" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCBLAS_FOLDER="$2" -DEIGEN_FOLDER="$3"
cmake --build "$build" --parallel "$(nproc)"
# A CPU with dot products of bytes, and one without. Left out are the mutants that checks must see, on any machine.
DRAFTPROOF_BEST_KERNELS=neon qemu-aarch64-static -cpu max "$build/kernels_test" \
  --gtest_filter="-*Slow*.*:*Sweep*.*:*.*Detect*"
DRAFTPROOF_BEST_KERNELS=scalar qemu-aarch64-static -cpu cortex-a72 "$build/kernels_test" --gtest_filter=Tables.*
