# SPDX-License-Identifier: MIT
"""Writes a trace (docs/spectrace.md) that draftproof.check_trace reads. A field that is unknown, or not what the schema
says, is an Error where it is written.

    with TraceWriter("run.jsonl", vocabulary=2048, rule="greedy", engine="my engine 1.0") as trace:
        trace.sequence(prompt=[1, 5], temperature=0, max_new_tokens=8)
        trace.round(emitted=[7, 9])
        trace.end("length")
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ._core import Error, RowsFile

__all__ = ["TraceWriter"]

_EXACT_MAX = 2**53  # every JSON reader keeps smaller integers
_INT_MAX = 2**31 - 1
_FLOAT_MAX = 3.4028234663852886e38
_ROWS_TOTAL = 2**52  # total_weight of rows of integers
_DRAFT_TOKENS_MAX = 2**16
_UNITS = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
_RULES = ("rejection", "matching", "greedy", "block")


class _Wrong(Exception):
    """What is wrong with a value: "must be ..."."""


def _wrong(what: str) -> NoReturn:
    raise _Wrong(what)


def _plain(value: Any) -> Any:
    """Returns the lists and numbers of an array of NumPy or torch, with equal values."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return value.tolist() if hasattr(value, "tolist") else value


def _hex(real: float) -> str:
    """Returns the hexadecimal float without the zeros at its end."""
    text = float(real).hex()
    digits, power, exponent = text.partition("p")
    return digits.rstrip("0").rstrip(".") + power + exponent if power and "." in digits else text


# What a field may be. Each kind takes a value and returns it as JSON has it, or raises _Wrong.
_Kind = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        _wrong("must be a text")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        _wrong("must be a text without half of a surrogate pair")
    return value


def _boolean(value: Any) -> bool:
    value = _plain(value)
    if not isinstance(value, bool):
        _wrong("must be True or False")
    return value


def _integer(low: int, high: int) -> _Kind:
    def read(value: Any) -> int:
        value = _plain(value)
        if isinstance(value, bool) or not isinstance(value, int):
            _wrong("must be an integer")
        if not low <= value <= high:
            _wrong(f"must lie in [{low}, {high}]")
        return value

    return read


def _number(value: Any) -> float:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _wrong("must be a number")
    return float(value)


def _any_real(value: Any) -> str:
    return _hex(_number(value))


def _real(low: float, high: float) -> _Kind:
    def read(value: Any) -> str:
        real = _number(value)
        if not low <= real <= high:
            _wrong(f"must lie in [{low}, {high}]")
        return _hex(real)

    return read


def _list_of(kind: _Kind) -> _Kind:
    def read(value: Any) -> list[Any]:
        value = _plain(value)
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            _wrong("must be a list")
        items = []
        for place, item in enumerate(value):
            try:
                items.append(kind(item))
            except _Wrong as wrong:
                _wrong(f"at place {place} is {_shown(item)}, which {wrong}")
        return items

    return read


def _or_none(kind: _Kind) -> _Kind:
    return lambda value: None if value is None else kind(value)


def _one_of(*names: str) -> _Kind:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            _wrong("must be " + ", ".join(names[:-1]) + " or " + names[-1])
        return value

    return read


def _rule(value: Any) -> str:
    if isinstance(value, str) and value.startswith("lossy:") and len(value) > len("lossy:"):
        return _text(value)
    if not isinstance(value, str) or value not in _RULES:
        _wrong("must be " + ", ".join(_RULES) + " or lossy:NAME")
    return value


def _digest(value: Any) -> str:
    text = _text(value)
    if len(text) != 32 or set(text) - set("0123456789abcdef"):
        _wrong("must be 32 lower-case hexadecimal digits")
    return text


def _object(kinds: Mapping[str, _Kind], *required: str) -> _Kind:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            _wrong("must be a dict")
        fields = {}
        for name, part in value.items():
            if name not in kinds:
                _wrong(f"must have no field {_shown(name)}; it may have {', '.join(kinds)}")
            try:
                fields[name] = kinds[name](part)
            except _Wrong as wrong:
                _wrong(f"has the {name} {_shown(part)}, which {wrong}")
        for name in required:
            if name not in fields:
                _wrong(f"must have the field {name}")
        return fields

    return read


def _json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(_plain(value), allow_nan=False))
    except (TypeError, ValueError):
        _wrong("must be JSON: texts, numbers, lists and dicts of them")


def _seed(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        _wrong("must be an integer of 64 bits")
    return str(value)


def _counts(*names: str) -> _Kind:
    return _object(dict.fromkeys(names, _integer(0, _INT_MAX)))


_COUNT = _integer(0, _INT_MAX)
_ANY_TOKEN = _integer(-(2**31), _INT_MAX)  # one outside the vocabulary is the engine's fault, and the check's to find
_COSTS = _list_of(_real(0, 1e9))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:60] + " ..."


def _no_path(value: Any) -> str:
    name = _text(value)
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        _wrong("must be the name of a file beside the trace, without folders")
    return name


_HEADER_KINDS: dict[str, _Kind] = {
    "engine": _text,
    "weights": _text,
    "vocabulary": _integer(1, _INT_MAX),
    "rule": _rule,
    "total_weight": _integer(1, _ROWS_TOTAL),
    "dtype": _one_of(*_UNITS),
    "rows_file": _no_path,
    "rng": _object({"algorithm": _text, "seed": _seed, "bits": _integer(1, 64)}, "algorithm"),
}


class TraceWriter:
    """Writes a trace, each line as it is stated. An exception that leaves the `with` block leaves a trace of an
    interrupted run: what was written, without an end of the sequences that were open.

    rows: write p_rows and q_rows to a file beside the trace (PATH.rows.h5), as large vocabularies need.
    vocabulary, rule, engine, weights, total_weight, dtype and rng are the fields of the header; names of your own begin
    with x_.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vocabulary: int,
        rule: str | None = None,
        engine: str = "unnamed",
        rows: bool = False,
        **fields: Any,
    ) -> None:
        self._path = pathlib.Path(path)
        self._open: dict[int, _Sequence] = {}
        self._last = -1
        self._rows: RowsFile | None = None
        self._sha = hashlib.sha256()
        fields = {"engine": engine, "vocabulary": vocabulary, "rule": rule, **fields}
        if "rows_file" in fields:
            raise Error(f"{self._path}: rows_file is chosen by the writer; give rows=True")
        header = self._read(fields, _HEADER_KINDS, "the header")
        self._vocabulary: int = header["vocabulary"]
        self._total: int = header.get("total_weight", 0)
        self._unit = _UNITS[header.get("dtype", "f32")]
        self._rule: str | None = header.get("rule")
        self._token = _integer(0, self._vocabulary - 1)
        rows_path = self._path.with_name(self._path.name + ".rows.h5")
        if rows:
            if self._total not in (0, _ROWS_TOTAL):
                raise Error(f"{self._path}: total_weight is {self._total}, but rows of integers need 2**52")
            header["rows_file"] = rows_path.name
        self._sequence_kinds = self._kinds_of_sequences()
        self._round_kinds = self._kinds_of_rounds()
        self._end_kinds = self._kinds_of_ends()
        try:
            self._file = open(self._path, "wb", buffering=0)  # a killed process leaves whole lines
        except OSError as failure:
            raise Error(f"{self._path}: cannot be written: {failure.strerror}") from None
        if rows:
            self._rows = RowsFile(rows_path, self._total > 0)
        self._line("header", {"schema": "spectrace/2", **header})

    # The fields of docs/spectrace.md, for whoever wants to know them.
    def fields(self) -> dict[str, tuple[str, ...]]:
        """Returns the names of the fields that each type of line may have."""
        always = ("type",)
        return {
            "header": (*always, "schema", *_HEADER_KINDS),
            "sequence": (*always, *self._sequence_kinds),
            "round": (*always, *self._round_kinds),
            "context_shift": (*always, "sequence", "tokens_read", "keep", "discard"),
            "end": (*always, *self._end_kinds),
        }

    def sequence(self, *, prompt: Any, temperature: float, sequence: int | None = None, **fields: Any) -> int:
        """Opens a sequence and returns its number, by default the next one."""
        number = self._last + 1 if sequence is None else sequence
        about = f"sequence {_shown(number)}"
        stated = {"sequence": number, "prompt": prompt, "temperature": temperature, **fields}
        line = self._read(stated, self._sequence_kinds, about)
        if line["sequence"] <= self._last:
            self._fail(about, "sequence", number, f"must be above {self._last}, the number of the last sequence")
        if not line["prompt"]:
            self._fail(about, "prompt", prompt, "must hold at least one token")
        rule = line.get("rule", self._rule)
        if rule is None:
            self._fail(about, "rule", None, "must be given here or to the TraceWriter")
        if line.get("grammar") == "":
            self._fail(about, "grammar", "", "must not be empty; leave it out where there is no grammar")
        if "constrained_prompt" in line:
            if "grammar" not in line:
                self._fail(about, "constrained_prompt", line["constrained_prompt"], "needs the field grammar")
            if line["constrained_prompt"] > len(line["prompt"]):
                self._fail(about, "constrained_prompt", line["constrained_prompt"], "must not exceed the prompt")
        if "draft_costs" in line:
            self._check_costs(about, line["draft_costs"])
        if line.get("other_sampler") == "":
            self._fail(about, "other_sampler", "", "must not be empty; leave it out where tokens are drawn as declared")
        if "continues" in line:
            if line["continues"] >= line["sequence"]:
                self._fail(about, "continues", line["continues"], "must be the number of an earlier sequence")
            if "reused" not in line:
                self._fail(about, "reused", None, "must be given where the sequence continues another")
        if len(self._open) == 2**14:
            raise Error(f"{self._path}: more than 2**14 sequences are open at once; call end(...) of some first")
        self._open[line["sequence"]] = _Sequence(
            rule,
            len(line["prompt"]),
            hides_stops=line.get("stop_token_emitted") is False and "stop_tokens" in line,
            masked=line.get("masked", False),
        )
        self._last = line["sequence"]
        self._line("sequence", line)
        return int(line["sequence"])

    def round(self, *, emitted: Any, sequence: int | None = None, **fields: Any) -> None:
        """Writes a round. round and position are counted here unless you state them. p_rows and q_rows are lists of
        rows, and a row is {token: weight} or one weight for every token of the vocabulary."""
        number, state = self._opened(sequence)
        about = f"round {state.rounds} of sequence {number}"
        stated = {"sequence": number, "round": state.rounds, "position": state.text, "emitted": emitted, **fields}
        line = self._read(stated, self._round_kinds, about)
        if line["round"] != state.rounds:
            self._fail(about, "round", line["round"], f"must be {state.rounds}; rounds have no gaps")
        if line["position"] <= state.position:
            self._fail(about, "position", line["position"], f"must be above {state.position}, that of the last round")
        self._check_round(about, line, state)
        for name in ("p_rows", "q_rows"):
            if name in line:
                line[name] = self._written_rows(line[name])
        self._line("round", line)
        state.rounds += 1
        state.position = line["position"]
        state.emitted += len(line["emitted"])
        state.text += len(line["emitted"])

    def context_shift(self, *, tokens_read: int, keep: int, discard: int, sequence: int | None = None) -> None:
        """States that positions [keep, keep + discard) of the cache were dropped."""
        number, state = self._opened(sequence)
        about = f"a context shift of sequence {number}"
        kinds = {name: _integer(low, _INT_MAX) for name, low in (("tokens_read", 1), ("keep", 0), ("discard", 1))}
        line = self._read({"tokens_read": tokens_read, "keep": keep, "discard": discard}, kinds, about)
        high = state.text - 1
        low = high if state.rounds else state.shifted
        if not low <= line["tokens_read"] <= high:
            self._fail(about, "tokens_read", tokens_read, f"must lie in [{low}, {high}]")
        if line["keep"] + line["discard"] > line["tokens_read"] - state.dropped:
            self._fail(about, "discard", discard, "must leave what the cache holds")
        state.shifted = line["tokens_read"]
        state.dropped += line["discard"]
        self._line("context_shift", {"sequence": number, **line})

    def end(self, reason: str, *, sequence: int | None = None, **fields: Any) -> None:
        """Writes the end of a sequence, with the count of its tokens and the digest of all lines before."""
        number, state = self._opened(sequence)
        about = f"the end of sequence {number}"
        stated = {"sequence": number, "reason": reason, "emitted_count": state.emitted, **fields}
        line = self._read(stated, self._end_kinds, about)
        line.setdefault("sha256", self._sha.hexdigest())
        if line["sha256"] != self._sha.hexdigest():
            self._fail(about, "sha256", line["sha256"], "is not the digest of the lines before; leave it out")
        self._line("end", line)
        del self._open[number]

    def close(self) -> None:
        """Closes the files. Sequences without an end are those of an interrupted run."""
        if self._file.closed:
            return
        if self._rows is not None:
            self._rows.finish()
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None and self._open:
            numbers = ", ".join(map(str, self._open))
            raise Error(f"{self._path}: no end was written of sequence {numbers}; call end(reason, sequence=...)")

    @property
    def path(self) -> pathlib.Path:
        """The file that is written."""
        return self._path

    def _opened(self, sequence: int | None) -> tuple[int, _Sequence]:
        number = self._last if sequence is None else sequence
        if number not in self._open:
            raise Error(
                f"{self._path}: sequence {_shown(number)} is not open here; call sequence(...) before its rounds"
            )
        return int(number), self._open[number]

    def _fail(self, about: str, name: str, value: Any, what: str) -> NoReturn:
        raise Error(f"{self._path}: {about}: field {name} is {_shown(value)}; it {what}") from None

    def _read(self, stated: Mapping[str, Any], kinds: Mapping[str, _Kind], about: str) -> dict[str, Any]:
        line = {}
        for name, value in stated.items():
            kind = kinds.get(name, _json if name.startswith("x_") else None)
            if kind is None:
                raise Error(
                    f"{self._path}: {about}: there is no field {name}; docs/spectrace.md lists the fields, and names "
                    "of your own begin with x_"
                )
            if value is None and name != "next_u":
                continue
            try:
                line[name] = kind(value)
            except _Wrong as wrong:
                self._fail(about, name, value, str(wrong))
        return line

    def _line(self, type_: str, fields: Mapping[str, Any]) -> None:
        data = (json.dumps({"type": type_, **fields}, separators=(",", ":"), allow_nan=False) + "\n").encode()
        if len(data) > 2**24:
            raise Error(f"{self._path}: a line of type {type_} has {len(data)} bytes, more than 2**24; give rows=True")
        if self._file.closed:
            raise Error(f"{self._path}: the trace is closed; write inside the with block")
        self._file.write(data)
        self._sha.update(data)

    def _kinds_of_sequences(self) -> dict[str, _Kind]:
        tokens = _list_of(self._token)
        real = _real(-_FLOAT_MAX, _FLOAT_MAX)
        whole = _integer(-_INT_MAX, _INT_MAX)
        return {
            "sequence": _integer(0, _EXACT_MAX),
            "rng_key": _COUNT,
            "rule": _rule,
            "prompt": tokens,
            "temperature": real,
            "top_k": whole,
            "top_p": real,
            "min_p": real,
            "repeat_penalty": real,
            "presence_penalty": real,
            "frequency_penalty": real,
            "repeat_last_n": whole,
            "top_n_sigma": real,
            "typical_p": real,
            "dynatemp_range": real,
            "dynatemp_exponent": real,
            "xtc_probability": real,
            "xtc_threshold": real,
            "dry_multiplier": real,
            "dry_base": real,
            "dry_allowed_length": whole,
            "dry_penalty_last_n": whole,
            "dry_breakers": tokens,
            "mirostat": whole,
            "mirostat_tau": real,
            "mirostat_eta": real,
            "adaptive_target": real,
            "adaptive_decay": real,
            "sampler_order": _list_of(_text),
            "logit_bias": self._logit_bias,
            "grammar": _text,
            "constrained_prompt": _COUNT,
            "json_schema": _json,
            "adjustments": _list_of(_text),
            "masked": _boolean,
            "other_sampler": _text,
            "continues": _integer(0, _EXACT_MAX),
            "reused": _COUNT,
            "max_new_tokens": _COUNT,
            "stop_tokens": tokens,
            "stop_strings": _list_of(_text),
            "stop_token_emitted": _boolean,
            "logprobs_of": _one_of("logits", "p"),
            "max_draft_tokens": _integer(0, _DRAFT_TOKENS_MAX),
            "draft_costs": _object(
                {
                    "verify": _COSTS,
                    "draft": _list_of(_COSTS),
                    "reading": _COSTS,
                    "work": _list_of(_one_of("none", "one_pass", "passes", "as_asked")),
                },
                "verify",
                "draft",
                "reading",
            ),
            "verification": _one_of("batched", "serial", "redecode"),
            "draft": _text,
            "kernels": _text,
            "numerics": _text,
        }

    def _kinds_of_rounds(self) -> dict[str, _Kind]:
        weight = _integer(0, self._total) if self._total else _any_real
        u = _integer(0, max(self._total - 1, 0)) if self._total else _any_real
        integers = _list_of(_integer(0, self._total))
        counts = _list_of(_COUNT)
        seconds = _real(0, 1e9)
        draw = _object(
            {
                "token": self._token,
                "u": _or_none(_integer(0, max(self._total - 1, 0))),
                "bound": _integer(1, max(self._total, 1)),
                "before": _integer(0, self._total),
                "weight": _integer(0, max(self._total, 1)),
                "p": _integer(0, self._total),
                "q": _integer(0, self._total),
            },
            "token",
            "bound",
            "before",
            "weight",
        )
        return {
            "sequence": _integer(0, _EXACT_MAX),
            "round": _integer(0, _EXACT_MAX),
            "position": _integer(1, _INT_MAX),
            "emitted": _list_of(_ANY_TOKEN),
            "draft_tokens": _list_of(_ANY_TOKEN),
            "accepted": _COUNT,
            "width": _integer(1, _INT_MAX),
            "next_from": _one_of("residual", "target", "bonus", "greedy"),
            "q_draft": _list_of(weight),
            "p_draft": _list_of(weight),
            "accept_u": _list_of(_or_none(u)),
            "p_before": integers,
            "draft_u": _list_of(_or_none(u)),
            "q_before": integers,
            "draft_parents": _list_of(_integer(-1, _DRAFT_TOKENS_MAX)),
            "accepted_path": _list_of(_COUNT),
            "sibling_draws": _list_of(_or_none(draw)),
            "sibling_u": _list_of(_or_none(_any_real)),
            "allowed_tokens": _list_of(_or_none(self._allowed)),
            "allowed_digests": _list_of(_digest),
            "state_digest": _digest,
            "next": draw,
            "next_u": _or_none(_any_real),
            "rng_positions": _object(dict.fromkeys(("target", "draft", "accept", "residual"), counts)),
            "target_held": _COUNT,
            "draft_held": counts,
            "draft_unread": counts,
            "draft_anchor": _COUNT,
            "draft_asked": _list_of(_integer(0, _DRAFT_TOKENS_MAX)),
            "verify_seconds": seconds,
            "draft_seconds": seconds,
            "draft_cut": _integer(0, _DRAFT_TOKENS_MAX),
            "draft_forced": _COUNT,
            "top_logits": _list_of(self._top_two),
            "logits_digests": _list_of(_digest),
            "p_digests": _list_of(_digest),
            "q_digests": _list_of(_digest),
            "logprobs": _list_of(_any_real),
            "top_logprobs": _list_of(self._top_logprobs),
            "p_rows": self._rows_kind,
            "q_rows": self._rows_kind,
        }

    def _kinds_of_ends(self) -> dict[str, _Kind]:
        def reason(value: Any) -> str:
            if isinstance(value, str) and value.startswith("other:") and len(value) > len("other:"):
                return value
            if not isinstance(value, str) or value not in ("stop", "length", "cancelled"):
                _wrong("must be stop, length, cancelled or other:NAME")
            return value

        return {
            "sequence": _integer(0, _EXACT_MAX),
            "reason": reason,
            "emitted_count": _COUNT,
            "emitted": _list_of(self._token),
            "statistics": _counts(
                "rounds", "iterations", "drafted", "accepted", "mismatches", "all_accepted", "batched", "serial"
            ),
            "sha256": _text,
        }

    def _allowed(self, value: Any) -> dict[str, Any]:
        tokens = _list_of(self._token)
        allowed: dict[str, Any] = _object({"only": tokens, "except": tokens})(value)
        if len(allowed) != 1:
            _wrong("must be None, or have one of the fields only and except")
        (listed,) = allowed.values()
        if sorted(set(listed)) != listed:
            _wrong("must list tokens in ascending order, each once")
        if allowed.get("only") == []:
            _wrong("must allow a token")
        return allowed

    def _logit_bias(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            _wrong("must be a dict of tokens and what is added to their logits")
        biases = {}
        for token, bias in value.items():
            number = int(token) if isinstance(token, str) and token.isascii() and token.isdigit() else _plain(token)
            self._token(number)
            bias = _plain(bias)
            whole = isinstance(bias, int) and not isinstance(bias, bool)
            biases[str(number)] = (_integer(-_EXACT_MAX, _EXACT_MAX) if whole else _real(-_FLOAT_MAX, _FLOAT_MAX))(bias)
        return biases

    def _top_two(self, value: Any) -> list[Any]:
        value = _plain(value)
        if not isinstance(value, Sequence) or len(value) != 4:
            _wrong("must be [token, logit, token, logit], the best first")
        logit = _real(-1.7976931348623157e308, 1.7976931348623157e308)
        return [self._whole_token(value[0]), logit(value[1]), self._whole_token(value[2]), logit(value[3])]

    def _top_logprobs(self, value: Any) -> list[Any]:
        pairs = list(value.items()) if isinstance(value, Mapping) else _pairs(_plain(value))
        line: list[Any] = []
        for token, logprob in pairs:
            line += [self._whole_token(token), _any_real(logprob)]
        if len(set(line[::2])) != len(pairs):
            _wrong("must list each token once")
        return line

    def _whole_token(self, value: Any) -> Any:
        """Reads a token of a list that has reals, too: an array of them makes it a float."""
        value = _plain(value)
        return self._token(int(value) if isinstance(value, float) and value.is_integer() else value)

    def _check_costs(self, about: str, costs: Mapping[str, Any]) -> None:
        verify, draft, reading = costs["verify"], costs["draft"], costs["reading"]
        fits = 2 <= len(verify) <= 1 + 2**10 and 1 <= len(draft) <= 64 and len(reading) == len(draft)
        fits = fits and len(costs.get("work", draft)) == len(draft)
        if not fits or not all(2 <= len(stage) <= len(verify) for stage in draft):
            self._fail(about, "draft_costs", costs, "must have lists of the lengths that docs/spectrace.md says")
        if float.fromhex(verify[0]) < 1e-9:
            self._fail(about, "draft_costs", costs, "must say what a pass without draft tokens costs")

    def _check_round(self, about: str, line: Mapping[str, Any], state: _Sequence) -> None:
        """Holds the lengths of lists, and which fields need which others."""

        def size(name: str, low: int, high: int) -> None:
            if name in line and not low <= len(line[name]) <= high:
                wanted = f"{low}" if low == high else f"{low} to {high}"
                self._fail(about, name, line[name], f"must have {wanted} elements, and has {len(line[name])}")

        def needs(name: str, other: str) -> None:
            if name in line and other not in line:
                self._fail(about, name, line[name], f"needs the field {other}")

        emitted = len(line["emitted"])
        if not emitted and not state.hides_stops:
            self._fail(
                about, "emitted", [], "must hold a token, unless stop_token_emitted is False and stop_tokens are given"
            )
        size("logprobs", emitted, emitted)
        size("top_logprobs", emitted, emitted)
        needs("draft_unread", "draft_held")
        held = len(line.get("draft_held", []))
        size("draft_unread", held, held)
        size("draft_asked", 1, 64)
        if "allowed_tokens" in line and not state.masked:
            self._fail(about, "allowed_tokens", line["allowed_tokens"], "needs masked=True of its sequence")
        if "draft_tokens" not in line:
            for name in line:
                if name not in _WITHOUT_DRAFT_TOKENS and not name.startswith("x_"):
                    needs(name, "draft_tokens")
            for name in ("p_rows", "allowed_tokens", "allowed_digests"):
                size(name, emitted, emitted)
            return
        for name in ("accepted", "next_from"):
            if name not in line:
                self._fail(about, name, None, "must be given where draft_tokens are")
        drafted = len(line["draft_tokens"])
        accepted: int = line["accepted"]
        size("draft_tokens", 0, _DRAFT_TOKENS_MAX)
        if accepted > drafted:
            self._fail(about, "accepted", accepted, f"must be at most {drafted}, the number of draft tokens")
        if emitted > accepted + 1:
            self._fail(
                about, "emitted", line["emitted"], "must hold no more than the accepted draft tokens and one token"
            )
        if line.get("width", 1) > drafted + 1:
            self._fail(about, "width", line["width"], f"must be at most {drafted + 1}; do not count padding")
        if line.get("draft_forced", 0) > drafted:
            self._fail(about, "draft_forced", line["draft_forced"], f"must be at most {drafted}")
        tree = "draft_parents" in line
        rows = self._check_tree(about, line, state) if tree else min(accepted + 1, drafted)
        alone = state.rule != "block" and not state.rule.startswith("lossy:")
        verified = rows if alone else 0
        of_p = rows if tree else drafted
        of_q = drafted if tree or state.rule == "block" else rows
        matching = state.rule == "matching"
        size("q_draft", of_q, drafted)
        size("p_draft", verified, of_p)
        if state.rule == "greedy" and "accept_u" in line:
            self._fail(about, "accept_u", line["accept_u"], "must be left out: the rule greedy draws none")
        size("accept_u", accepted if matching else verified, accepted if matching else of_p)
        if "p_before" in line and not matching:
            self._fail(about, "p_before", line["p_before"], "belongs to the rule matching only")
        size("p_before", accepted, accepted)
        size("draft_u", of_q, drafted)
        size("q_before", of_q, drafted)
        for name in ("logits_digests", "p_digests", "top_logits", "p_rows", "allowed_tokens", "allowed_digests"):
            size(name, accepted + 1, accepted + 1 if tree else drafted + 1)
        for name in ("sibling_draws", "sibling_u"):
            if name in line and state.rule != "rejection":
                self._fail(about, name, line[name], "belongs to the rule rejection only")
            size(name, accepted, accepted)
        for name in ("q_digests", "q_rows"):
            size(name, of_q, drafted)
        if not tree:
            for name in ("accepted_path", "sibling_draws", "sibling_u"):
                needs(name, "draft_parents")
        needs("draft_cut", "draft_asked")
        needs("verify_seconds", "draft_asked")
        needs("verify_seconds", "draft_seconds")
        needs("draft_seconds", "verify_seconds")
        self._check_weights(about, line, state)

    def _check_tree(self, about: str, line: Mapping[str, Any], state: _Sequence) -> int:
        """Holds the shape of a tree. Returns at how many rows a draft token is verified."""
        if state.rule == "block":
            parents = line["draft_parents"]
            self._fail(about, "draft_parents", parents, "belongs to a tree; block verification is of chains")
        parents, path = line["draft_parents"], line.get("accepted_path")
        drafted = len(line["draft_tokens"])
        accepted: int = line["accepted"]
        if len(parents) != drafted or any(parent >= place for place, parent in enumerate(parents)):
            what = "must state for each draft token the place of one before it, or -1"
            self._fail(about, "draft_parents", parents, what)
        above = [-1, *(path or [])]
        if path is None or len(path) != accepted or any(
            node >= drafted or parents[node] != parent for parent, node in zip(above, path)
        ):
            what = "must hold the places of the accepted draft tokens, each a child of the last"
            self._fail(about, "accepted_path", path, what)
        return accepted + (1 if above[-1] in parents else 0)

    def _check_weights(self, about: str, line: Mapping[str, Any], state: _Sequence) -> None:
        """Holds integers to their bounds, and to a header that has them."""
        if not self._total:
            for name in ("next", "p_before", "q_before", "sibling_draws"):
                if name in line:
                    self._fail(about, name, line[name], "needs integer weights; give the TraceWriter total_weight")
            return
        for name in ("next_u", "sibling_u"):
            if name in line:
                self._fail(about, name, line[name], "belongs to real weights; integer weights use the field next")
        if state.rule == "rejection" and "q_draft" in line:
            for u, q in zip(line.get("accept_u", []), self._verified(line, line["q_draft"])):
                if u is not None and u >= q:
                    self._fail(about, "accept_u", line["accept_u"], "must lie below the weights of q_draft")
        siblings = [("sibling_draws", draw) for draw in line.get("sibling_draws", [])]
        for name, draw in [("next", line.get("next")), *siblings]:
            if draw is None:
                continue
            inside = draw["weight"] <= draw["bound"] and draw["before"] <= draw["bound"] - draw["weight"]
            if not inside or (draw.get("u") is not None and draw["u"] >= draw["bound"]):
                self._fail(about, name, draw, "must have before + weight within bound, and u below it")

    @staticmethod
    def _verified(line: Mapping[str, Any], of_draft_tokens: list[Any]) -> list[Any]:
        """Returns what is stated of the draft tokens that rejection verifies, by row."""
        if "draft_parents" not in line:
            return of_draft_tokens
        rows = [-1, *line["accepted_path"]]
        return [of_draft_tokens[line["draft_parents"].index(above)] for above in rows if above in line["draft_parents"]]

    def _rows_kind(self, value: Any) -> list[_Row]:
        if self._total not in (0, _ROWS_TOTAL):
            _wrong("needs a total_weight of 2**52")
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            _wrong("must be a list of rows")
        rows = []
        for place, row in enumerate(value):
            try:
                rows.append(self._row(row))
            except _Wrong as wrong:
                _wrong(f"has a row at place {place} that {wrong}")
        return rows

    def _row(self, row: Any) -> _Row:
        kind = np.uint64 if self._total else np.float64
        if hasattr(row, "detach"):
            row = row.detach().cpu()
            row = row.double().numpy() if row.is_floating_point() else row.numpy()
        try:
            if isinstance(row, Mapping):
                given = sorted((self._token(token), _plain(weight)) for token, weight in row.items())
                tokens = np.array([token for token, _ in given], np.int32)
                dense = np.array([weight for _, weight in given])
            else:
                dense = np.asarray(row)
                tokens = np.arange(len(dense), dtype=np.int32)
                if dense.shape != (self._vocabulary,):
                    _wrong(f"has the shape {dense.shape}; give a weight for each of the {self._vocabulary} tokens")
        except (TypeError, ValueError):
            _wrong("must be {token: weight} or the weights of all tokens")
        if dense.size and dense.dtype.kind not in ("ui" if self._total else "uif"):
            _wrong("must have integer weights" if self._total else "must have numbers as weights")
        if dense.size and dense.min() < 0:
            _wrong("must have no weight below 0")
        there = dense != 0
        tokens, weights = tokens[there], dense[there].astype(kind)
        if self._total:
            total = sum(map(int, weights))
            if total != self._total:
                _wrong(f"must add up to total_weight, {self._total}, and adds up to {total}")
        elif np.isfinite(weights).all() or self._rows is not None:
            reached = float(np.cumsum(weights)[-1]) if weights.size else 0.0
            if not weights.size or not abs(reached - 1) <= 4 * self._unit * weights.size or weights.max() > 1:
                _wrong(f"must add up to 1 up to rounding, and adds up to {reached}")
        return tokens, weights

    def _written_rows(self, rows: list[_Row]) -> Any:
        if self._rows is None:
            return [_row_text(tokens, weights) for tokens, weights in rows]
        if sum(len(tokens) for tokens, _ in rows) > 2**24:
            raise Error(
                f"{self._path}: the rows of a round have more than 2**24 tokens; write fewer draft tokens a round"
            )
        lists = [(tokens.tolist(), weights.tolist()) for tokens, weights in rows]
        return self._rows.append_integers(lists) if self._total else self._rows.append_reals(lists)


_Row = tuple[NDArray[np.int32], NDArray[Any]]

# Fields that a round may have although it states no draft tokens.
_WITHOUT_DRAFT_TOKENS = frozenset(
    "sequence round position emitted p_rows logprobs top_logprobs target_held draft_held draft_unread allowed_tokens "
    "allowed_digests state_digest".split()
)


class _Sequence:
    """What was written of an open sequence."""

    def __init__(self, rule: str, prompt: int, *, hides_stops: bool, masked: bool) -> None:
        self.rule = rule
        self.masked = masked
        self.text = prompt
        self.position = prompt - 1
        self.hides_stops = hides_stops
        self.rounds = self.emitted = self.shifted = self.dropped = 0


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) % 2:
        _wrong("must be {token: log-probability} or [token, log-probability, ...]")
    return list(zip(value[::2], value[1::2]))


def _row_text(tokens: NDArray[np.int32], weights: NDArray[Any]) -> list[Any]:
    whole = weights.dtype == np.uint64
    line: list[Any] = []
    for token, weight in zip(tokens.tolist(), weights.tolist()):
        line += [token, weight if whole else _hex(weight)]
    return line
