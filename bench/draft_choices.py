# SPDX-License-Identifier: MIT
"""What a tuner could gain by choosing more than the number of draft tokens: where chains end, and trees.

    python3 bench/draft_choices.py TARGET DRAFT... [--prompts FILE] [--tokens N] [--temperature T] [--draftproof PROGRAM]

Continues every prompt with each draft as chains of 1 to 7 draft tokens, the same with `min_prob`, and as trees, all of
them fixed. Counts rounds, draft tokens and the passes of the draft, and no times, so it may run beside anything. Prints
for machines on which a row of a pass and a pass of the draft cost so much of plain decoding how many times as fast as
plain decoding the best of each would be. A draft of one pass (`--one-pass`) has one for a proposal. Needs Python only.
"""

import argparse
import json
import subprocess

LENGTHS = [1, 2, 3, 4, 5, 7]
ENDS = [0.2, 0.4, 0.6, 0.8, 0.9]
TREES = [2, 3, 4, 6, 8, 12, 16, 24]
ROWS = [0.02, 0.05, 0.1, 0.2, 0.4]
PASSES = [0.02, 0.1, 0.3]


def count(options, draft: str, length: int) -> dict:
    """Output tokens, rounds, draft tokens and passes of the draft, of all prompts."""
    sums = {"tokens": 0, "rounds": 0, "drafted": 0, "passes": 0}
    with open(options.prompts, encoding="utf-8") as file:
        for prompt in file.read().splitlines():
            words = [options.draftproof, "generate", options.target, "--prompt", prompt, "--max-new-tokens",
                     str(options.tokens), "--temperature", str(options.temperature), "--draft", draft, "--draft-max",
                     str(length), "--json", "-", "--quiet", "--threads", "1"]
            said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            stage = said["statistics"]["drafters"][0]
            sums["tokens"] += len(said["tokens"])
            sums["rounds"] += said["statistics"]["rounds"]
            sums["drafted"] += stage["drafted"]
            # A pass for each depth, and one for the rows that end it, but a chain that is as long as was asked.
            sums["passes"] += stage["asked"]
            if not options.one_pass:
                sums["passes"] += sum(stage["drafted_by_depth"][:None if "tree" in draft else length - 1])
    return sums


def speed(counts: dict, row: float, one: float) -> float:
    return counts["tokens"] / (counts["rounds"] + row * counts["drafted"] + one * counts["passes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("drafts", nargs="+")
    parser.add_argument("--prompts", default="fixtures/models/prompts.txt")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--one-pass", action="store_true")
    parser.add_argument("--draftproof", default="build/draftproof")
    options = parser.parse_args()
    print("| draft | a row | a pass | chain | with min_prob | tree |\n|---|---|---|---|---|---|")
    for draft in options.drafts:
        chains = {(n, 0): count(options, draft, n) for n in LENGTHS}
        ended = {(n, end): count(options, f"{draft}?min_prob={end}", n) for end in ENDS for n in (2, 4, 7)}
        trees = {n: count(options, f"{draft}?tree={n}", n) for n in TREES}
        for row in ROWS:
            for one in PASSES:
                shown = []
                for ways in (chains, ended, trees):
                    best = max(ways, key=lambda way: speed(ways[way], row, one), default=None)
                    shown.append(f"{speed(ways[best], row, one):.2f} ({best})" if best else "")
                print(f"| {draft} | {row} | {one} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
