# SPDX-License-Identifier: MIT
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .engines import Engine

__version__: str

class Error(ValueError):
    """Bad input: one sentence that names the file or the value, and says what to do."""

class Generation(Iterator[int]):
    """A text that a model writes. Iterating gives its tokens as they are decoded; every attribute decodes the rest
    first."""

    def __iter__(self) -> Generation: ...
    def __next__(self) -> int: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def statistics(self) -> dict[str, int]: ...

class Model:
    """A target: a folder in the style of Hugging Face, a .gguf file, or a pair of target and draft (.json), with its
    weights loaded."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        quantize: str | None = None,
        kv: str | None = None,
        lora: Sequence[str] | None = None,
        kernels: str = "",
        threads: int | None = None,
    ) -> None: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def numerics(self) -> str: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Sequence[int]) -> str: ...
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int = 64,
        draft: str | None = None,
        rule: str = "matching",
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repeat_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_last_n: int = 64,
        seed: int = 0,
        draft_max: int | None = None,
    ) -> Generation: ...
    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]: ...
    def next_distribution(
        self,
        tokens: Sequence[int],
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
    ) -> NDArray[np.float64]: ...

class Place:
    """Where a finding was made."""

    @property
    def run(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def round(self) -> int | None: ...
    @property
    def position(self) -> int | None: ...

class Finding:
    """What one check found."""

    @property
    def check(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def examined(self) -> int: ...
    @property
    def message(self) -> str: ...
    @property
    def expected(self) -> str | None: ...
    @property
    def observed(self) -> str | None: ...
    @property
    def place(self) -> Place | None: ...

class Report:
    """The result of a check. str() is what the command prints."""

    @property
    def verdict(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def findings(self) -> list[Finding]: ...
    def json(self) -> dict[str, Any]: ...
    def html(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def junit(self) -> str: ...
    def sarif(self) -> str: ...

def check_trace(
    path: str | PathLike[str],
    *,
    target: str | PathLike[str] | None = None,
    slack: float | Literal["auto"] = 0.0,
    tie: float | Literal["auto"] = 0.0,
    control: str | PathLike[str] | None = None,
    suspects: Sequence[str] = (),
    reference: str = "f32",
    quantize: str = "none",
    kv: str = "bf16",
    kernels: str = "",
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Report: ...

def compare(
    plain: Engine,
    speculative: Engine,
    prompts: Sequence[str | Sequence[int]] | None = None,
    *,
    target: str | PathLike[str] | None = None,
    matrix: Sequence[str] = (),
    max_new_tokens: int = 48,
    pairs: int = 200,
    together: int = 8,
    context: int = 0,
    seed: int = 0,
    traces: str | PathLike[str] | None = None,
    kernels: str = "",
    threads: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> Report:
    """Asks two configurations of one engine the same requests and compares their answers (docs/compare.md).

    prompts: lists of tokens, or texts with target; None: twelve texts of our own. target: the model that both run, from
    which gaps and the distribution of sampled tokens are computed. matrix: names of cases; all when empty. pairs: sampled texts
    of each engine for every sampled case. together: requests at once. context: positions of the model, 0: not known.
    traces: a folder in which what was sampled is kept. progress: is called with what is done next.
    """

class TextComparison:
    """What pairs of sampled texts show (docs/compare.md#sampled-texts)."""

    e_value: float
    alarm: bool
    pairs: int
    unequal: int
    suspect: str
    share_seen: float

def compare_texts(
    requests: Sequence[int],
    first: Sequence[Sequence[int]],
    second: Sequence[Sequence[int]],
    first_logprobs: Sequence[Sequence[float]] | None = None,
    second_logprobs: Sequence[Sequence[float]] | None = None,
    *,
    prompts: Sequence[Sequence[int]] | None = None,
    alpha: float = 1e-9,
) -> TextComparison:
    """Tests whether two engines write texts of one distribution: texts of each, in pairs for the same request."""

class RowsFile:
    """The rows beside a trace. TraceWriter writes it."""

    def __init__(self, path: str | PathLike[str], integers: bool) -> None: ...
    def append_integers(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[str, Any]: ...
    def append_reals(self, rows: Sequence[tuple[Sequence[int], Sequence[float]]]) -> dict[str, Any]: ...
    def finish(self) -> None: ...

def command(words: Sequence[str]) -> int:
    """Runs the command draftproof, which takes the process for itself. Returns its exit status."""
