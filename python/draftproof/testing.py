# SPDX-License-Identifier: MIT
"""Assertions for tests of an engine, with or without pytest (draftproof.pytest_plugin)."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Union

from . import _command
from ._core import Error, Model, Report, __version__
from .checking import Trace, check_trace, write_lines
from .trace import TraceWriter

__all__ = ["ALPHA", "LosslessnessError", "Models", "assert_distribution", "assert_lossless"]

ALPHA = 1e-9  # the probability of a false alarm that every check keeps by itself
_GAMES = 6  # sequential tests of a check, which share alpha
_FINDINGS_SHOWN = 3
_PASSES = ("PASS_EXACT", "PASS_STAT")
Path = Union[str, "os.PathLike[str]"]


class LosslessnessError(AssertionError):
    """A check that did not pass. `report` has all of it."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


def _evidence(data: dict[str, Any]) -> float:
    """Returns the largest e-value of the sequential tests."""
    tests = [*data.get("token_tests", []), *data.get("bets", [])]
    return max((float(test["e_value"]) for test in tests), default=0.0)


def _essentials(report: Report) -> list[str]:
    lines = []
    wrong = [finding for finding in report.findings if finding.outcome not in ("pass", "vacuous")]
    for finding in wrong[:_FINDINGS_SHOWN]:
        place = finding.place
        where = f"{place.run}, line {place.line}" if place else "no single place"
        for name, number in (("round", place.round), ("position", place.position)) if place else ():
            where += f", {name} {number}" if number is not None else ""
        lines.append(f"{finding.check} ({where}): expected {finding.expected}; observed {finding.observed}")
    if len(wrong) > _FINDINGS_SHOWN:
        lines.append(f"... and {len(wrong) - _FINDINGS_SHOWN} findings more")
    data = report.json()
    if data.get("reason"):
        lines.append(str(data["reason"]))
    if report.verdict in ("UNDECIDED", "VACUOUS"):
        lines += [f"not proved: {text}" for text in data.get("unproved", [])]
    return lines


def _write(report: Report, folder: Path, name: str) -> pathlib.Path:
    """Writes the report as data and as a page, and returns the path of the page."""
    there = pathlib.Path(folder)
    there.mkdir(parents=True, exist_ok=True)
    stem = _free_name(there, name)
    (there / f"{stem}.json").write_text(json.dumps(report.json(), indent=1), encoding="utf-8")
    page = there / f"{stem}.html"
    page.write_text(report.html(), encoding="utf-8")
    return page


def _free_name(folder: pathlib.Path, name: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "report"
    if len(stem) > 100:
        stem = stem[:80] + "-" + hashlib.sha256(stem.encode()).hexdigest()[:12]
    number = 1
    while (folder / f"{stem}{'' if number == 1 else f'-{number}'}.html").exists():
        number += 1
    return stem if number == 1 else f"{stem}-{number}"


def _judge(report: Report, alpha: float, accept: Collection[str], notes: list[str]) -> Report:
    if not ALPHA <= alpha <= 0.1:
        raise Error(f"alpha is {alpha}; give a number from {ALPHA:g} to 0.1")
    evidence = _evidence(report.json())
    suspicious = evidence >= _GAMES / alpha * (1 - 1e-9)
    if report.verdict in accept and not suspicious:
        return report
    head = f"{report.verdict}"
    if report.verdict in accept:
        head += f", but its evidence, {evidence:.3g}, is one that a right engine has with probability {alpha:g} at most"
    raise LosslessnessError("\n  ".join([head, *_essentials(report), *notes]), report)


def assert_lossless(
    subject: Any,
    speculative: Any = None,
    *,
    target: Path | None = None,
    alpha: float = ALPHA,
    accept: Collection[str] = _PASSES,
    report_folder: Path | None = None,
    name: str = "report",
    **options: Any,
) -> Report:
    """Asserts that a trace is that of a lossless engine, and returns the report. Throws LosslessnessError, an
    AssertionError, otherwise.

    subject: a trace: a file, a TraceWriter, or lines. With two engines, plain and speculative, they are compared by
    draftproof.compare, with `options` as its own. Of a trace, `options` are those of check_trace.
    alpha: probability with which a right engine is accused, 1e-9 or more; a larger one needs fewer tokens to find a
    fault. accept: verdicts that pass. report_folder: where every report is written, as name.html and name.json.
    """
    if speculative is not None:
        return _assert_equal_engines(subject, speculative, target, alpha, accept, report_folder, name, options)
    if isinstance(subject, TraceWriter):
        subject.close()
        subject = subject.path
    notes = []
    trace: Trace = subject
    if not isinstance(trace, (str, os.PathLike)):
        lines = list(trace)
        trace = lines
        if report_folder is not None:
            there = pathlib.Path(report_folder)
            there.mkdir(parents=True, exist_ok=True)
            trace = there / f"{_free_name(there, name)}.jsonl"
            write_lines(lines, trace)
    report = check_trace(trace, target=target, **options)
    if report_folder is not None:
        notes.append(f"report: {_write(report, report_folder, name)}")
    notes.append(_repetition(trace, target, options))
    return _judge(report, alpha, accept, notes)


def _repetition(trace: Trace, target: Path | None, options: dict[str, Any]) -> str:
    """Says which command repeats the check."""
    if not isinstance(trace, (str, os.PathLike)):
        return "repeat it: give report_folder (--draftproof-report), which keeps the lines, and check that file"
    words = ["draftproof", "trace", "check", os.fspath(trace)]
    if target is not None:
        words += ["--target", os.fspath(target)]
    for option, value in options.items():
        if option != "progress" and value is not None:
            words += [f"--{option}", str(value)]
    return "repeat it: " + shlex.join(words)


def _assert_equal_engines(
    plain: Any,
    speculative: Any,
    target: Path | None,
    alpha: float,
    accept: Collection[str],
    report_folder: Path | None,
    name: str,
    options: dict[str, Any],
) -> Report:
    import draftproof

    compare = getattr(draftproof, "compare", None)
    if compare is None:
        raise Error("this draftproof does not compare two engines; give a trace, or install a later one")
    if target is not None:
        options = {**options, "target": target}
    report: Report = compare(plain, speculative, **options)
    notes = [f"report: {_write(report, report_folder, name)}"] if report_folder is not None else []
    return _judge(report, alpha, accept, notes)


def assert_distribution(
    texts: Any,
    *,
    target: Path,
    temperature: float = 1.0,
    stop_tokens: Sequence[int] | None = None,
    vocabulary: int | None = None,
    sampling: dict[str, Any] | None = None,
    report_folder: Path | None = None,
    name: str = "report",
    **options: Any,
) -> Report:
    """Asserts that tokens are drawn from the target's distribution, and returns the report.

    texts: pairs of prompt and output, both lists of tokens; or a trace, as assert_lossless takes it. temperature,
    stop_tokens and sampling ({"top_p": 0.9}) are what the outputs were drawn with; 0 is greedy. A few tokens show
    nothing: the assertion fails as UNDECIDED, and says how many are missing. alpha, accept and the other options are
    those of assert_lossless.
    """
    common: dict[str, Any] = {"target": target, "report_folder": report_folder, "name": name, **options}
    if isinstance(texts, (str, os.PathLike, TraceWriter)):
        return assert_lossless(texts, **common)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.jsonl"
        if report_folder is not None:
            there = pathlib.Path(report_folder)
            there.mkdir(parents=True, exist_ok=True)
            path = there / f"{_free_name(there, name)}.jsonl"
        drawn_with = {"temperature": temperature, "stop_tokens": stop_tokens, **(sampling or {})}
        _write_texts(path, texts, vocabulary or _vocabulary_of(target), drawn_with)
        return assert_lossless(path if report_folder is not None else path.read_text().splitlines(), **common)


def _write_texts(
    path: pathlib.Path, texts: Iterable[tuple[Any, Any]], vocabulary: int, drawn_with: dict[str, Any]
) -> None:
    greedy = drawn_with["temperature"] == 0
    with TraceWriter(path, vocabulary=vocabulary, rule="greedy" if greedy else "rejection", engine="texts") as trace:
        for prompt, output in texts:
            tokens = [int(token) for token in output]
            if not tokens:
                raise Error("an output has no token; leave out texts without output")
            trace.sequence(prompt=prompt, **drawn_with)
            trace.round(emitted=tokens)
            stops = drawn_with["stop_tokens"]
            trace.end("stop" if stops is not None and tokens[-1] in stops else "length")


def _vocabulary_of(target: Path) -> int:
    config = pathlib.Path(target) / "config.json"
    if config.is_file():
        data = json.loads(config.read_text(encoding="utf-8"))
        size = data.get("vocab_size", data.get("text_config", {}).get("vocab_size"))
        if isinstance(size, int):
            return size
    return Model(target).vocabulary


class Models:
    """The small models that the package has, which write tales: tale-target, and tale-small, which drafts for it. Both
    are folders in the style of Hugging Face with the tokenizer of 2048 tokens; gguf() converts them.

    cache: the folder of what was converted.
    """

    NAMES = ("tale-target", "tale-small")
    TYPES = ("f32", "f16", "bf16", "q8_0")

    def __init__(self, cache: Path) -> None:
        self._cache = pathlib.Path(cache)

    @property
    def target(self) -> pathlib.Path:
        """The folder of tale-target."""
        return self.folder("tale-target")

    @property
    def small(self) -> pathlib.Path:
        """The folder of tale-small."""
        return self.folder("tale-small")

    def folder(self, name: str = "tale-target") -> pathlib.Path:
        """Returns the folder of a model."""
        if name not in self.NAMES:
            raise Error(f"there is no model {name!r}; there are {' and '.join(self.NAMES)}")
        return pathlib.Path(__file__).parent / "models" / name

    def gguf(self, type_: str = "bf16", name: str = "tale-target") -> pathlib.Path:
        """Returns a model as a GGUF file with weights of this type, made when it is first asked for."""
        folder = self.folder(name)
        if type_ not in self.TYPES:
            raise Error(f"there is no type {type_!r}; give one of {', '.join(self.TYPES)}")
        weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]
        file = self._cache / f"{name}-{type_}-{__version__}-{weights}.gguf"
        if not file.exists():
            self._cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._cache) as beside:
                made = pathlib.Path(beside) / file.name
                _command.run(["convert", os.fspath(folder), os.fspath(made), "--type", type_])
                shutil.move(made, file)
        return file
