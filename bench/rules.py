# SPDX-License-Identifier: MIT
"""Tokens a round, and accepted draft tokens, by the rules `rejection` and `block`, with the trained drafts.

    python3 bench/rules.py [--draftproof build/draftproof] [--seeds N]

12 prompts, each with N seeds, texts of 96 tokens of tale-target at temperature 1. The texts of the rules differ, so
their figures have independent errors. They do not depend on the machine.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess

MODELS = pathlib.Path("fixtures/models")
DRAFTS = {
    "small model": f"model:{MODELS}/tale-small",
    "PARD": f"pard:{MODELS}/tale-pard",
    "DFlash": f"dflash:{MODELS}/tale-dflash",
    "DSpark": f"dflash:{MODELS}/tale-dspark",
    "EAGLE-3": f"eagle3:{MODELS}/tale-eagle3",
    "P-EAGLE": f"eagle3:{MODELS}/tale-peagle",
    "MTP": f"mtp:{MODELS}/tale-mtp",
    "Medusa": f"medusa:{MODELS}/tale-medusa",
}
LENGTH = 96


def generate(command, prompt, seed, rule, draft, draft_max):
    asked = [command, "generate", MODELS / "tale-target", "-p", prompt, "-n", LENGTH, "--temperature", 1, "--seed", seed]
    asked += ["--rule", rule, "--draft", draft, "--draft-max", draft_max, "--threads", 1, "--json", "-"]
    text = json.loads(subprocess.run(list(map(str, asked)), check=True, capture_output=True).stdout)
    counts = text["statistics"]
    return len(text["tokens"]), counts["rounds"], counts["drafted"], counts["accepted"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draftproof", default="build/draftproof")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    prompts = (MODELS / "prompts.txt").read_text(encoding="utf-8").splitlines()
    print("| draft | draft tokens | `rejection` | `block` | ratio | accepted by `rejection` | by `block` |")
    print("|---|---|---|---|---|---|---|")
    for name, draft in DRAFTS.items():
        for draft_max in (4, 8):
            rates, errors, shares = [], [], []
            for rule in ("rejection", "block"):
                runs = [
                    generate(options.draftproof, prompt, seed, rule, draft, draft_max)
                    for prompt in prompts
                    for seed in range(options.seeds)
                ]
                tokens, rounds, drafted, accepted = map(sum, zip(*runs))
                rates.append(tokens / rounds)
                spread = statistics.pstdev(run[0] - tokens / rounds * run[1] for run in runs)
                errors.append(spread * math.sqrt(len(runs)) / rounds)
                shares.append(accepted / drafted)
            ratio = rates[1] / rates[0]
            error = ratio * math.hypot(*(e / rate for e, rate in zip(errors, rates)))
            cells = [name, draft_max, *(f"{rate:.2f}" for rate in rates), f"{ratio:.3f} ± {error:.3f}"]
            print("| " + " | ".join(map(str, [*cells, *(f"{share:.2f}" for share in shares)])) + " |", flush=True)


if __name__ == "__main__":
    main()
