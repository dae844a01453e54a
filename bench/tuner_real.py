# SPDX-License-Identifier: MIT
"""What the tuner makes of a real model, over the best fixed length, on a quiet and on a busy machine.

    python3 bench/tuner_real.py MODEL [--busy N] [--repeats N] [--draft DRAFT...] [--draftproof PROGRAM]

Continues a story, an edit and a list greedily with `draftproof bench drafters`: plainly, with each fixed number of
draft tokens and with --draft-max auto, in turn. --busy: so many loops compute beside it. Prints tokens per second by the
median times, and the ratio of auto and of the best fixed number, plain decoding (0) included. Needs Python only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LENGTHS = (1, 2, 4, 8, 16)
TEXTS = {
    "story": "The history of the steam engine begins with",
    "edit": "Here is a note. 'The meeting of the garden club is on Monday at noon in the old mill. Please bring seeds, "
            "a pair of gloves and your own cup. The club pays for tea and bread.' Here is the same note with Tuesday in "
            "place of Monday. 'The meeting of the garden club is on",
    "list": "The months and their days: January has 31 days. February has 28 days. March has 31 days. April has",
}


def measured(options, prompts: Path, answer: Path) -> dict:
    words = [options.draftproof, "bench", "drafters", options.model, "--draft", *options.draft,
             "--draft-lengths", ",".join(str(length) for length in LENGTHS), "--prompts", str(prompts),
             "--repeats", str(options.repeats), "--temperature", "0", "--max-new-tokens", str(options.tokens),
             "--json", str(answer), "--quiet"]
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    finally:
        for loop in loops:
            loop.kill()
    return json.loads(answer.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--draft", nargs="+", default=["suffix", "ngram-mod", "self"])
    parser.add_argument("--draftproof", default="build/draftproof")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.txt"
        prompts.write_text("".join(f"{text}\n" for text in TEXTS.values()), encoding="utf-8")
        report = measured(options, prompts, Path(folder) / "times.json")
    print(f"{options.busy} busy loops, {options.repeats} repeats, {report['threads']} threads, {report['kernels']}\n")
    print(f"| draft | text | {' | '.join(['0', *map(str, LENGTHS)])} | auto | auto over the best |")
    print("|---|---|" + "---|" * (len(LENGTHS) + 3))
    for draft in options.draft:
        for name, text in zip(TEXTS, report["texts"]):
            speeds = {}
            for row in text["drafts"]:
                if row["draft"] not in ("none", draft):
                    continue
                length = "0" if row["draft"] == "none" else row["draft_max"]
                speeds[length] = 1e3 * options.tokens / row["milliseconds"]["median"]
            fixed = {length: speed for length, speed in speeds.items() if length != "auto"}
            best = max(fixed.values())
            shown = " | ".join(f"{speed:.0f}" for speed in [*fixed.values(), speeds["auto"]])
            print(f"| {draft} | {name} | {shown} | {speeds['auto'] / best:.2f} |")


if __name__ == "__main__":
    main()
