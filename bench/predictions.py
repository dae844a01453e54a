# SPDX-License-Identifier: MIT
"""Tokens a second of `generate` without a draft, and with its own text as the prediction: whole, and with every Nth
word changed. Interleaved; the texts must be equal.

    python3 bench/predictions.py [--length 300] [--changed 15] [--rounds 3] TARGET PROMPT
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def generate(options, more):
    asked = [options.draftproof, "generate", options.target, "-p", options.prompt, "-n", options.length, "--json", "-"]
    run = subprocess.run(list(map(str, [*asked, *more])), check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def rate(run):
    counts = run["statistics"]
    return len(run["tokens"]) / sum(counts[f"{part}_seconds"] for part in ("target", "draft", "validate"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draftproof", default="build/draftproof")
    parser.add_argument("--length", type=int, default=300)
    parser.add_argument("--changed", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("target")
    parser.add_argument("prompt")
    options = parser.parse_args()
    plain = generate(options, [])
    words = plain["text"].split(" ")
    words[options.changed // 2 :: options.changed] = ["other"] * len(words[options.changed // 2 :: options.changed])
    with tempfile.TemporaryDirectory() as folder:
        predictions = {"none": None, "the text": plain["text"]}
        predictions[f"every {options.changed}th word changed"] = " ".join(words)
        runs = {name: [] for name in predictions}
        for _ in range(options.rounds):
            for name, text in predictions.items():
                more = []
                if text is not None:
                    file = pathlib.Path(folder) / "prediction.txt"
                    file.write_text(text, encoding="utf-8")
                    more = ["--prediction", file]
                run = generate(options, more)
                if run["tokens"] != plain["tokens"]:
                    raise SystemExit(f"with the prediction '{name}' the text is another one")
                runs[name].append(run)
    print("| prediction | rounds | tokens/s | times as fast as without |")
    print("|---|---|---|---|")
    for name, list_of in runs.items():
        rates = [rate(run) for run in list_of]
        ratios = [rate(run) / rate(without) for run, without in zip(list_of, runs["none"])]
        cells = [name, list_of[0]["statistics"]["rounds"]]
        for values, digits in ((rates, 0), (ratios, 2)):
            shown = [f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
            cells.append(f"{shown[0]} ({shown[1]}..{shown[2]})")
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
