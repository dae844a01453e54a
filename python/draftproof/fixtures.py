# SPDX-License-Identifier: MIT
"""Recorded runs that later runs are compared with (docs/adding.md): what `draftproof fixture` does."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from ._command import run_for_json

__all__ = ["Replay", "record", "replay"]

Path = Union[str, "os.PathLike[str]"]


def record(
    fixture: Path,
    target: Path,
    prompt: str | Sequence[int],
    *,
    reason: str,
    draft: str = "none",
    rule: str = "matching",
    max_new_tokens: int = 64,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    draft_max: int | None = None,
    rows: bool = False,
    quantize: str = "none",
    kv: str = "bf16",
    kernels: str = "",
    threads: int | None = None,
) -> pathlib.Path:
    """Decodes once and keeps the tokens and the digests of rows and caches in a file, and returns its path. reason: why
    the fixture exists. rows: keeps whole rows of logits, too, so that differences are shown in ulps. The others are
    those of Model and of Model.generate."""
    if isinstance(prompt, str):
        asked = [f"--prompt={prompt}"]
    else:
        asked = ["--prompt-tokens", ",".join(str(int(token)) for token in prompt)]
    options: dict[str, Any] = {
        "reason": reason,
        "draft": draft,
        "rule": rule,
        "max-new-tokens": max_new_tokens,
        "temperature": temperature,
        "top-k": top_k,
        "top-p": top_p,
        "min-p": min_p,
        "seed": seed,
        "draft-max": draft_max,
        "quantize": quantize,
        "kv": kv,
        "kernels": kernels or None,
        "threads": threads,
    }
    named = [f"--{name}={value}" for name, value in options.items() if value is not None]
    words = ["fixture", "record", os.fspath(target), os.fspath(fixture), *asked, *named, *(["--rows"] if rows else [])]
    run_for_json(words)
    return pathlib.Path(fixture)


@dataclass(frozen=True)
class Replay:
    """How a run differs from the recorded one. str() says it in one line."""

    fixture: str
    status: int  # of the command: 0, 1, 2 or 4
    data: dict[str, Any]  # what `fixture replay --json` says of this fixture

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return bool(self.data["equal"])

    @property
    def verdict(self) -> str:
        """'equal'; 'different'; 'draft_worse' when only the draft differs and it accepts less; 'other_numerics' when
        the run differs and has another numerics class than the recorded one."""
        return {0: "equal", 1: "different", 2: "other_numerics", 4: "draft_worse"}[self.status]

    def __str__(self) -> str:
        if self.equal:
            return f"{self.fixture}: equal"
        text = f"{self.fixture}: {self.verdict}"
        for array in self.data.get("arrays", [])[:1]:
            text += (
                f"; the first difference is {array['array']}{array['index']}: recorded {array['recorded']}, "
                f"found {array['found']}"
            )
        return text


def replay(
    fixture: Path,
    *,
    target: Path | None = None,
    draft: str | None = None,
    kernels: str = "",
    threads: int | None = None,
) -> Replay:
    """Decodes again what was recorded. target, draft: use these instead of the recorded ones. When the recorded target
    and draft differ in the recorded numerics class, the run is written to FIXTURE.received, for `draftproof fixture
    review`."""
    options: dict[str, Any] = {
        "target": os.fspath(target) if target is not None else None,
        "draft": draft,
        "kernels": kernels or None,
        "threads": threads,
    }
    named = [f"--{name}={value}" for name, value in options.items() if value is not None]
    status, said = run_for_json(["fixture", "replay", os.fspath(fixture), *named])
    return Replay(os.fspath(fixture), status, said["fixtures"][0])
