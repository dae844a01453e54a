# SPDX-License-Identifier: MIT
"""`verify TARGET --draft all` of several targets, greedy and at temperature 1 by every rule: a verdict and the tokens a
round of every draft.

    python3 bench/verified_drafts.py [--draftproof build/draftproof] [--effort quick] TARGET...

The tokens a round are those of one text, so they say that a draft drafts, and little about how well; "untested" is a
draft of which none was drafted, accepted or rejected there. They do not depend on the machine. Exits with 1 where a
verdict is not PASS_EXACT.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PROMPT = "Once upon a time there was a baker. Once upon a time there was a king. Once upon a time there was"
SETTINGS = {
    "greedy": ["--temperature", "0"],
    "matching": ["--temperature", "1", "--rule", "matching"],
    "rejection": ["--temperature", "1", "--rule", "rejection"],
    "block": ["--temperature", "1", "--rule", "block"],
}


def verified(command, target, effort, length, setting):
    """The report of one run."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        asked = [command, "verify", target, "--draft", "all", "-p", PROMPT, "-n", str(length), "--effort", effort]
        run = subprocess.run(asked + SETTINGS[setting] + ["--quiet", "--json", report], capture_output=True, text=True)
        if not report.exists():
            raise SystemExit(f"{target}: verify ended with {run.returncode}: {run.stderr}")
        return json.loads(report.read_text())


def short(name):
    """Without the folders of paths."""
    return "+".join(
        ":".join([kind, *(pathlib.Path(path).name for path in paths)])
        for kind, *paths in (stage.split(":", 1) for stage in name.split("+"))
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draftproof", default="build/draftproof")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--length", type=int, default=160)
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args()
    wrong = 0
    for target in options.targets:
        reports = {
            name: verified(options.draftproof, target, options.effort, options.length, name) for name in SETTINGS
        }
        wrong += sum(report["verdict"] != "PASS_EXACT" for report in reports.values())
        print(f"\n| {pathlib.Path(target).name} | " + " | ".join(reports) + " |")
        print("|---" * (1 + len(reports)) + "|")
        print("| verdict | " + " | ".join(report["verdict"] for report in reports.values()) + " |")
        by_draft = {name: {one["name"]: one for one in report["drafts"]} for name, report in reports.items()}
        for draft in by_draft["greedy"]:
            cells = []
            for found in by_draft.values():
                one = found.get(draft)
                cells.append("-" if one is None else "untested" if one["untested"] else f"{one['tokens_per_round']:.2f}")
            print(f"| `{short(draft)}` | " + " | ".join(cells) + " |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
