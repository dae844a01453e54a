# SPDX-License-Identifier: MIT
"""Strategies for Hypothesis: prompts, sampling settings, rows, and pairs of rows that acceptance functions get wrong.
Whatever fails is shrunk by Hypothesis; rows are integers, so that shrinking is exact."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ._core import Error

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["prompts", "row_pairs", "rows", "sampling_settings"]

IntegerRow = tuple[int, ...]


def _hypothesis() -> Any:
    try:
        from hypothesis import strategies
    except ImportError:
        raise Error(
            "draftproof.strategies needs hypothesis, which is not installed; run pip install hypothesis"
        ) from None
    return strategies


def prompts(
    vocabulary: int, *, min_size: int = 1, max_size: int = 32, exclude: Collection[int] = ()
) -> SearchStrategy[list[int]]:
    """Lists of tokens, some of which repeat themselves, as drafts that look texts up need. exclude: tokens that no
    prompt may have."""
    st = _hypothesis()
    if not 1 <= min_size <= max_size:
        raise Error(f"min_size is {min_size} and max_size {max_size}; give 1 <= min_size <= max_size")
    excluded = frozenset(exclude)
    tokens = st.integers(0, vocabulary - 1).filter(lambda token: token not in excluded)
    part = st.lists(tokens, min_size=1, max_size=max(1, max_size // 4))

    def repeated(piece: list[int]) -> list[int]:
        times = -(-min_size // len(piece)) + 1
        return (piece * max(times, 3))[: max(min_size, min(max_size, 3 * len(piece)))]

    strategy: SearchStrategy[list[int]] = st.one_of(
        st.lists(tokens, min_size=min_size, max_size=max_size), part.map(repeated)
    )
    return strategy


def sampling_settings(*, greedy: bool = True) -> SearchStrategy[dict[str, Any]]:
    """Arguments of Model.generate: temperature, top_k, top_p, min_p and seed; each cut alone, and several together."""
    st = _hypothesis()
    temperature = st.one_of([*([st.just(0.0)] if greedy else []), st.just(1.0), st.floats(0.25, 4.0, width=32)])
    cuts = {
        "top_k": st.one_of(st.integers(1, 4), st.integers(1, 64)),
        "top_p": st.floats(0.0625, 1.0, width=32),
        "min_p": st.floats(0.0, 0.5, width=32),
    }
    strategy: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {"temperature": temperature, "seed": st.integers(0, 2**64 - 1)}, optional=cuts
    )
    return strategy


def rows(vocabulary: int, total: int) -> SearchStrategy[IntegerRow]:
    """Rows of integer weights that add up to total."""
    st = _hypothesis()
    if vocabulary < 1 or total < 1:
        raise Error(f"vocabulary is {vocabulary} and total {total}; give positive numbers")
    edges = st.lists(st.integers(0, total), min_size=vocabulary - 1, max_size=vocabulary - 1).map(sorted)
    strategy: SearchStrategy[IntegerRow] = edges.map(
        lambda inside: tuple(after - before for before, after in zip([0, *inside], [*inside, total]))
    )
    return strategy


def _point(vocabulary: int, total: int, token: int) -> IntegerRow:
    return tuple(total if place == token else 0 for place in range(vocabulary))


def _even(support: list[int], vocabulary: int, total: int) -> IntegerRow:
    """The same weight for each token of the support; what is left over goes to the first ones."""
    weight, left = divmod(total, len(support))
    given = {token: weight + (place < left) for place, token in enumerate(support)}
    return tuple(given.get(token, 0) for token in range(vocabulary))


def _geometric(vocabulary: int, total: int, falling: bool) -> IntegerRow:
    weights, left = [], total
    for _ in range(vocabulary - 1):
        weights.append(left - left // 2)
        left //= 2
    weights.append(left)
    return tuple(weights if falling else reversed(weights))


def row_pairs(vocabulary: int, total: int) -> SearchStrategy[tuple[IntegerRow, IntegerRow]]:
    """Pairs (p, q) of rows with one total, of the families that acceptance functions get wrong: equal rows, disjoint
    ones, points, zeros in one of them, a single unit in the tail, ties, q as a permutation of p, p cut to a support,
    geometric against uniform, and rows that differ by one unit."""
    st = _hypothesis()
    if vocabulary < 2 or total < vocabulary:
        raise Error(f"vocabulary is {vocabulary} and total {total}; give 2 <= vocabulary <= total")
    any_row = rows(vocabulary, total)
    token = st.integers(0, vocabulary - 1)
    point = token.map(lambda place: _point(vocabulary, total, place))
    support = st.sets(token, min_size=1, max_size=vocabulary - 1).map(sorted)
    everywhere = list(range(vocabulary))
    uniform = _even(everywhere, vocabulary, total)

    def disjoint(tokens: list[int]) -> tuple[IntegerRow, IntegerRow]:
        others = [place for place in everywhere if place not in tokens]
        return _even(tokens, vocabulary, total), _even(others, vocabulary, total)

    def cut(pair: tuple[list[int], IntegerRow]) -> tuple[IntegerRow, IntegerRow]:
        tokens, row = pair
        kept = [row[place] if place in tokens else 0 for place in everywhere]
        kept[tokens[0]] += total - sum(kept)
        return tuple(kept), row

    def by_one_unit(pair: tuple[IntegerRow, int, int]) -> tuple[IntegerRow, IntegerRow]:
        row, giver, taker = pair
        moved = list(row)
        if moved[giver]:
            moved[giver] -= 1
            moved[taker] += 1
        return row, tuple(moved)

    def unit_in_tail(pair: tuple[IntegerRow, int]) -> tuple[IntegerRow, IntegerRow]:
        row, place = pair
        tail = list(_point(vocabulary, total - 1, (place + 1) % vocabulary))
        tail[place] = 1
        return tuple(tail), row

    strategy: SearchStrategy[tuple[IntegerRow, IntegerRow]] = st.one_of(
        st.tuples(any_row, any_row),
        any_row.map(lambda row: (row, row)),
        support.map(disjoint),
        st.tuples(point, any_row),
        st.tuples(any_row, point),
        st.tuples(point, point),
        st.tuples(support, any_row).map(cut),
        st.tuples(support, any_row).map(cut).map(lambda pair: (pair[1], pair[0])),
        st.tuples(any_row, token).map(unit_in_tail),
        any_row.flatmap(lambda row: st.permutations(row).map(lambda other: (row, tuple(other)))),
        support.map(lambda tokens: (_even(tokens, vocabulary, total), uniform)),
        st.booleans().map(lambda falling: (_geometric(vocabulary, total, falling), uniform)),
        st.booleans().map(lambda falling: (uniform, _geometric(vocabulary, total, falling))),
        st.tuples(any_row, token, token).map(by_one_unit),
    )
    return strategy
