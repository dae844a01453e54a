#!/bin/sh
# Other people's clients for Python against a server on the shipped models: each script beside this one is called with
# its address and an API key. Needs a network once, to install the packages into BUILD/ENVIRONMENT; is skipped without.
# SPDX-License-Identifier: MIT
#
#     clients.sh BUILD DRAFTPROOF ENVIRONMENT 'PACKAGE...' SCRIPT...
set -eu
build=$1 draftproof=$2 environment=$1/$3 packages=$4
shift 4
models=$(cd "$(dirname "$0")/../.." && pwd)/fixtures/models
here=$(dirname "$0")

skip() {
  echo "skipped: $1" >&2
  exit 77
}
if [ "$(cat "$environment/installed" 2>/dev/null)" != "$packages" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment" || skip "python3-venv is missing"
  # shellcheck disable=SC2086
  "$environment/bin/pip" install -q $packages || skip "$packages cannot be installed"
  echo "$packages" >"$environment/installed"
fi

files=$(mktemp -d)
echo secret >"$files/keys"
"$draftproof" serve "$models/tale-target" --draft "dflash:$models/tale-dflash" --draft-max 5 --port 0 \
  --parallel 2 --waiting-max 2 --log-format none --api-key-file "$files/keys" >"$files/server" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$files"' EXIT
tries=0
until grep -q "^listening on " "$files/server"; do
  tries=$((tries + 1))
  [ $tries -le 300 ] || { echo "the server does not listen after 30 seconds" >&2; exit 1; }
  sleep 0.1
done
address=$(sed -n 's/^listening on //p' "$files/server")
for script in "$@"; do "$environment/bin/python" -B "$here/$script" "$address" secret; done
