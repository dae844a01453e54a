#!/bin/sh
# shared_cache.py, where PYTHON has huggingface_hub. SPDX-License-Identifier: MIT
#
#     shared_cache.sh PYTHON DRAFTPROOF FOLDER_OF_A_MODEL
set -eu
cd "$(dirname "$0")"
if ! "$1" -c 'import huggingface_hub' 2>/dev/null; then
  echo "skipped: huggingface_hub is not installed for $1"
  exit 77
fi
PYTHONDONTWRITEBYTECODE=1 exec "$1" shared_cache.py "$2" "$3"
