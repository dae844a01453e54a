# SPDX-License-Identifier: MIT
"""Speculative decoding on a CPU, and an oracle that checks that its output equals plain output.

    report = draftproof.check_trace("run.jsonl", target="MODEL")
    text = draftproof.Model("MODEL").generate("Once upon a time", draft="suffix").text
"""

from ._core import Error, Finding, Generation, Model, Place, Report, __version__, check_trace

__all__ = ["Error", "Finding", "Generation", "Model", "Place", "Report", "check_trace"]
