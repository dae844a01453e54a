# SPDX-License-Identifier: MIT
"""The exact distribution of an acceptance function that is written in Python: every random decision is enumerated, so
there are no samples and no false alarms.

    def verify(p, q, draft_token, random):
        if random.uniform() * q[draft_token] < p[draft_token]:
            return draft_token
        return random.choice([max(a - b, 0) for a, b in zip(p, q)])

    print(search(verify))  # every p and q of 2 and 3 tokens with small integer weights
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Union

from ._core import Error

__all__ = ["ExactDistribution", "Random", "Search", "Uniform", "exact_chain", "exact_distribution", "search"]

Row = tuple[Fraction, ...]
Weights = Sequence[Union[int, float, Fraction]]
Sampler = Callable[[Any, Any, int, "Random"], int]
ChainSampler = Callable[[Any, Any, list[int], "Random"], Sequence[int]]
Outcome = Union[int, tuple[int, ...]]
Decision = Union[int, tuple[Fraction, ...]]  # each number below an integer alike, or places with these weights

_PATHS_MAX = 10**6
_DRAWS_MAX = 10**4
_POINTS_MAX = 2**16  # of a uniform number that is asked for as a float


def _ceiling(number: Fraction) -> Fraction:
    return Fraction(-((-number).__floor__()))


def _fraction(number: Any) -> Fraction:
    """Returns the exact value. Throws TypeError for what is no number."""
    if isinstance(number, (int, Fraction)):
        return Fraction(number)
    if isinstance(number, Uniform) or not hasattr(number, "__float__"):
        raise TypeError("not an exact number")
    return Fraction(float(number))


def _next_place(weights: Decision, first: int) -> int:
    """Returns the first place from `first` on that has a weight; -1: there is none."""
    if isinstance(weights, int):
        return first if first < weights else -1
    return next((place for place in range(first, len(weights)) if weights[place]), -1)


class _Branches:
    """Takes every path through random decisions, depth first, and knows the probability of the one that is taken."""

    def __init__(self) -> None:
        self._taken: list[tuple[Decision, int]] = []
        self._at = 0
        self.weight = Fraction(1)
        self.paths = 0
        self.missed = Fraction(0)  # what a grid of uniform numbers may add to the distance

    def decide(self, weights: Decision, rounded: Fraction = Fraction(0)) -> int:
        """Returns a place among weights, which add up to 1, or below a number. rounded: what the decision misses on a
        grid, of a path that is certain to come here."""
        if self._at == _DRAWS_MAX:
            raise Error(f"the sampler makes more than {_DRAWS_MAX} random decisions; it may never end")
        if self._at == len(self._taken):
            self._taken.append((weights, _next_place(weights, 0)))
            self.missed += self.weight * rounded
        known, place = self._taken[self._at]
        if known != weights:
            raise Error(
                "the sampler does something else when it draws the same numbers again; it must take every random "
                "number from `random` and keep nothing between calls"
            )
        self._at += 1
        self.weight *= Fraction(1, weights) if isinstance(weights, int) else weights[place]
        return place

    def __iter__(self) -> Iterator[None]:
        while True:
            self._at, self.weight = 0, Fraction(1)
            yield
            self.paths += 1
            if self.paths == _PATHS_MAX:
                raise Error(
                    f"the sampler has more than {_PATHS_MAX} paths; use a smaller vocabulary or smaller weights"
                )
            while self._taken:
                weights, place = self._taken.pop()
                later = _next_place(weights, place + 1)
                if later >= 0:
                    self._taken.append((weights, later))
                    break
            if not self._taken:
                return


class Random:
    """The source of random numbers that a sampler is given."""

    def __init__(self, branches: _Branches, bits: int | None) -> None:
        self._branches = branches
        self._bits = bits

    def below(self, n: int) -> int:
        """Returns an integer in [0, n), each with probability 1/n."""
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"below({n}): there is no such number")
        return self._branches.decide(n)

    def choice(self, weights: Weights) -> int:
        """Returns a place among weights, which need not add up to 1."""
        exact = [_fraction(weight) for weight in weights]
        total = sum(exact)
        if total <= 0 or min(exact) < 0:
            raise ValueError("choice: weights must not be negative, and one must be positive")
        return self._branches.decide(tuple(weight / total for weight in exact))

    def uniform(self) -> Uniform:
        """Returns a number in [0, 1)."""
        return Uniform(_Range(self._branches, self._bits), Fraction(1), Fraction(0))


class _Range:
    """What is known of a uniform number: it lies in [low, high), in units of 2**-bits where there is a grid."""

    def __init__(self, branches: _Branches, bits: int | None) -> None:
        self.branches = branches
        self.grid = bits is not None
        self.unit = Fraction(1, 2**bits) if bits is not None else Fraction(1)
        self.low = Fraction(0)
        self.high = 1 / self.unit

    def cut(self, edges: Sequence[Fraction]) -> int:
        """Decides between which of the edges the number lies, which ascend; at an edge counts as above it. Returns how
        many edges are at or below it."""
        on_grid = [_ceiling(edge / self.unit) if self.grid else edge for edge in edges]
        inside = [min(max(edge, self.low), self.high) for edge in on_grid]
        bounds = [self.low, *inside, self.high]
        length = self.high - self.low
        weights = tuple((after - before) / length for before, after in zip(bounds, bounds[1:]))
        # Of edges between two points, the one that decides is the point above: a real number may lie between.
        off = sum(
            1 for edge, there in zip(edges, on_grid) if edge / self.unit != there and self.low < there <= self.high
        )
        if not off and sum(1 for weight in weights if weight) == 1:
            return _next_place(weights, 0)
        place = self.branches.decide(weights, off / length)
        self.low, self.high = bounds[place], bounds[place + 1]
        return place


class Uniform:
    """A uniform number, or one that is made from it by exact numbers: a * u + b. A comparison with an exact number
    decides on which side it lies, and both sides are enumerated."""

    def __init__(self, range_: _Range, factor: Fraction, offset: Fraction) -> None:
        self._range = range_
        self._factor = factor
        self._offset = offset

    def _below(self, other: Any, or_equal: bool) -> bool:
        if isinstance(other, Uniform):
            if other._range is not self._range:
                raise Error("two uniform numbers are compared with each other; compare them with exact numbers")
            return (self - other)._below(0, or_equal)
        number = _fraction(other)
        if self._factor == 0:
            return self._offset <= number if or_equal else self._offset < number
        edge = (number - self._offset) / self._factor
        rising = self._factor > 0
        # At the edge the number counts as above it: as `<` has it when rising, and `<=` when falling.
        if self._range.grid and rising == or_equal:
            edge = self._after(edge)
        return (self._range.cut([edge]) == 0) == rising

    def _after(self, edge: Fraction) -> Fraction:
        """Returns the edge that has a number on the grid at `edge` below it."""
        on_grid = (edge / self._range.unit).denominator == 1
        return edge + self._range.unit if on_grid else edge

    def __lt__(self, other: Any) -> bool:
        try:
            return self._below(other, or_equal=False)
        except TypeError:
            return NotImplemented

    def __le__(self, other: Any) -> bool:
        try:
            return self._below(other, or_equal=True)
        except TypeError:
            return NotImplemented

    def __gt__(self, other: Any) -> bool:
        below_or_equal = self.__le__(other)
        return below_or_equal if below_or_equal is NotImplemented else not below_or_equal

    def __ge__(self, other: Any) -> bool:
        below = self.__lt__(other)
        return below if below is NotImplemented else not below

    def __eq__(self, other: object) -> bool:
        return self <= other and self >= other

    __hash__ = None  # type: ignore[assignment]

    def __mul__(self, other: Any) -> Uniform:
        try:
            number = _fraction(other)
        except TypeError:
            return NotImplemented
        return Uniform(self._range, self._factor * number, self._offset * number)

    def __add__(self, other: Any) -> Uniform:
        if isinstance(other, Uniform) and other._range is self._range:
            return Uniform(self._range, self._factor + other._factor, self._offset + other._offset)
        try:
            return Uniform(self._range, self._factor, self._offset + _fraction(other))
        except TypeError:
            return NotImplemented

    __rmul__ = __mul__
    __radd__ = __add__

    def __neg__(self) -> Uniform:
        return self.__mul__(-1)

    def __sub__(self, other: Any) -> Uniform:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Uniform:
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Uniform:
        try:
            return self.__mul__(1 / _fraction(other))
        except TypeError:
            return NotImplemented

    def __floor__(self) -> int:
        """The integer below: each one that is possible is a branch."""
        if self._factor < 0:
            raise Error("the integer below a falling uniform number is not enumerated; write 1 - u as u")
        if self._factor == 0:
            return self._offset.__floor__()
        known, unit = self._range, self._range.unit
        first = (self._factor * known.low * unit + self._offset).__floor__()
        last = int(_ceiling(self._factor * known.high * unit + self._offset)) - 1
        if last - first > _POINTS_MAX:
            raise Error(f"a uniform number is rounded to one of {last - first} integers; scale it by less")
        edges = [(Fraction(whole) - self._offset) / self._factor for whole in range(first + 1, last + 1)]
        return first + known.cut(edges)

    __trunc__ = __int__ = __floor__

    def __float__(self) -> float:
        """Every point of the grid is a branch."""
        known = self._range
        points = int(known.high - known.low)
        if not known.grid or points > _POINTS_MAX:
            raise Error(
                "a uniform number is needed as a float; give bits=8, so that it has 2**8 values, each of which is "
                "enumerated"
            )
        known.low += known.branches.decide(points)
        known.high = known.low + 1
        return float(self._factor * known.low * known.unit + self._offset)


@dataclass(frozen=True)
class ExactDistribution:
    """What a sampler draws, exactly. str() shows it beside p and q."""

    p: dict[Outcome, Fraction]
    q: Row | None  # None of a chain
    distribution: dict[Outcome, Fraction]
    errors: dict[str, Fraction]  # what the sampler raised, and how likely that is
    paths: int
    tolerance: Fraction  # the distance that is granted, and what a grid of uniform numbers may add to it
    distance: Fraction = field(init=False)
    impossible: tuple[Outcome, ...] = field(init=False)

    def __post_init__(self) -> None:
        outcomes = sorted({*self.p, *self.distribution}, key=str)
        lost = sum(
            (max(self.p.get(o, Fraction(0)) - self.distribution.get(o, Fraction(0)), Fraction(0)) for o in outcomes)
        )
        object.__setattr__(self, "distance", Fraction(lost))
        impossible = tuple(o for o in outcomes if self.distribution.get(o) and not self.p.get(o))
        object.__setattr__(self, "impossible", impossible)

    @property
    def right(self) -> bool:
        """Whether the sampler draws from p: it never fails, draws nothing that p excludes, and misses p by no more than
        the tolerance."""
        return not self.errors and not self.impossible and self.distance <= self.tolerance

    def __str__(self) -> str:
        head = (
            "the sampler draws from p exactly"
            if self.right and not self.distance
            else (f"the sampler misses p by {self.distance} = {float(self.distance):.3g} in total variation")
        )
        if self.right and self.distance:
            head += f", within the tolerance of {float(self.tolerance):.3g}"
        lines = [head]
        for text, probability in self.errors.items():
            lines.append(f"it raises {text}, with probability {probability}")
        for outcome in self.impossible:
            lines.append(f"it draws {outcome}, which p excludes")
        table = [["", "p", *(["q"] if self.q else []), "drawn"]]
        for outcome in sorted({*self.p, *self.distribution}, key=str):
            q = [str(self.q[outcome])] if self.q and isinstance(outcome, int) else []
            drawn = self.distribution.get(outcome, Fraction(0))
            table.append([str(outcome), str(self.p.get(outcome, Fraction(0))), *q, str(drawn)])
        widths = [max(map(len, column)) for column in zip(*table)]
        lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
        return "\n".join(lines)


def _row(weights: Weights, name: str) -> Row:
    try:
        exact = [_fraction(weight) for weight in weights]
    except (TypeError, ValueError, OverflowError):
        raise Error(f"{name} is {weights!r}; give numbers") from None
    total = sum(exact)
    if not exact or total <= 0 or min(exact) < 0:
        raise Error(f"{name} is {weights!r}; give weights of which none is negative and one is positive")
    return tuple(weight / total for weight in exact)


def _granted(bits: int | None, tolerance: float | Fraction) -> Fraction:
    if bits is not None and not 1 <= bits <= 64:
        raise Error(f"bits is {bits}; give a number from 1 to 64")
    if not 0 <= tolerance <= 1:
        raise Error(f"tolerance is {tolerance}; give a number from 0 to 1")
    return Fraction(tolerance)


def _require_token(token: Any, vocabulary: int) -> int:
    try:
        number = operator.index(token)
    except TypeError:
        number = -1
    if not 0 <= number < vocabulary:
        raise Error(f"the sampler returned {token!r}, which is no token of a vocabulary of {vocabulary}")
    return number


def exact_distribution(
    sampler: Sampler,
    p: Weights,
    q: Weights,
    *,
    bits: int | None = None,
    tolerance: float | Fraction = 0,
    rows: Callable[[Row], Any] = tuple,
) -> ExactDistribution:
    """Returns the distribution of `sampler(p, q, draft_token, random)`, where the draft token is drawn from q.

    p, q: weights, of any sum. The sampler gets them as Fractions that add up to 1, made into what it takes by `rows`.
    bits: random.uniform() is k / 2**bits with k below 2**bits, as generators have it; None: a real number. A comparison
    with <= in place of < differs on a grid only. tolerance: the distance that is granted, to floats.
    """
    granted = _granted(bits, tolerance)
    target, draft = _row(p, "p"), _row(q, "q")
    if len(target) != len(draft):
        raise Error(f"p has {len(target)} weights and q has {len(draft)}; give both for the same tokens")
    branches = _Branches()
    drawn: dict[Outcome, Fraction] = {}
    errors: dict[str, Fraction] = {}
    for _ in branches:
        token = branches.decide(draft)
        try:
            emitted = _require_token(sampler(rows(target), rows(draft), token, Random(branches, bits)), len(target))
        except Error:
            raise
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure} (after draft token {token})"
            errors[text] = errors.get(text, Fraction(0)) + branches.weight
            continue
        drawn[emitted] = drawn.get(emitted, Fraction(0)) + branches.weight
    return ExactDistribution(dict(enumerate(target)), draft, drawn, errors, branches.paths, granted + branches.missed)


def exact_chain(
    sampler: ChainSampler,
    p: Callable[[tuple[int, ...]], Weights],
    q: Callable[[tuple[int, ...]], Weights],
    *,
    draft_tokens: int = 2,
    bits: int | None = None,
    tolerance: float | Fraction = 0,
    rows: Callable[[Row], Any] = tuple,
) -> ExactDistribution:
    """Returns the distribution of the draft_tokens + 1 tokens after a round that verifies a chain of draft tokens.

    p, q: the weights after the tokens of the text so far, none at the beginning. `sampler(p, q, draft_tokens, random)`
    gets the rows of p before and after every draft token and those of q before it, and returns the tokens that the
    round emits. What is missing of draft_tokens + 1 tokens is drawn from p.
    """
    granted = _granted(bits, tolerance)
    if not 1 <= draft_tokens <= 8:
        raise Error(f"draft_tokens is {draft_tokens}; give a number from 1 to 8")
    branches = _Branches()
    drawn: dict[Outcome, Fraction] = {}
    errors: dict[str, Fraction] = {}
    target_rows: dict[tuple[int, ...], Row] = {}

    def target(text: tuple[int, ...]) -> Row:
        if text not in target_rows:
            target_rows[text] = _row(p(text), f"p after {list(text)}")
        return target_rows[text]

    vocabulary = len(target(()))
    for _ in branches:
        chain: list[int] = []
        q_rows = []
        for _ in range(draft_tokens):
            q_rows.append(_row(q(tuple(chain)), f"q after {chain}"))
            chain.append(branches.decide(q_rows[-1]))
        p_rows = [target(tuple(chain[:length])) for length in range(draft_tokens + 1)]
        try:
            given = sampler(
                [rows(row) for row in p_rows], [rows(row) for row in q_rows], list(chain), Random(branches, bits)
            )
            emitted = [_require_token(token, vocabulary) for token in given]
        except Error:
            raise
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure} (after draft tokens {chain})"
            errors[text] = errors.get(text, Fraction(0)) + branches.weight
            continue
        if not 1 <= len(emitted) <= draft_tokens + 1:
            raise Error(f"the sampler returned {len(emitted)} tokens; a round emits 1 to {draft_tokens + 1}")
        while len(emitted) <= draft_tokens:
            emitted.append(branches.decide(target(tuple(emitted))))
        drawn[tuple(emitted)] = drawn.get(tuple(emitted), Fraction(0)) + branches.weight
    plain: dict[Outcome, Fraction] = {}
    for tokens in itertools.product(range(vocabulary), repeat=draft_tokens + 1):
        probability = Fraction(1)
        for place, token in enumerate(tokens):
            if probability:
                probability *= target(tokens[:place])[token]
        if probability:
            plain[tokens] = probability
    return ExactDistribution(plain, None, drawn, errors, branches.paths, granted + branches.missed)


@dataclass(frozen=True)
class Search:
    """The result of a search. str() says what was found."""

    checked: int
    counterexample: ExactDistribution | None

    @property
    def right(self) -> bool:
        """Whether the sampler drew from p in every case."""
        return self.counterexample is None

    def __str__(self) -> str:
        if self.counterexample is None:
            return f"the sampler draws from p in all {self.checked} cases"
        return f"the smallest counterexample, after {self.checked - 1} cases without a fault:\n{self.counterexample}"


def _weights(vocabulary: int, total: int) -> Iterator[tuple[int, ...]]:
    """Every list of `vocabulary` weights that add up to total."""
    if vocabulary == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _weights(vocabulary - 1, total - first):
            yield (first, *rest)


def search(
    sampler: Sampler,
    *,
    vocabulary: Sequence[int] = (2, 3),
    total: int = 6,
    bits: int | None = None,
    tolerance: float | Fraction = 0,
    rows: Callable[[Row], Any] = tuple,
) -> Search:
    """Takes every p and q of so many tokens whose integer weights add up to the same number, at most `total`; the
    smallest cases first. Ends at the first one in which the sampler does not draw from p."""
    checked = 0
    for tokens in vocabulary:
        for weight in range(1, total + 1):
            for p, q in itertools.product(list(_weights(tokens, weight)), repeat=2):
                checked += 1
                found = exact_distribution(sampler, p, q, bits=bits, tolerance=tolerance, rows=rows)
                if not found.right:
                    return Search(checked, found)
    return Search(checked, None)
