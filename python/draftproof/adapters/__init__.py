# SPDX-License-Identifier: MIT
"""Engines of others behind one interface, `draftproof.engines.Engine`. Each is a module of its own that imports its
engine when it is made: `transformers`, `vllm`, `mlx_lm`, `openvino_genai`, `sglang`, `tensorrt_llm`.

    engine = TransformersEngine("TARGET", assistant_model="DRAFT")
    print(check(engine, [Request(tokens, temperature=1.0)], target="TARGET"))
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from .._core import Report, check_trace
from ..engines import Engine, Request
from ._trace import write_trace

__all__ = ["check", "write_trace"]


def check(engine: Engine, requests: Sequence[Request], **options: Any) -> Report:
    """Asks the engine, and checks its tokens as `check_trace` does, whose options `options` are. `slack` and `tie` are
    those of the engine where they are left out."""
    answers = engine.generate(requests)
    if options.get("target") is not None:
        options = {"slack": getattr(engine, "slack", 0.0), "tie": getattr(engine, "tie", 0.0), **options}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.jsonl")
        write_trace(path, engine, requests, answers)
        return check_trace(path, **options)
