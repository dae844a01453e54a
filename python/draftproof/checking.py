# SPDX-License-Identifier: MIT
"""check_trace, of a file or of lines."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from . import _core
from ._core import Error, Report

__all__ = ["check_trace"]

Lines = Iterable[Union[str, Mapping[str, Any]]]
Trace = Union[str, "os.PathLike[str]", Lines]


def write_lines(lines: Lines, path: pathlib.Path) -> None:
    """Writes lines of a trace, each a text or what JSON makes one of."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(lines, 1):
            if not isinstance(line, (str, Mapping)):
                raise Error(f"line {number} of the trace is a {type(line).__name__}; give texts or dicts")
            text = line.rstrip("\n") if isinstance(line, str) else json.dumps(dict(line), separators=(",", ":"))
            file.write(text + "\n")


def check_trace(
    trace: Trace,
    *,
    target: str | os.PathLike[str] | None = None,
    slack: float | Literal["auto"] = 0.0,
    tie: float | Literal["auto"] = 0.0,
    control: str | os.PathLike[str] | None = None,
    suspects: str | Sequence[str] = (),
    reference: str = "f32",
    quantize: str = "none",
    kv: str = "bf16",
    kernels: str = "",
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """Replays every decision of a recorded run (docs/spectrace.md).

    trace: a file, or its lines, each a text or a dict. target: the model it was made with. slack: how far, in total
    variation, p of other numerics may be from the target's. tie: how far below the target's best, in logits, a greedy
    token of other numerics may be; either may be "auto": what control shows, a trace of the same engine without
    speculation. suspects: what the engine may run in place of the target, "q8" or "q4" for its weights in that type, or
    other models; its tokens are bet on. reference: what these are compared with, f32, f64 (exact) or own (as quantize and kv say).
    progress: is called with the number of each line before it is replayed. The others are those of Model.
    """
    options: dict[str, Any] = {
        "target": target,
        "slack": slack,
        "tie": tie,
        "control": control,
        "suspects": [suspects] if isinstance(suspects, str) else list(suspects),
        "reference": reference,
        "quantize": quantize,
        "kv": kv,
        "kernels": kernels,
        "threads": threads,
        "progress": progress,
    }
    if isinstance(trace, (str, os.PathLike)):
        return _core.check_trace(trace, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines"
        write_lines(trace, path)
        try:
            return _core.check_trace(path, **options)
        except Error as wrong:
            raise Error(str(wrong).replace(str(path), "lines")) from None
