# SPDX-License-Identifier: MIT
"""What the tuner makes of a real model, over the best fixed length, on a quiet and on a busy machine.

    python3 bench/tuner_real.py MODEL [--busy N] [--repeats N] [--lengths 2,8] [--draft DRAFT...] [--draftproof PROGRAM]

Continues a story, an edit and a list greedily with `draftproof generate`: plainly (0), with each fixed number of draft
tokens and with --draft-max auto, in turn. --busy: so many loops compute beside it. Prints output tokens per second of
decoding, the median, and the ratio of auto and of the best fixed number, plain decoding included; in the rows "all" the
same of the three texts together, by the sums of the median times. Needs Python only.
"""

import argparse
import json
import os
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


def run(options, text: str, draft: str, length: str) -> tuple[int, float]:
    """Output tokens, and seconds of decoding."""
    words = [options.draftproof, "generate", options.model, "--prompt", text, "--max-new-tokens", str(options.tokens),
             "--temperature", "0", "--draft", "none" if length == "0" else draft, "--json", "-", "--quiet"]
    if length != "0":
        words += ["--draft-max", length]
    said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    times = said["statistics"]
    return len(said["tokens"]), times["target_seconds"] + times["draft_seconds"] + times["validate_seconds"]


def row(draft: str, text: str, speeds: list[float]) -> str:
    shown = " | ".join(f"{one:.0f}" for one in speeds)
    return f"| {draft} | {text} | {shown} | {speeds[-1] / max(speeds[:-1]):.2f} |"


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
    busy = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    loops = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(options.busy)]
    try:
        print(f"| draft | text | {' | '.join(lengths)} | auto over the best |")
        print("|---|---|" + "---|" * (len(lengths) + 1))
        for draft in options.draft:
            tokens = dict.fromkeys(lengths, 0)
            seconds = dict.fromkeys(lengths, 0.0)
            for name, text in TEXTS.items():
                runs = {length: [] for length in lengths}
                for _ in range(options.repeats):
                    for length in lengths:
                        output, time = run(options, text, draft, length)
                        runs[length].append(time)
                medians = [statistics.median(runs[length]) for length in lengths]
                for length, median in zip(lengths, medians):
                    tokens[length] += output
                    seconds[length] += median
                print(row(draft, name, [output / median for median in medians]), flush=True)
            print(row(draft, "all", [tokens[length] / seconds[length] for length in lengths]), flush=True)
    finally:
        for loop in loops:
            loop.kill()


if __name__ == "__main__":
    main()
