# SPDX-License-Identifier: MIT
"""JSON, beside Python's module json.

On purpose ref/formats/json.h refuses more: names that occur twice, NaN and infinities, numbers beyond a double, half a
surrogate pair, more than 256 levels. An integer beyond 64 bits is read as a double.
"""

import json
import math
import sys

import common

DEPTH_MAX = 256
PIECES = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"\t", b"\r", b"\x0b", b"\x00", b"\x1f", b"\x7f",
    b"/", b"//x\n", b"/**/", b"null", b"true", b"false", b"nul", b"True", b"None", b"NaN", b"Infinity", b"-Infinity",
    b"-", b"+", b".", b"e", b"E", b"0", b"00", b"01", b"-0", b"-0.0", b"0.", b".5", b"1.", b"1e", b"1e+", b"1E-2",
    b"1e5", b"1e308", b"1e309", b"1e-400", b"5e-324", b"0.1", b"9007199254740993", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809", b"18446744073709551615",
    b"18446744073709551616", b"123456789012345678901234567890", b"0.30000000000000004", b"2.2250738585072011e-308",
    b"179769313486231580793728971405301e276", b'"a"', b'""', b'"\\u0041"', b'"\\u00e4"', b'"\\ud83d\\ude00"',
    b'"\\ud83d"', b'"\\ude00"', b'"\\ud83dx"', b'"\\u004"', b'"\\x41"', b'"\\n\\t\\/\\b\\f\\r\\\\"', b"'a'",
    b'"\xc3\xa4"', b"\xc3", b"\xa4", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98\x80",
    b"\xef\xbb\xbf", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xff", b'{"a":1}', b'{"a":1,"a":2}', b"[1,]", b"[,1]", b"{,}",
    b'{"a"}', b'{"a":}', b"[[[[", b"]]]]", b"[" * 60, b"]" * 60,
]  # fmt: skip


def value(numbers, depth=0):
    """A text."""
    kind = numbers.randrange(6 if depth > 4 else 9)
    blank = numbers.choice((b"", b"", b"", b" ", b"\n "))
    if kind >= 7:
        items = [value(numbers, depth + 1) for _ in range(numbers.randrange(4))]
        return b"[" + blank + (blank + b"," + blank).join(items) + b"]"
    if kind == 6:
        members = [
            text(numbers) + blank + b":" + blank + value(numbers, depth + 1) for _ in range(numbers.randrange(4))
        ]
        return b"{" + (blank + b"," + blank).join(members) + blank + b"}"
    if kind == 0:
        return numbers.choice((b"null", b"true", b"false"))
    if kind <= 3:
        return number(numbers)
    return text(numbers)


def number(numbers):
    how = numbers.randrange(4)
    if how == 0:
        return str(numbers.randrange(-(10 ** numbers.randrange(1, 22)), 10 ** numbers.randrange(1, 22))).encode()
    if how == 1:
        return repr(numbers.uniform(-1, 1) * 10.0 ** numbers.randrange(-320, 305)).encode()
    digits = "".join(numbers.choice("0123456789") for _ in range(numbers.randrange(1, 25)))
    point = "." + digits[len(digits) // 2 :] if how == 2 else ""
    exponent = numbers.choice(("", "", "e5", "E-3", "e+20", "e-330", "e300"))
    return (numbers.choice(("", "-")) + (digits[: len(digits) // 2].lstrip("0") or "0") + point + exponent).encode()


def text(numbers):
    escapes = ['"', "\\", "/", "\n", "\t", "\0", "\x1f", "\x7f", "\u2028", "\ufffd", "a", "b"]
    made = ""
    for _ in range(numbers.randrange(6)):
        character = chr(
            numbers.choice(
                (numbers.randrange(32, 127), numbers.randrange(0x20, 0xD800), numbers.randrange(0xE000, 0x110000))
            )
        )
        made += numbers.choice((character, numbers.choice(escapes)))
    return json.dumps(made, ensure_ascii=numbers.random() < 0.5).encode()


class Deliberate(Exception):
    pass


def no_constant(name):
    raise Deliberate("NaN or an infinity")


def no_twice(pairs):
    if len({name for name, _ in pairs}) < len(pairs):
        raise Deliberate("a name twice")
    return dict(pairs)


def read(data):
    """The value; ValueError, or Deliberate, where it is refused."""
    sys.set_int_max_str_digits(0)
    given = data.decode("utf-8").removeprefix("\ufeff")
    json.loads(given)  # what is no JSON for Python has no other fault
    return ours_of(json.loads(given, parse_constant=no_constant, object_pairs_hook=no_twice))


def ours_of(read, level=0):
    """The value as ours has it."""
    if isinstance(read, (list, dict)) and level == DEPTH_MAX:
        raise Deliberate("levels")
    if isinstance(read, str) and any(0xD800 <= ord(character) < 0xE000 for character in read):
        raise Deliberate("half a surrogate pair")
    if isinstance(read, list):
        return [ours_of(item, level + 1) for item in read]
    if isinstance(read, dict):
        return {ours_of(name): ours_of(item, level + 1) for name, item in read.items()}
    if isinstance(read, int) and not isinstance(read, bool) and not -(2**63) <= read < 2**64:
        try:
            return float(read)
        except OverflowError:
            raise Deliberate("a number beyond a double") from None
    if isinstance(read, float) and math.isinf(read):
        raise Deliberate("a number beyond a double")
    return read


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, float):
        return one.hex() == other.hex()
    return one == other


class Texts(common.Subject):
    name = "random and damaged texts"
    arguments = ["json"]

    def __init__(self):
        files = sorted(common.FIXTURES.rglob("*.json"))
        self.seeds = [file.read_bytes() for file in files if file.stat().st_size < 2000][:200]

    def inputs(self, numbers):
        while True:
            seed = numbers.choice(self.seeds) if numbers.randrange(4) == 0 else value(numbers)
            yield common.damaged(seed, PIECES, numbers)

    def theirs(self, data):
        try:
            return read(data)
        except (ValueError, RecursionError, Deliberate) as refused:
            return refused

    def outcome(self, data, accepted, ours):
        theirs = self.theirs(data)
        if isinstance(theirs, Deliberate):
            return common.WRONG if accepted else common.deliberate(str(theirs))
        if isinstance(theirs, Exception):
            return common.WRONG if accepted else common.BOTH_REFUSE
        return common.AGREED if accepted and same(theirs, json.loads(ours)) else common.WRONG


def subjects():
    return [Texts()]
