#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What our readers make of random and damaged inputs, beside what the packages make of them whose formats they read.

    tests/differential/run.py build/differential [--inputs N] [--seed N] [KIND ...]

KIND is json (Python's own module), safetensors, gguf, tokenizers (sentencepiece for its models), jinja (through transformers)
or jsonschema; the packages come from PyPI, and a kind without its package is skipped by name. Equal seeds give equal
inputs. A row says how often both agreed and how often they differed on purpose, with the reason; what differs for no
known reason is printed and ends the run with status 1.
"""

import argparse
import collections
import importlib
import pathlib
import random
import struct
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent))
KINDS = ["json", "safetensors", "gguf", "tokenizers", "jinja", "jsonschema"]
BATCH = 5000


def ask(program, arguments, inputs):
    """Our answer to each input: (whether it is accepted, bytes)."""
    sent = b"".join(struct.pack("<I", len(data)) + data for data in inputs)
    got = subprocess.run([program, *arguments], input=sent, stdout=subprocess.PIPE, check=True).stdout
    answers, at = [], 0
    while at < len(got):
        (size,) = struct.unpack_from("<I", got, at)
        answer = got[at + 4 : at + 4 + size]
        answers.append((answer[:1] == b"+", answer[1:]))
        at += 4 + size
    assert len(answers) == len(inputs), f"{len(answers)} answers to {len(inputs)} inputs"
    return answers


def compare(program, subject, count, seed):
    """How often each outcome came, and the inputs that were judged otherwise for no known reason."""
    numbers = random.Random(seed)
    outcomes, wrong = collections.Counter(), []
    make = subject.inputs(numbers)
    while count > 0:
        inputs = [next(make) for _ in range(min(count, BATCH))]
        count -= len(inputs)
        for data, (accepted, ours) in zip(inputs, ask(program, subject.arguments, inputs)):
            told = list(subject.outcomes(data, accepted, ours))
            outcomes.update(told)
            if any(outcome.startswith("wrong") for outcome in told):
                wrong.append((data, accepted, ours))
    return outcomes, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="KIND")
    parser.add_argument("--inputs", type=int, default=100_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", type=int, default=5, help="differences that are printed")
    options = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")  # of templates that Python compiles
    failed = compared = 0
    for kind in options.kinds:
        module = importlib.import_module(f"of_{kind}")
        try:
            subjects = module.subjects()
        except ImportError as missing:
            print(f"skipped: {kind}: {missing}", flush=True)
            continue
        compared += 1
        for number, subject in enumerate(subjects):
            count = options.inputs // len(subjects)
            outcomes, wrong = compare(options.program, subject, count, options.seed + number)
            told = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())
            print(f"{kind}: {subject.name}: {sum(outcomes.values())}: {told}", flush=True)
            for data, accepted, ours in wrong[: options.shown]:
                print(f"  input  {data!r}\n  theirs {subject.theirs(data)!r}\n  ours   {accepted} {ours!r}")
            failed += len(wrong)
    return 1 if failed else 0 if compared else 77


if __name__ == "__main__":
    sys.exit(main())
