# SPDX-License-Identifier: MIT
"""What the adapters share."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from types import ModuleType

from .._core import Error
from ..engines import Answer, Request

DEFAULTS = Request(prompt=())


def load(module: str, install: str) -> ModuleType:
    """An engine's module, or one sentence that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Error(f"{module} cannot be imported ({error}): {install}") from error


class Adapter:
    """An engine that refuses, by name, what it does not take."""

    name = ""
    supports: frozenset[str] = frozenset()
    vocabulary = 0
    # How far the engine lies from the target in float32, as `slack` and `tie` of check_trace (docs/engines.md).
    slack = 0.0
    tie = 0.0

    def generate(self, requests: Sequence[Request]) -> list[Answer]:
        requests = list(requests)
        for request in requests:
            self._refuse(request)
        return self._generate(requests)

    def _refuse(self, request: Request) -> None:
        if not request.prompt:
            raise Error(f"{self.name}: the prompt is empty; give at least one token")
        for token in request.prompt:
            if not 0 <= token < self.vocabulary:
                raise Error(f"{self.name}: token {token} is not in the vocabulary of {self.vocabulary}; encode the "
                            "prompt with this model's tokenizer")
        for field in dataclasses.fields(Request):
            name, value = field.name, getattr(request, field.name)
            if name in ("prompt", "max_new_tokens") or name in self.supports:
                continue
            default = getattr(DEFAULTS, name)
            if value != default and not (isinstance(default, (tuple, dict, str)) and not value):
                raise Error(f"{self.name} does not take {name}, which is {value!r} here; leave it out")

    def _generate(self, requests: list[Request]) -> list[Answer]:
        raise NotImplementedError


def finish_reason(request: Request, tokens: Sequence[int]) -> str | None:
    """Why a text ended, for engines that do not say it."""
    if tokens and tokens[-1] in request.stop_tokens:
        return "stop"
    return "length" if len(tokens) >= request.max_new_tokens else None


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    length = min(len(a), len(b))
    return next((i for i in range(length) if a[i] != b[i]), length)
