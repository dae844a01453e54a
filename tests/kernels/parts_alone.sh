#!/bin/sh
# Parses every kernels/*.inc alone with the flags of .clangd, as an editor does. SPDX-License-Identifier: MIT
#
#     parts_alone.sh COMPILER
set -eu
compiler=$1
cd "$(dirname "$0")/../.."

echo 'int main() {}' | "$compiler" -x c++ -mamx-tile -mavx512bf16 -fsyntax-only - 2>/dev/null || exit 77  # not for x86

# The flags of the blocks of .clangd whose PathMatch fits a file; "suppressed" where one says so.
flags_for() {
  sed -n 's/^ *PathMatch: /match /p; s/^ *Add: \[\(.*\)\]$/add \1/p; s/^ *Suppress: .*/add suppressed/p' .clangd |
    while read -r what rest; do
      if [ "$what" = match ]; then
        pattern=$rest
      elif echo "$1" | grep -qxE -- "${pattern-none}"; then
        echo "$rest" | tr -d ','
      fi
    done
}

failures=0
for part in kernels/*.inc; do
  flags=$(flags_for "$part")
  case "$flags" in
    *suppressed*) echo "left out: $part"; continue ;;
    *PARTS_BEFORE*) ;;
    *) echo "$part: no block of .clangd says PARTS_BEFORE for it"; failures=$((failures + 1)); continue ;;
  esac
  # shellcheck disable=SC2086
  if "$compiler" -I. $flags -fsyntax-only "$part"; then
    echo "ok: $part"
  else
    failures=$((failures + 1))
  fi
done
[ "$failures" = 0 ]
