# SPDX-License-Identifier: MIT
"""draftproof.exact: right acceptance functions pass, and every wrong one is caught with its smallest case."""

import itertools
import unittest
from fractions import Fraction

import numpy as np

import draftproof
from draftproof.exact import exact_chain, exact_distribution, search


def residual(p, q):
    return [max(a - b, 0) for a, b in zip(p, q)]


def by_inversion(weights, random):
    """Draws a token with one uniform number, as engines do."""
    u = random.uniform() * sum(weights)
    reached = 0
    for token, weight in enumerate(weights):
        reached += weight
        if u < reached:
            return token
    return len(weights) - 1


def right(p, q, draft_token, random):
    if random.uniform() * q[draft_token] < p[draft_token]:
        return draft_token
    return random.choice(residual(p, q))


def right_by_inversion(p, q, draft_token, random):
    if random.uniform() < p[draft_token] / q[draft_token]:
        return draft_token
    return by_inversion(residual(p, q), random)


def right_in_integers(p, q, draft_token, random):
    total = 12  # a multiple of all totals to 4
    p, q = [int(total * a) for a in p], [int(total * a) for a in q]
    if random.below(q[draft_token]) < p[draft_token]:
        return draft_token
    rest = residual(p, q)
    coin = random.below(sum(rest))
    return next(token for token, end in enumerate(itertools.accumulate(rest)) if coin < end)


def plain(p, q, draft_token, random):
    return random.choice(p)


def right_in_floats(p, q, draft_token, random):
    if float(random.uniform()) * q[draft_token] < p[draft_token]:
        return draft_token
    rest = np.maximum(p - q, 0)
    return random.choice(rest)


def accepts_always(p, q, draft_token, random):
    return draft_token


def draws_again_from_p(p, q, draft_token, random):
    return draft_token if random.uniform() * q[draft_token] < p[draft_token] else random.choice(p)


def accepts_at_the_edge(p, q, draft_token, random):
    return draft_token if random.uniform() * q[draft_token] <= p[draft_token] else random.choice(residual(p, q))


def inverts_the_ratio(p, q, draft_token, random):
    return draft_token if random.uniform() * p[draft_token] < q[draft_token] else random.choice(residual(p, q))


def takes_the_best_of_the_residual(p, q, draft_token, random):
    if random.uniform() * q[draft_token] < p[draft_token]:
        return draft_token
    rest = residual(p, q)
    return rest.index(max(rest))


def swaps_p_and_q_in_the_residual(p, q, draft_token, random):
    return draft_token if random.uniform() * q[draft_token] < p[draft_token] else random.choice(residual(q, p))


def uses_one_number_twice(p, q, draft_token, random):
    u = random.uniform()
    if u * q[draft_token] < p[draft_token]:
        return draft_token
    rest = residual(p, q)
    reached = 0
    for token, weight in enumerate(rest):
        reached += weight
        if u * sum(rest) < reached:
            return token
    return len(p) - 1


class Right(unittest.TestCase):
    def test_no_right_function_is_flagged(self):
        for sampler in (right, right_by_inversion, plain):
            found = search(sampler)
            self.assertTrue(found.right, f"{sampler.__name__}: {found}")
            self.assertEqual(found.checked, sum((w + 1) ** 2 + ((w + 1) * (w + 2) // 2) ** 2 for w in range(1, 7)))
        self.assertTrue(search(right_in_integers, total=4).right)

    def test_none_is_flagged_for_the_grid_of_its_numbers(self):
        for sampler in (right, right_by_inversion):
            for bits in (2, 24):
                found = search(sampler, bits=bits, total=4)
                self.assertTrue(found.right, f"{sampler.__name__}, {bits} bits: {found}")

    def test_a_grid_adds_what_it_must_and_no_more(self):
        exact = exact_distribution(right, [1, 3], [2, 2], bits=3)  # 1/2 is on the grid
        self.assertEqual((exact.distance, exact.tolerance), (0, 0))
        coarse = exact_distribution(right, [1, 4], [3, 2], bits=3)  # 1/3 is not
        self.assertEqual(coarse.distance, Fraction(3, 5) * (Fraction(3, 8) - Fraction(1, 3)))
        self.assertLessEqual(coarse.distance, coarse.tolerance)
        self.assertTrue(coarse.right)

    def test_floats_on_a_grid(self):
        def floats(row):
            return np.array(row, dtype=float)

        def rounded(p, q, x, random):
            return random.choice(p)

        exact = exact_distribution(right_in_floats, [1, 3], [2, 2], bits=4, rows=floats)
        self.assertTrue(exact.right, exact)
        self.assertLess(0, exact_distribution(rounded, [1, 2, 3], [1, 1, 1], rows=floats).distance)
        self.assertTrue(exact_distribution(rounded, [1, 2, 3], [1, 1, 1], rows=floats, tolerance=1e-15).right)
        wrong = exact_distribution(accepts_at_the_edge, [1, 3], [2, 2], bits=4, rows=floats)
        self.assertEqual(wrong.distance, Fraction(1, 2**5))


class Wrong(unittest.TestCase):
    def counterexample(self, sampler, **options):
        found = search(sampler, **options)
        self.assertFalse(found.right, sampler.__name__)
        wrong = found.counterexample
        self.assertIn(str(wrong.distance), str(found))
        self.assertEqual(sum(wrong.distribution.values()) + sum(wrong.errors.values()), 1)
        self.assertGreater(wrong.distance, 0)
        return wrong

    def test_every_mutant_is_caught(self):
        for sampler in (
            accepts_always,
            draws_again_from_p,
            inverts_the_ratio,
            takes_the_best_of_the_residual,
            swaps_p_and_q_in_the_residual,
            uses_one_number_twice,
        ):
            self.counterexample(sampler)

    def test_the_smallest_case_is_shown(self):
        wrong = self.counterexample(draws_again_from_p)
        self.assertEqual((wrong.p, wrong.q), ({0: Fraction(1, 2), 1: Fraction(1, 2)}, (0, 1)))
        self.assertEqual(wrong.distance, Fraction(1, 4))
        wrong = self.counterexample(takes_the_best_of_the_residual)
        self.assertEqual(len(wrong.p), 3, "with two tokens the residual is one of them")

    def test_an_edge_is_seen_on_the_grid_that_has_it(self):
        self.assertTrue(search(accepts_at_the_edge).right, "a real number is at no edge")
        wrong = self.counterexample(accepts_at_the_edge, bits=24)
        self.assertEqual(wrong.distance, Fraction(1, 2**24))
        self.assertEqual(wrong.impossible, (0,), "u = 0 accepts a token that p excludes")
        possible = exact_distribution(accepts_at_the_edge, [1, 3], [2, 2], bits=8)
        self.assertEqual((possible.impossible, possible.distance), ((), Fraction(1, 2**9)))
        self.assertFalse(possible.right)

    def test_what_a_function_raises_is_a_fault(self):
        def divides(p, q, draft_token, random):
            return draft_token if random.uniform() < q[draft_token] / p[draft_token] else 0

        wrong = search(divides).counterexample
        self.assertFalse(wrong.right)
        self.assertIn("ZeroDivisionError", str(wrong))
        nothing_left = exact_distribution(lambda p, q, x, random: random.choice(residual(p, q)), [1, 1], [1, 1])
        self.assertEqual(sum(nothing_left.errors.values()), 1)


class Uniform(unittest.TestCase):
    def draw(self, make, total=1, bits=None):
        """Returns the distribution of what `make` makes of a uniform number."""
        found = exact_distribution(lambda p, q, x, random: make(random.uniform()), [1] * total, [1] * total, bits=bits)
        self.assertEqual(found.errors, {})
        return [found.distribution.get(token, 0) for token in range(total)]

    def test_arithmetic(self):
        third = Fraction(1, 3)
        for below in (
            lambda u: u < third,
            lambda u: u <= third,
            lambda u: third > u,
            lambda u: not u >= third,
            lambda u: 1 - u > 1 - third,
            lambda u: -u > -third,
            lambda u: 2 * u + 1 < 2 * third + 1,
            lambda u: u / third < 1,
            lambda u: u - third < 0,
            lambda u: u + u < 2 * third,
            lambda u: u < 1 - 2 * u,
        ):
            self.assertEqual(self.draw(lambda u, below=below: int(not below(u)), 2), [third, 1 - third])

    def test_a_second_comparison_knows_the_first(self):
        def place(u):
            if u < 0.5:
                return 0 if u < 0.25 else 1
            return 2 if u < 0.25 else 3

        self.assertEqual(self.draw(place, 4), [Fraction(1, 4), Fraction(1, 4), 0, Fraction(1, 2)])

    def test_integers(self):
        self.assertEqual(self.draw(lambda u: int(u * 3), 3), [Fraction(1, 3)] * 3)
        self.assertEqual(self.draw(lambda u: int(u * 4), 4, bits=1), [Fraction(1, 2), 0, Fraction(1, 2), 0])

    def test_equality_is_a_point_of_the_grid(self):
        self.assertEqual(self.draw(lambda u: int(u == 0.5), 2), [1, 0])
        self.assertEqual(self.draw(lambda u: int(u == 0.5), 2, bits=2), [Fraction(3, 4), Fraction(1, 4)])

    def test_floats_are_points_of_the_grid(self):
        self.assertEqual(self.draw(lambda u: int(float(u) * 4), 4, bits=6), [Fraction(1, 4)] * 4)
        with self.assertRaisesRegex(draftproof.Error, "bits=8"):
            self.draw(lambda u: int(float(u) < 0.5), 2)

    def test_the_edges_of_a_grid(self):
        for bits, edge in itertools.product((1, 3), range(-1, 10)):
            edge = Fraction(edge, 8)
            points = [Fraction(point, 2**bits) for point in range(2**bits)]
            for compare in (
                lambda u, edge=edge: u < edge,
                lambda u, edge=edge: u <= edge,
                lambda u, edge=edge: 1 - u < edge,
                lambda u, edge=edge: 1 - u <= edge,
                lambda u, edge=edge: u > edge,
                lambda u, edge=edge: u >= edge,
            ):
                expected = Fraction(sum(map(compare, points)), 2**bits)
                self.assertEqual(self.draw(lambda u, c=compare: int(c(u)), 2, bits=bits), [1 - expected, expected])


class Chains(unittest.TestCase):
    @staticmethod
    def p(text):
        return [1 + len(text), 2, 1 + (text[-1] if text else 0)]

    @staticmethod
    def q(text):
        return [2, 1, 1] if len(text) % 2 else [1, 1, 2]

    @staticmethod
    def right(p, q, draft_tokens, random):
        emitted = []
        for place, token in enumerate(draft_tokens):
            if random.uniform() * q[place][token] >= p[place][token]:
                return [*emitted, random.choice(residual(p[place], q[place]))]
            emitted.append(token)
        return [*emitted, random.choice(p[-1])]

    def test_the_right_rule(self):
        for length in (1, 2):
            found = exact_chain(self.right, self.p, self.q, draft_tokens=length)
            self.assertEqual(found.distance, 0)
            self.assertEqual(len(found.p), 3 ** (length + 1))

    def test_a_bonus_token_may_be_left_out(self):
        found = exact_chain(lambda *round_: self.right(*round_)[:2], self.p, self.q)
        self.assertEqual(found.distance, 0)

    def test_wrong_rules(self):
        def bonus_of_the_row_before(p, q, draft_tokens, random):
            return self.right([*p[:-1], p[-2]], q, draft_tokens, random)

        def goes_on_after_a_rejection(p, q, draft_tokens, random):
            emitted = []
            for place, token in enumerate(draft_tokens):
                accepted = random.uniform() * q[place][token] < p[place][token]
                emitted.append(token if accepted else random.choice(residual(p[place], q[place])))
            return emitted

        for sampler in (bonus_of_the_row_before, goes_on_after_a_rejection):
            found = exact_chain(sampler, self.p, self.q)
            self.assertGreater(found.distance, 0, sampler.__name__)
            self.assertIn("misses p", str(found))


class BadInput(unittest.TestCase):
    def expect(self, words, call, *arguments, **options):
        with self.assertRaises(draftproof.Error) as caught:
            call(*arguments, **options)
        self.assertIn(words, str(caught.exception))

    def test_of_rows(self):
        self.expect("p is [0, 0]", exact_distribution, right, [0, 0], [1, 1])
        self.expect("q is [1, -1]", exact_distribution, right, [1, 0], [1, -1])
        self.expect("p is ['a']", exact_distribution, right, ["a"], [1])
        self.expect("for the same tokens", exact_distribution, right, [1, 1], [1])
        self.expect("bits is 0", exact_distribution, right, [1, 1], [1, 1], bits=0)
        self.expect("tolerance is 2", exact_distribution, right, [1, 1], [1, 1], tolerance=2)

    def test_of_samplers(self):
        self.expect("returned 5", exact_distribution, lambda p, q, x, random: 5, [1, 1], [1, 1])
        self.expect("returned None", exact_distribution, lambda p, q, x, random: None, [1, 1], [1, 1])
        draws = iter(range(2, 100))
        self.expect(
            "something else", exact_distribution, lambda p, q, x, random: random.below(next(draws)) % 2, [1, 1], [1, 1]
        )
        self.expect(
            "compared with each other",
            exact_distribution,
            lambda p, q, x, random: int(random.uniform() < random.uniform()),
            [1, 1],
            [1, 1],
        )

        def forever(p, q, draft_token, random):
            while random.below(2) < 2:
                pass

        self.expect("may never end", exact_distribution, forever, [1, 1], [1, 1])
        self.expect("0 tokens", exact_chain, lambda p, q, x, random: [], Chains.p, Chains.q)
        self.expect("draft_tokens is 0", exact_chain, Chains.right, Chains.p, Chains.q, draft_tokens=0)


if __name__ == "__main__":
    unittest.main()
