# SPDX-License-Identifier: MIT
"""Traces (docs/spectrace.md) of what engines answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from .._core import Error
from ..engines import Answer, Engine, Request


class Writer:
    """One line for each call; the fields are those of docs/spectrace.md."""

    def __init__(self, path: str | PathLike[str], engine: str, vocabulary: int, rule: str, **fields: Any) -> None:
        self._file = open(path, "w", encoding="utf-8")
        self._rounds: dict[int, int] = {}
        self._line(type="header", schema="spectrace/2", engine=engine, vocabulary=vocabulary, rule=rule, **fields)

    def _line(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields, separators=(",", ":"), allow_nan=False) + "\n")

    def sequence(self, sequence: int, prompt: Sequence[int], **fields: Any) -> None:
        self._rounds[sequence] = 0
        self._line(type="sequence", sequence=sequence, prompt=list(prompt), **fields)

    def round(self, sequence: int, position: int, emitted: Sequence[int], **fields: Any) -> None:
        number = self._rounds[sequence]
        self._rounds[sequence] += 1
        self._line(type="round", sequence=sequence, round=number, position=position, emitted=list(emitted), **fields)

    def end(self, sequence: int, reason: str, emitted_count: int) -> None:
        self._line(type="end", sequence=sequence, reason=reason, emitted_count=emitted_count)

    def close(self) -> None:
        self._file.close()


def reals(values: Iterable[float]) -> list[str]:
    return [float(value).hex() for value in values]


def asked(request: Request) -> dict[str, Any]:
    """The fields of a sequence that a request becomes."""
    fields: dict[str, Any] = {
        "temperature": float(request.temperature).hex(),
        "max_new_tokens": request.max_new_tokens,
        "stop_tokens": list(request.stop_tokens),
    }
    if request.top_k:
        fields["top_k"] = request.top_k
    if request.top_p < 1:
        fields["top_p"] = float(request.top_p).hex()
    if request.min_p > 0:
        fields["min_p"] = float(request.min_p).hex()
    if request.repeat_penalty != 1:
        fields.update(repeat_penalty=float(request.repeat_penalty).hex(), repeat_last_n=-1)
    if request.logit_bias:
        fields["logit_bias"] = {str(token): float(bias).hex() for token, bias in request.logit_bias.items()}
    if request.stop:
        fields["stop_strings"] = list(request.stop)
    if request.grammar:
        fields["grammar"] = request.grammar
    if request.json_schema:
        fields["json_schema"] = request.json_schema
    # Engines differ in what presence and frequency penalties count.
    others = {"bans": request.banned_tokens, "min_tokens": request.min_tokens,
              "presence_penalty": request.presence_penalty, "frequency_penalty": request.frequency_penalty}
    adjustments = [name for name, value in others.items() if value]
    if adjustments:
        fields["adjustments"] = adjustments
    return fields


def write_trace(path: str | PathLike[str], engine: Engine, requests: Sequence[Request],
                answers: Sequence[Answer]) -> None:
    """Writes a trace of tokens only, and of their log-probabilities where the answers have them. An engine that applies
    samplers in another order than temperature, top-k, top-p, min-p has it as `sampler_order`."""
    order = getattr(engine, "sampler_order", ())
    if len(requests) != len(answers):
        raise Error(f"{engine.name} gave {len(answers)} answers to {len(requests)} requests")
    writer = Writer(path, engine.name, engine.vocabulary, "rejection")
    for number, (request, answer) in enumerate(zip(requests, answers)):
        fields = asked(request)
        if order:
            fields["sampler_order"] = list(order)
        writer.sequence(number, request.prompt, rule="rejection" if request.temperature > 0 else "greedy", **fields)
        tokens = list(answer.tokens)
        if tokens:
            numbers: dict[str, Any] = {}
            if answer.logprobs is not None:
                numbers["logprobs"] = reals(answer.logprobs)
            writer.round(number, len(request.prompt), tokens, **numbers)
        ends = {"stop": tokens and tokens[-1] in request.stop_tokens, "length": len(tokens) == request.max_new_tokens}
        reason = answer.finish_reason or "unknown"
        writer.end(number, reason if ends.get(reason) else f"other:{reason}", len(tokens))
    writer.close()
