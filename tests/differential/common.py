# SPDX-License-Identifier: MIT
"""What the kinds share: the fixtures, outcomes, and damage to texts and bytes."""

import pathlib

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"

AGREED = "equal"
BOTH_REFUSE = "refused by both"
WRONG = "wrong"


def deliberate(why):
    return f"differs on purpose ({why})"


class Subject:
    """Inputs of a kind, each with one outcome."""

    def outcomes(self, data, accepted, ours):
        yield self.outcome(data, accepted, ours)


def damaged(data, pieces, numbers):
    """Bytes, or a text, after up to three changes: pieces put in, and parts cut out, repeated or replaced."""
    for _ in range(numbers.choice((0, 1, 1, 1, 2, 3))):
        at = numbers.randrange(len(data) + 1)
        end = min(len(data), at + numbers.choice((0, 0, 1, 1, 2, 5, 20)))
        how = numbers.randrange(5)
        if how == 0:
            data = data[:at] + data[end:]
        elif how == 1:
            data = data[:end] + data[at:]
        elif how == 2 and isinstance(data, bytes):
            data = data[:at] + bytes([numbers.randrange(256)]) + data[end:]
        else:
            data = data[:at] + numbers.choice(pieces) + data[end:]
    return data
