# SPDX-License-Identifier: MIT
"""What the tuner makes of a real model, over the best fixed length, on a quiet and on a busy machine.

    python3 bench/tuner_real.py MODEL [--busy N] [--repeats N] [--lengths 2,8] [--draft DRAFT...] [--draftproof PROGRAM]

Continues a story, an edit and a list greedily with `draftproof generate`: plainly (0), with each fixed number of draft
tokens and with --draft-max auto, in turn. --busy: so many loops compute beside it. Prints output tokens per second of
decoding, the median, and the ratio of auto and of the best fixed number, plain decoding included. Needs Python only.
"""

import argparse
import json
import statistics
import subprocess
import sys

TEXTS = {
    "story": "The history of the steam engine begins with",
    "edit": "Here is a note. 'The meeting of the garden club is on Monday at noon in the old mill. Please bring seeds, "
            "a pair of gloves and your own cup. The club pays for tea and bread.' Here is the same note with Tuesday in "
            "place of Monday. 'The meeting of the garden club is on",
    "list": "The months and their days: January has 31 days. February has 28 days. March has 31 days. April has",
}


def speed(options, text: str, draft: str, length: str) -> float:
    words = [options.draftproof, "generate", options.model, "--prompt", text, "--max-new-tokens", str(options.tokens),
             "--temperature", "0", "--draft", "none" if length == "0" else draft, "--json", "-", "--quiet"]
    if length != "0":
        words += ["--draft-max", length]
    said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    times = said["statistics"]
    return len(said["tokens"]) / (times["target_seconds"] + times["draft_seconds"] + times["validate_seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lengths", default="1,2,4,8,16")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--draft", nargs="+", default=["suffix", "ngram-mod", "self"])
    parser.add_argument("--draftproof", default="build/draftproof")
    options = parser.parse_args()
    lengths = ["0", *options.lengths.split(","), "auto"]
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        print(f"| draft | text | {' | '.join(lengths)} | auto over the best |")
        print("|---|---|" + "---|" * (len(lengths) + 1))
        for draft in options.draft:
            for name, text in TEXTS.items():
                runs = {length: [] for length in lengths}
                for _ in range(options.repeats):
                    for length in lengths:
                        runs[length].append(speed(options, text, draft, length))
                medians = [statistics.median(runs[length]) for length in lengths]
                shown = " | ".join(f"{one:.0f}" for one in medians)
                print(f"| {draft} | {name} | {shown} | {medians[-1] / max(medians[:-1]):.2f} |", flush=True)
    finally:
        for loop in loops:
            loop.kill()


if __name__ == "__main__":
    main()
