# SPDX-License-Identifier: MIT
"""safetensors files, beside the package safetensors.

On purpose ref/formats/safetensors.h refuses what ref/formats/json.h refuses, names that occur twice for example, and
extents whose product with those beside a zero is beyond 2^63. It reads types that the package does not know, and 16.0
for 16.
"""

import copy
import json
import math
import struct

import common
import of_json

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U16": 2, "U32": 4}
BYTES |= {"U64": 8, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8}
NUMBERS = [
    -1,
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    100,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    1.0,
    4.0,
    0.5,
    1e3,
]
VALUES = [*NUMBERS, None, True, "", "F32", "x", [], [0, 0], [1], {}, {"a": "b"}]


def bad_value(numbers):
    """A value of a field that is no good, most of the time. It may be changed in turn."""
    return copy.deepcopy(numbers.choice(VALUES))


def header(numbers):
    """The header of a right file, and its data."""
    made, at = {}, 0
    for i in range(numbers.choice((0, 1, 1, 2, 3))):
        kind = numbers.choice(list(BYTES))
        shape = [numbers.choice((0, 1, 1, 2, 3, 5)) for _ in range(numbers.randrange(4))]
        size = BYTES[kind]
        for extent in shape:
            size *= extent
        name = numbers.choice((f"t{i}", f"a.{i}.weight", f"\u00e4{i}", f"{i}", ""))
        made[name if name not in made else f"n{i}"] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    items = list(made.items())
    numbers.shuffle(items)
    if numbers.randrange(3) == 0:
        items.insert(numbers.randrange(len(items) + 1), ("__metadata__", {"format": "pt", "x": ""}))
    return dict(items), numbers.randbytes(at)


def change(made, numbers):
    """One field of the header, by what it means."""
    if not made:
        made[numbers.choice(("a", "__metadata__"))] = bad_value(numbers)
        return
    name = numbers.choice(list(made))
    entry = made[name]
    how = numbers.randrange(8)
    if how == 0 or not isinstance(entry, dict) or not entry:
        made[name] = bad_value(numbers)
    elif how == 1:
        del entry[numbers.choice(list(entry))]
    elif how == 2:
        entry[numbers.choice((*entry, "more", "dtype", "shape"))] = bad_value(numbers)
    elif how == 3:
        made["copy"] = json.loads(json.dumps(entry))
    elif how == 4:
        entry["dtype"] = numbers.choice((*BYTES, "F4", "F6_E2M3", "I4", "f32", "F128"))
    else:
        field = entry.get(numbers.choice(("shape", "data_offsets")))
        if isinstance(field, list) and field:
            field[numbers.randrange(len(field))] = numbers.choice((*NUMBERS, *(n for n in field if isinstance(n, int))))


def file_of(text, data, numbers):
    length = len(text)
    if numbers.randrange(16) == 0:
        length = max(
            0,
            numbers.choice((0, 1, 7, length - 1, length + 1, length + len(data), 2**31, 2**63, 2**64 - 1, 100_000_001)),
        )
    return struct.pack("<Q", length) + text + data


def entries_of(data):
    """Of the header of a file that one of both reads."""
    length = struct.unpack_from("<Q", data)[0]
    return [entry for name, entry in of_json.read(data[8 : 8 + length]).items() if name != "__metadata__"]


class Files(common.Subject):
    name = "random and damaged files"
    arguments = ["safetensors"]

    def __init__(self):
        import safetensors

        self.package = safetensors

    def inputs(self, numbers):
        while True:
            made, data = header(numbers)
            how = numbers.randrange(8)
            for _ in range(numbers.randrange(3) if how < 6 else 0):
                change(made, numbers)
            text = json.dumps(made, ensure_ascii=numbers.random() < 0.5).encode()
            if how == 6:
                text = common.damaged(text, of_json.PIECES, numbers)
            text += b" " * (-len(text) % 8 if numbers.randrange(2) == 0 else 0)
            if how == 7:
                data = common.damaged(data, [b"\0", b"\0\0\0\0", b"x" * 16], numbers)
            yield file_of(text, data, numbers)

    def theirs(self, data):
        try:
            return {
                name: [entry["dtype"], list(entry["shape"]), bytes(entry["data"]).hex()]
                for name, entry in self.package.deserialize(data)
            }
        except BaseException as refused:  # a panic of Rust is one of these
            if isinstance(refused, (KeyboardInterrupt, SystemExit)):
                raise
            return refused

    def outcome(self, data, accepted, ours):
        theirs = self.theirs(data)
        if isinstance(theirs, BaseException):
            return self.accepted_here(data) if accepted else common.BOTH_REFUSE
        if accepted:
            return common.AGREED if json.loads(ours) == theirs else common.WRONG
        return self.refused_here(data)

    def refused_here(self, data):
        """Why what they accept is refused."""
        try:
            entries = entries_of(data)
        except of_json.Deliberate as why:
            return common.deliberate(str(why))
        for entry in entries:
            if 0 in entry["shape"] and math.prod(extent for extent in entry["shape"] if extent) >= 2**63:
                return common.deliberate("extents of a tensor without elements")
        return common.WRONG

    def accepted_here(self, data):
        """Why what they refuse is accepted."""
        entries = entries_of(data)
        if {entry["dtype"] for entry in entries} - set(BYTES):
            return common.deliberate("a type that the package does not know")
        if any(isinstance(number, float) for entry in entries for number in entry["shape"] + entry["data_offsets"]):
            return common.deliberate("16.0 for 16")
        return common.WRONG


def subjects():
    return [Files()]
