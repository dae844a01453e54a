#!/bin/sh
# Whether every source is as `make format` leaves it. SPDX-License-Identifier: MIT
set -eu
cd "$(dirname "$0")/../.."
version=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$version" != 14 ]; then
  echo "skipped: clang-format 14 is not installed, and another version formats differently"
  exit 77
fi
find kernels ref oracle zoo serve tools python bench tests docs/examples -name '*.h' -o -name '*.cpp' -o -name '*.inc' |
  xargs clang-format --dry-run -Werror || { echo "run make format" >&2; exit 1; }
