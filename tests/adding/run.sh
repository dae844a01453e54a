#!/bin/sh
# Walks docs/adding.md: adds a target, a drafter, an acceptance rule, a check and a subcommand to a copy of the sources,
# each as one file and the rows that the page names, links the command with them, and uses them.
# SPDX-License-Identifier: MIT
#
#     run.sh BUILD CXX
set -eu
build=$1 compiler=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
mkdir "$tree"
for part in kernels ref oracle zoo serve tools bench; do cp -r "$source/$part" "$tree/$part"; done

# A line of code, in FILE before the first line that is BEFORE; the page must name FILE.
add() {
  file=$1 before=$2 line=$3
  grep -q "\`$file\`" "$source/docs/adding.md" || { echo "docs/adding.md does not name $file" >&2; exit 1; }
  awk -v before="$before" -v line="$line" '!done && index($0, before) == 1 { print line; done = 1 } { print }
    END { exit !done }' "$tree/$file" >"$folder/changed" || { echo "$file has no line \"$before\"" >&2; exit 1; }
  cp "$folder/changed" "$tree/$file"
}

add ref/models/models.h '/// Returns the architectures above' 'extern const Architecture renamed_architecture;'
add ref/models/models.cpp '  };' '      &renamed_architecture,'
add ref/drafts/drafts.h '/// Returns the kinds above' 'extern const DraftKind last_token_kind;'
add ref/drafts/drafts.cpp '  };' '      &last_token_kind,'
add oracle/checks/checks.h '/// Returns the checks above' 'extern const Check tokens_of_rounds;'
add oracle/checks/checks.cpp '  };' '      &tokens_of_rounds,'
add ref/acceptance/rule.h 'extern const Rule matching;' 'extern const Rule accept_nothing;'
add ref/acceptance/rules.cpp '      nullptr,' '      &accept_nothing,'
add tools/commands.h 'void add_verify(' 'void add_hello(Command& app);'
add tools/command.cpp '  add_verify(app);' '  add_hello(app);'

# The command, linked as the build links it, with these objects in place of those of the libraries.
objects=
compile() {
  object=$folder/$(echo "$1" | tr / _).o
  "$compiler" -std=c++20 -O1 -ffp-contract=off -D_GLIBCXX_ASSERTIONS -I"$tree" -c "$2/$1" -o "$object"
  objects="$objects $object"
}
for file in target drafter rule check subcommand; do compile $file.cpp "$source/tests/adding"; done
for file in ref/models/models ref/drafts/drafts oracle/checks/checks ref/acceptance/rules tools/command tools/main; do
  compile $file.cpp "$tree"
done
link=$(ninja -C "$build" -t commands draftproof | tail -1 |
  sed "s| CMakeFiles/draftproof.dir/[^ ]*\.o | $objects -Wl,--allow-multiple-definition |; s| -o draftproof | -o $folder/draftproof |")
(cd "$build" && sh -c "$link")

dp() { "$folder/draftproof" "$@"; }
text() { dp generate "$source/fixtures/models/tale-target" --prompt "Once upon a time" -n 24 --seed 5 --temperature 0.8 "$@"; }
text --draft none >"$folder/plain"
text --draft "last-token?m=3" --rule matching >"$folder/drafted"
text --draft suffix --rule accept-nothing >"$folder/nothing"
cmp "$folder/plain" "$folder/drafted"
cmp "$folder/plain" "$folder/nothing"
dp verify "$source/fixtures/external/gemma2-tiny" --draft last-token --prompt-tokens 5,9 -n 12 --effort quick \
  >"$folder/verified" || { cat "$folder/verified"; exit 1; }
grep -q "tokens_of_rounds" "$folder/verified"
test "$(dp hello)" = hello
cp -r "$source/fixtures/external/qwen3-tiny-tied" "$folder/renamed"
sed -i 's/"qwen3"/"renamed"/; s/Qwen3ForCausalLM/RenamedForCausalLM/' "$folder/renamed/config.json"
for model in "$source/fixtures/external/qwen3-tiny-tied" "$folder/renamed"; do
  dp generate "$model" --prompt-tokens 1,2,3 -n 12 --draft none
done >"$folder/both"
test "$(sort -u "$folder/both" | wc -l)" = "$(($(wc -l <"$folder/both") / 2))"
echo "a target, a drafter, a rule, a check and a subcommand were added as docs/adding.md says"
