# SPDX-License-Identifier: MIT
"""What the examples share: the shipped models, requests for them, and verdicts as they are printed."""

from __future__ import annotations

import pathlib
import sys

import draftproof
from draftproof import adapters
from draftproof.engines import Request

MODELS = pathlib.Path(__file__).resolve().parents[2] / "fixtures/models"
TARGET = str(MODELS / "tale-target")
SMALL = str(MODELS / "tale-small")
TEXTS = (MODELS / "prompts.txt").read_text(encoding="utf-8").splitlines()
STOPS = (2044, 2046)

encode = draftproof.Model(TARGET).encode


def requests(temperature: float, texts: list[str] = TEXTS, max_new_tokens: int = 100, **fields) -> list[Request]:
    return [Request(encode(text), max_new_tokens, temperature, stop_tokens=STOPS, **fields) for text in texts]


def verdict(engine, asked: list[Request], target: str = TARGET) -> str:
    """Asks the engine, checks its tokens, and prints both."""
    first = asked[0]
    report = adapters.check(engine, asked, target=target)
    last = [line for line in str(report).splitlines() if line][-1].strip()
    print(f"{engine.name}: {len(asked)} texts at temperature {first.temperature:g}: {last}", flush=True)
    return report.verdict


def shown(holds: bool, sentence: str) -> None:
    """Ends an example: whether it showed what it says."""
    print("shown:" if holds else "NOT shown:", sentence)
    sys.exit(0 if holds else 1)
