#!/bin/sh
# The Python package, with the module that was built. SPDX-License-Identifier: MIT
#
#     run.sh BUILD PYTHON
set -eu
build=$1
python=$2
cd "$(dirname "$0")"

if [ ! -d "$build/python" ]; then
  echo "skipped: there is no module: without python3-dev and pybind11-dev, and with sanitizers, cmake makes none"
  exit 77
fi
if ! "$python" -c 'import numpy' 2>/dev/null; then
  echo "skipped: numpy (python3-numpy) is not installed for $python"
  exit 77
fi
PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 DRAFTPROOF_BINARY=$build/draftproof exec "$python" -m unittest
