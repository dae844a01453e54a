#!/bin/bash
# SPDX-License-Identifier: MIT
# campaign_over_mpi.sh DRAFTPROOF MPIRUN MODELS: the report of a campaign over 1 to 3 ranks is that of one process, to
# the byte, also when ranks are killed meanwhile and when a trial fails; what is refused is refused by rank 0 alone.
source "$(dirname "$0")/mpi.sh"
cd "$work"

write_campaign "1, 2"

# report NAME COMMAND...: the report of a campaign whose results are in the same folder each time.
report() {
  local name=$1
  shift
  local status=0
  "$@" campaign c.json --quiet --json "$name.json" 2> "$name.err" || status=$?
  [ "$status" = 0 ] || fail "status $status of $name: $(cat "$name.err")"
}

report alone "$draftproof"
rm -r c.results
for ranks in 1 2 3; do
  report "$ranks" "$mpirun" -n "$ranks" "$draftproof"
  cmp alone.json "$ranks.json" || fail "the report over $ranks ranks"
  [ "$(results)" = 12 ] || fail "results over $ranks ranks"
  rm -r c.results
done

# Ranks are killed, the first one and another one, after some trials; then it goes on over another number of ranks.
for victim in 1 0; do
  before=$(results)
  "$mpirun" -n 3 "$draftproof" campaign c.json --quiet > /dev/null 2> err.txt &
  run=$!
  for _ in $(seq 600); do
    [ "$(results)" -gt "$before" ] && break
    sleep 0.05
  done
  for child in $(pgrep -P "$run"); do
    if grep -qz "^OMPI_COMM_WORLD_RANK=$victim\$" "/proc/$child/environ"; then kill -KILL "$child"; fi
  done
  status=0
  wait "$run" || status=$?
  [ "$status" != 0 ] || fail "a killed rank $victim left status 0"
  kept=$(results)
  { [ "$kept" -gt "$before" ] && [ "$kept" -lt 12 ]; } || fail "$kept results are left by a killed rank $victim"
done
report resumed "$mpirun" -n 2 "$draftproof"
cmp alone.json resumed.json || fail "the report after two kills"

# No trial outlives its rank.
sleep 0.2
! pgrep -f "verify $models/tale-target.*draftproof-trial" > /dev/null || fail "a trial goes on without its rank"

# Bad input.
echo '{"color": 1}' > bad.json
status=0
"$mpirun" -n 3 "$draftproof" campaign bad.json > out.txt 2> err.txt || status=$?
[ "$status" = 3 ] || fail "status $status of a campaign that is none"
[ "$(grep -c "has no field 'color'" err.txt)" = 1 ] || fail "$(cat err.txt)"

[ "$failed" = 0 ] && echo "all as in one process"
exit "$failed"
