#!/bin/sh
# Official clients for Python (OpenAI, Anthropic, Ollama, LangChain) against a server on the shipped models. Needs a
# network once, to install them into a virtual environment; is skipped without. SPDX-License-Identifier: MIT
#
#     clients.sh BUILD DRAFTPROOF
set -eu
build=$1 draftproof=$2
models=$(cd "$(dirname "$0")/../.." && pwd)/fixtures/models
environment=$build/clients
here=$(dirname "$0")

skip() {
  echo "skipped: $1" >&2
  exit 77
}
[ -x "$environment/bin/python" ] || python3 -m venv "$environment" || skip "python3-venv is missing"
"$environment/bin/python" -c 'import anthropic, langchain_openai, ollama, openai' 2>/dev/null ||
  "$environment/bin/pip" install -q anthropic langchain-openai ollama openai || skip "the clients cannot be installed"

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
"$environment/bin/python" "$here/openai_client.py" "$address" secret
"$environment/bin/python" "$here/clients_with_tools.py" "$address" secret
