#!/bin/bash
# SPDX-License-Identifier: MIT
# over_mpi.sh DRAFTPROOF MPIRUN MODELS: traces, texts and files over 1 to 4 ranks are those of one process, to the byte;
# what cannot run over ranks is refused; and a rank that is killed ends all with a sentence, and the text where it is.
source "$(dirname "$0")/mpi.sh"
export OMPI_MCA_odls_base_sigkill_timeout=3  # seconds that the others have to say so, however busy the machine is

# over RANKS WORDS...: draftproof over so many ranks.
over() {
  local ranks=$1
  shift
  "$mpirun" -n "$ranks" "$draftproof" "$@"
}

same() {
  cmp "$1" "$2" || fail "$3"
}

# check RANKS_LIST NAME WORDS...: traces and texts of generate.
check() {
  local list=$1 name=$2
  shift 2
  local words=(generate "$@" --prompt "Once upon a time" --seed 7 --threads 1)
  mkdir -p "$work/plain" "$work/ranks"  # a trace names the file of its rows
  "$draftproof" "${words[@]}" --trace "$work/plain/trace.jsonl" > "$work/plain/text"
  for ranks in $list; do
    over "$ranks" "${words[@]}" --trace "$work/ranks/trace.jsonl" > "$work/ranks/text" || fail "$name over $ranks ranks"
    diff -r "$work/plain" "$work/ranks" || fail "text and trace of $name over $ranks ranks"
  done
  rm -r "$work/plain" "$work/ranks"
}

check "1 2 3 4" plain "$models/tale-target" --max-new-tokens 12
check "2 3" dflash "$models/tale-target" --draft "dflash:$models/tale-dflash" --max-new-tokens 24 --temperature 1
check "4" rejection "$models/tale-target" --draft "model:$models/tale-small" --max-new-tokens 12 --temperature 1 \
  --rule rejection
check "2" eagle3 "$models/tale-target" --draft "eagle3:$models/tale-eagle3" --max-new-tokens 16
check "3" quantized "$models/tale-target" --draft suffix --quantize q4 --kv q8 --max-new-tokens 12
check "3" hybrid "$models/tale-hybrid" --draft "mtp:$models/tale-hybrid-mtp" --max-new-tokens 12
check "2" gemma "$models/tale-gemma" --draft suffix --max-new-tokens 12 --kv f32
check "2 3" assistant "$models/tale-gemma" --draft "mtp:$models/tale-gemma-assistant" --max-new-tokens 12
check "2 3" self "$models/tale-target" --draft "self?layers=4" --max-new-tokens 12 --temperature 1
check "2" shifted "$models/tale-target" --context-shift 16 4 4 --max-new-tokens 16

# The file of a prefix cache, written and read.
for run in 1 2; do
  words=(generate "$models/tale-target" --prompt "Once upon a time there was" --max-new-tokens 8 --threads 1 --json -)
  "$draftproof" "${words[@]}" --prefix-cache "$work/plain.prefixes" > /dev/null
  over 3 "${words[@]}" --prefix-cache "$work/ranks.prefixes" > "$work/prefixes.json"
  same "$work/plain.prefixes" "$work/ranks.prefixes" "the prefix cache over 3 ranks, run $run"
done
grep -q '"reused": [1-9]' "$work/prefixes.json" || fail "the prefix cache was not read"

words=(verify "$models/tale-target" --draft "dflash:$models/tale-dflash" --effort quick --threads 1)
over 2 "${words[@]}" > "$work/verify.txt" 2>&1 ||
  fail "verify over 2 ranks: $(tail -3 "$work/verify.txt")"

# refused SENTENCE RANKS WORDS...
refused() {
  local sentence=$1
  shift
  local status=0
  over "$@" > "$work/out.txt" 2> "$work/err.txt" || status=$?
  [ "$status" = 3 ] || fail "status $status of $*"
  grep -q "$sentence" "$work/err.txt" || fail "no sentence on '$sentence': $(cat "$work/err.txt")"
  [ ! -s "$work/out.txt" ] || fail "text of what is refused: $*"
}
refused "over several ranks run generate" 2 inspect "$models/tale-target"
refused "openblas: has bits of each machine's own" 2 generate "$models/tale-target" --kernels openblas --prompt a
refused "no-such-model" 3 generate "$models/no-such-model" --prompt a

# A server: the same answers, then it ends by its signal.
answers() {
  local port=$1
  for prompt in "Once upon a time" "The sun" "Once upon a time there was"; do
    curl -sf "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
      -d "{\"prompt\": \"$prompt\", \"max_tokens\": 24, \"temperature\": 1, \"seed\": 5}" |
      sed 's/"id": *"[^"]*"//; s/"created": *[0-9]*//' | grep -o '"text": *"[^"]*"'
  done
}
start() {  # COMMAND...: starts a server; leaves `server`, its process, and `port`
  "$@" serve "$models/tale-target" --draft "dflash:$models/tale-dflash" --port 0 --threads 1 > "$work/serve.txt" \
    2> "$work/err.txt" &
  server=$!
  port=
  for _ in $(seq 300); do
    port=$(cat "$work/serve.txt" "$work/err.txt" | grep -o '127.0.0.1:[0-9]*' | head -1 | cut -d: -f2) || true
    [ -n "$port" ] && break
    sleep 0.1
  done
}
serve() {  # OUTPUT COMMAND...: starts a server, asks it, and ends it
  local output=$1
  shift
  start "$@"
  answers "$port" > "$output" || fail "no answers: $(cat "$work/err.txt")"
  local process=$server
  for child in $(pgrep -P "$server"); do
    if grep -qz '^OMPI_COMM_WORLD_RANK=0$' "/proc/$child/environ"; then process=$child; fi
  done
  kill -INT "$process"
  wait "$server" || fail "the server ended with status $?: $(cat "$work/err.txt")"
}
serve "$work/plain.answers" "$draftproof"
serve "$work/ranks.answers" "$mpirun" -n 2 "$draftproof"
[ "$(wc -l < "$work/plain.answers")" = 3 ] || fail "a server gave no answers"
same "$work/plain.answers" "$work/ranks.answers" "answers of a server over 2 ranks"

# lose RANK RUN: kills a rank of the three of a run, which has to end soon and not well, with a sentence of each other.
lose() {
  local victim=$1 run=$2 status=0 began=$SECONDS
  for child in $(pgrep -P "$run"); do
    if grep -qz "^OMPI_COMM_WORLD_RANK=$victim\$" "/proc/$child/environ"; then kill -KILL "$child"; fi
  done
  wait "$run" || status=$?
  [ "$status" != 0 ] || fail "a killed rank $victim left status 0"
  [ $((SECONDS - began)) -lt 10 ] || fail "the others took $((SECONDS - began)) s to end"
  for rank in 0 1 2; do
    # mpirun sometimes drops what a rank says at its end, and says itself which one was killed.
    [ "$rank" = "$victim" ] || grep -q "rank $rank ends, because another rank is gone" "$work/err.txt" ||
      grep -q "process rank $victim .* exited on signal 9" "$work/err.txt" ||
      fail "rank $rank said nothing when rank $victim was killed: $(cat "$work/err.txt")"
  done
}
appears() {  # FILE: waits until there is something in it, and is soon back: the rest must not be there yet
  for _ in $(seq 3000); do
    [ -s "$1" ] && return
    sleep 0.01
  done
  fail "nothing came into $1"
}
begins() {  # TEXT WHOLE: the text is the beginning of the other, and not all of it
  local size
  size=$(wc -c < "$1")
  [ "$size" -gt 0 ] || fail "no text before a rank was killed"
  [ "$size" -lt "$(wc -c < "$2")" ] || fail "a text went on to its end after a rank was killed"
  head -c "$size" "$2" | cmp - "$1" || fail "a killed rank changed the text before its end"
}

words=(generate "$models/tale-target" --prompt Once --max-new-tokens 1000 --threads 1 --temperature 1)
"$draftproof" "${words[@]}" > "$work/whole"
for victim in 1 0; do
  "$mpirun" -n 3 "$draftproof" "${words[@]}" > "$work/text" 2> "$work/err.txt" &
  appears "$work/text"
  lose "$victim" $!
  begins "$work/text" "$work/whole"
done

"$mpirun" -n 3 "$draftproof" verify "$models/tale-target" --draft "dflash:$models/tale-dflash" --threads 1 \
  > "$work/verify.txt" 2> "$work/err.txt" &
sleep 2  # of about a minute
lose 1 $!
! grep -E "PASS|BUG" "$work/verify.txt" || fail "a verdict, though a rank was killed"

stream() {  # the text of a stream, as long as it goes; how events divide it is a matter of time
  curl -sN "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
    -d '{"prompt": "Once", "max_tokens": 1000, "temperature": 1, "seed": 5, "stream": true}' > "$work/events" || true
  { grep -o '"text": *"[^"]*"' "$work/events" || true; } | sed 's/"text": *"//; s/"$//' | tr -d '\n'
}
start "$draftproof"
stream > "$work/whole"
kill -INT "$server"
wait "$server"
start "$mpirun" -n 3 "$draftproof"
rm "$work/events"
stream > "$work/text" &
asker=$!
appears "$work/events"
lose 1 "$server"
wait "$asker"
begins "$work/text" "$work/whole"

[ "$failed" = 0 ] && echo "all as in one process"
exit "$failed"
