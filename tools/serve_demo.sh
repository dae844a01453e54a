#!/bin/sh
# Serves the model shipped in fixtures/models, lets three clients ask at once, proves that every answer equals plain
# decoding, and stops the server in order.
# SPDX-License-Identifier: MIT
set -eu

draftproof=$1
models=fixtures/models
files=$(mktemp -d)
server=

clean_up() {
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  rm -rf "$files"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

fail() {
  echo "serve-demo: $1" >&2
  exit 1
}

echo "== starting the server"
"$draftproof" serve $models/tale-target --draft dflash:$models/tale-dflash --draft-max 5 --port 0 --log-format none \
  >"$files/server" &
server=$!
address=
tries=0
while [ -z "$address" ]; do
  kill -0 "$server" 2>/dev/null || fail "the server has ended; its message is above"
  tries=$((tries + 1))
  [ $tries -le 300 ] || fail "the server does not listen after 30 seconds"
  sleep 0.1
  address=$(sed -n 's/^listening on //p' "$files/server")
done
echo "$address"

echo "== client 1 begins to prove: 48 requests, 6 at a time, some of which it cancels in the middle"
"$draftproof" verify --endpoint "$address" $models/tale-target --requests 48 --clients 6 --seed 7 >"$files/proof" 2>&1 &
prover=$!

if command -v curl >/dev/null; then
  ask() { curl -sSfN --max-time 120 -H 'Content-Type: application/json' "$address$1" -d "$2"; }
  # The strings of JSON as text; draftproof escapes only quotes, backslashes and control characters.
  plain_text() {
    while IFS= read -r line || [ -n "$line" ]; do
      printf '%b' "$(printf '%s' "$line" | sed 's/\\"/"/g')"
    done
    echo
  }

  echo "== client 2, meanwhile: a chat, told as a stream"
  ask /v1/chat/completions '{"messages":[{"role":"user","content":"In the village of Winterford there was a young"}],
    "max_tokens":60,"seed":3,"temperature":0.8,"stream":true}' >"$files/chat" || fail "the chat was not answered"
  tail -n 2 "$files/chat" | grep -q '^data: \[DONE\]' || fail "the stream of the chat has no end"
  sed -n 's/^data: .*"content":"\(.*\)"},"logprobs":.*/\1/p' "$files/chat" | plain_text

  echo "== client 3, meanwhile: the same completion with speculative decoding and without"
  question='{"prompt":"Once upon a time","max_tokens":80,"seed":11,"temperature":0.9'
  ask /v1/completions "$question}" >"$files/with" || fail "the completion was not answered"
  ask /v1/completions "$question,\"speculative\":false}" >"$files/without" || fail "the completion was not answered"
  for which in with without; do
    sed -n 's/.*"text":"\(.*\)","logprobs":.*/\1/p' "$files/$which" >"$files/$which.text"
    sed -n 's/.*"accepted_tokens":\([0-9]*\).*/\1/p' "$files/$which" >"$files/$which.accepted"
  done
  plain_text <"$files/with.text"
  [ -s "$files/with.text" ] || fail "the completion has no text"
  cmp -s "$files/with.text" "$files/without.text" || fail "the two texts differ"
  echo "equal, with $(cat "$files/with.accepted") accepted draft tokens and with $(cat "$files/without.accepted")"
else
  echo "== curl is not installed: the clients for a chat and for a completion are left out"
fi

echo "== client 1 has compared every answer with plain decoding"
status=0
wait "$prover" || status=$?
cat "$files/proof"
[ $status -eq 0 ] || fail "the proof failed with status $status"

echo "== stopping the server with SIGTERM"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
[ $status -eq 0 ] || fail "the server ended with status $status"
echo "it has drained and ended with status 0"
