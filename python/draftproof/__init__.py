# SPDX-License-Identifier: MIT
"""Speculative decoding on a CPU, and an oracle that checks that its output equals plain output.

    report = draftproof.check_trace("run.jsonl", target="MODEL")
    text = draftproof.Model("MODEL").generate("Once upon a time", draft="suffix").text

Besides: draftproof.exact (acceptance functions, enumerated), fixtures (recorded runs), testing (assertions), strategies
(for Hypothesis).
"""

from ._core import Error, Finding, Generation, Model, Place, Report, TextComparison, __version__, compare, compare_texts
from .checking import check_trace
from .trace import TraceWriter

__all__ = [
    "Error",
    "Finding",
    "Generation",
    "Model",
    "Place",
    "Report",
    "TextComparison",
    "TraceWriter",
    "__version__",
    "check_trace",
    "compare",
    "compare_texts",
]
