#!/bin/sh
# Proves, on the models shipped in fixtures/models, that speculative decoding equals plain decoding, then shows a text.
# SPDX-License-Identifier: MIT
set -eu

draftproof=$1
models=fixtures/models
prompt=$(head -n 1 $models/prompts.txt)

prove() {
  "$draftproof" verify $models/tale-target --draft dflash:$models/tale-dflash model:$models/tale-small \
    --prompt "$prompt" --max-new-tokens 48 --seed 7 --effort full "$@"
}

echo "== greedy"
prove --temperature 0
echo "== temperature 1, rule matching: the same seed gives the same text with every draft"
prove --temperature 1 --rule matching
echo "== temperature 1, rule rejection: the same distribution, exactly"
prove --temperature 1 --rule rejection
echo "== a text, with speculative decoding"
"$draftproof" generate $models/tale-target --draft dflash:$models/tale-dflash --prompt "$prompt" \
  --max-new-tokens 120 --temperature 0.8 --seed 3 --stats
