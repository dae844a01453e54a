# SPDX-License-Identifier: MIT
"""What an engine is asked and what it answers: the same for every engine. `draftproof.adapters` has engines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Answer", "Engine", "Request"]


@dataclass(frozen=True)
class Request:
    prompt: Sequence[int]  # tokens
    max_new_tokens: int = 32
    temperature: float = 0.0  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    banned_tokens: Sequence[int] = ()
    min_tokens: int = 0
    stop_tokens: Sequence[int] = ()
    stop: Sequence[str] = ()  # stop strings
    logprobs: int | None = None  # None: none are asked for; n: of each token, and of the n most likely ones
    json_schema: str = ""
    grammar: str = ""
    seed: int | None = None
    session: str = ""  # requests of one session share a kept prompt cache: a second turn


@dataclass
class Answer:
    tokens: Sequence[int]  # the stop token that ended the text is one of them
    text: str | None = None
    finish_reason: str | None = None  # "stop" | "length"
    logprobs: Sequence[float] | None = None
    top_logprobs: Sequence[Mapping[int, float]] | None = None
    drafted: int | None = None  # draft tokens that were verified, where the engine says so
    accepted: int | None = None


class Engine(Protocol):
    name: str
    supports: Collection[str]  # names of Request fields (beside prompt, max_new_tokens) it honors
    vocabulary: int

    def generate(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """Asked together: batched or concurrent where the engine can, one after another where not. An exception is a
        finding, except draftproof.Error: it refuses what the engine does not take."""
        ...
