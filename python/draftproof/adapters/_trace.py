# SPDX-License-Identifier: MIT
"""Traces (docs/spectrace.md) of what engines answer."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from .._core import Error
from ..engines import Answer, Engine, Request
from ..trace import TraceWriter


def asked(request: Request) -> dict[str, Any]:
    """The fields of a sequence that a request becomes."""
    fields: dict[str, Any] = {
        "temperature": request.temperature,
        "max_new_tokens": request.max_new_tokens,
        "stop_tokens": list(request.stop_tokens),
    }
    if request.top_k:
        fields["top_k"] = request.top_k
    if request.top_p < 1:
        fields["top_p"] = request.top_p
    if request.min_p > 0:
        fields["min_p"] = request.min_p
    if request.repeat_penalty != 1:
        fields.update(repeat_penalty=request.repeat_penalty, repeat_last_n=-1)
    if request.logit_bias:
        fields["logit_bias"] = dict(request.logit_bias)
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
    with TraceWriter(path, vocabulary=engine.vocabulary, rule="rejection", engine=engine.name) as trace:
        for request, answer in zip(requests, answers):
            fields = asked(request)
            if order:
                fields["sampler_order"] = list(order)
            trace.sequence(prompt=request.prompt, rule="rejection" if request.temperature > 0 else "greedy", **fields)
            tokens = list(answer.tokens)
            if tokens:
                numbers: dict[str, Any] = {} if answer.logprobs is None else {"logprobs": answer.logprobs}
                trace.round(emitted=tokens, **numbers)
            ends = {"stop": tokens and tokens[-1] in request.stop_tokens, "length": len(tokens) == request.max_new_tokens}
            reason = answer.finish_reason or "unknown"
            trace.end(reason if ends.get(reason) else f"other:{reason}")
