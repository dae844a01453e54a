# SPDX-License-Identifier: MIT
"""GGUF files, beside the package gguf.

On purpose ref/formats/gguf.h refuses files that are cut short, names that are not ASCII, booleans that are neither 0
nor 1, more than four extents, tensors that overlap or begin at no multiple of the alignment, and types that it does not
know, those of empty arrays included. It reads an alignment of any integer type, where the package wants 32 bits, and a
tensor of bf16 without extents. The package has the elements of arrays of arrays one after the other, all as of one
type.
"""

import json
import math
import os
import struct
import tempfile

import common

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
BOOLEAN, STRING, ARRAY = 7, 8, 9
UINT32 = 4
# Number of the type: elements and bytes of a block. The first ones are those that the package knows as well.
TENSORS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84)}
TENSORS |= {11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 20: (32, 18)}
TENSORS |= {23: (256, 136), 24: (1, 1), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2), 39: (32, 17)}
NUMBERS = [0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 63, 64, 65, 256, 2**20, 2**24, 2**31, 2**32, 2**62, 2**63, 2**64 - 1]
NAMES = ["a", "general.architecture", "llama.block_count", "x.y", "tokenizer.ggml.tokens", "t.weight"]


def text(value):
    return struct.pack("<Q", len(value)) + value


def scalar(kind, numbers):
    layout = SCALARS[kind]
    if kind == BOOLEAN:
        return bytes([numbers.randrange(2)])
    if layout in ("<f", "<d"):
        return struct.pack(layout, numbers.choice((0.0, -0.0, 1.5, -3.25, 1e-30, math.inf, 10000.0)))
    return numbers.randbytes(struct.calcsize(layout))


def value(kind, numbers, depth=0):
    if kind == STRING:
        return text(numbers.choice((b"", b"llama", "\u00e4\U0001f600".encode(), b"\xff\0", numbers.randbytes(5))))
    if kind != ARRAY:
        return scalar(kind, numbers)
    inner = numbers.choice((*SCALARS, STRING, *((ARRAY,) if depth < 3 else ())))
    length = numbers.choice((0, 1, 1, 2, 3))
    return struct.pack("<IQ", inner, length) + b"".join(value(inner, numbers, depth + 1) for _ in range(length))


def pieces_of_file(numbers):
    """The parts of a right file, each with what it is: bytes, or a number that may be changed by what it means."""
    alignment = 32
    keys = []
    for i in range(numbers.choice((0, 1, 1, 2, 4))):
        kind = numbers.choice((*SCALARS, STRING, STRING, ARRAY, ARRAY))
        keys.append((numbers.choice(NAMES) + str(i) * numbers.randrange(2), kind, value(kind, numbers)))
    if numbers.randrange(4) == 0:
        alignment = numbers.choice((1, 8, 32, 64, 256))
        kind = numbers.choice((UINT32, UINT32, UINT32, 10, 5))
        key = ("general.alignment", kind, struct.pack(SCALARS[kind], alignment))
        keys.insert(numbers.randrange(len(keys) + 1), key)
    tensors, data = [], b""
    for i in range(numbers.choice((0, 1, 1, 2, 3))):
        kind = numbers.choice(list(TENSORS))
        elements, size = TENSORS[kind]
        extents = [elements * numbers.choice((1, 1, 2))]
        extents += [numbers.choice((1, 1, 2, 3)) for _ in range(numbers.randrange(3))]
        if elements == 1 and numbers.randrange(8) == 0:
            extents = numbers.choice(([], [0], [3, 0]))
        count = math.prod(extents) // elements * size
        tensors.append((f"blk.{i}.weight" if numbers.randrange(9) else "t", extents, kind, len(data)))
        data += numbers.randbytes(count)
        data += b"\0" * (-len(data) % alignment)
    parts = [b"GGUF", ("<I", numbers.choice((2, 3, 3))), ("<Q", len(tensors)), ("<Q", len(keys))]
    for name, kind, bytes_of in keys:
        parts += [("<Q", len(name)), name.encode(), ("<I", kind), bytes_of]
    for name, extents, kind, offset in tensors:
        parts += [("<Q", len(name)), name.encode(), ("<I", len(extents)), *(("<Q", extent) for extent in extents)]
        parts += [("<I", kind), ("<Q", offset)]
    return parts, data, alignment


def joined(parts, data, alignment):
    head = b"".join(part if isinstance(part, bytes) else struct.pack(*part) for part in parts)
    return head + b"\0" * (-len(head) % alignment) + data


def change(parts, numbers):
    """One number, by what it means."""
    places = [i for i, part in enumerate(parts) if isinstance(part, tuple)]
    at = numbers.choice(places)
    layout, number = parts[at]
    if numbers.randrange(2) == 0:
        number = max(0, number + numbers.choice((-32, -8, -1, 1, 8, 32)))
    else:
        number = numbers.choice((*NUMBERS, *range(48)))
    parts[at] = (layout, number % 2 ** (8 * struct.calcsize(layout)))


READ_HERE = ("an alignment of another type", "a tensor without extents")


class Cut(Exception):
    pass


class Walk:
    """Reads a file by the words of the format, and notes what is refused on purpose."""

    def __init__(self, data):
        self.data, self.at, self.reasons = data, 4, []
        self.alignment = 32
        self.leaves = {}  # of each key with an array: the types of its elements, those of arrays in it included
        self.endless = False  # an array has more elements than the file has bytes: the package counts them all
        try:
            self.read()
        except Cut:
            self.reasons.append("cut short")

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Cut
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def name(self, bytes_max, what):
        name = self.take(self.number("<Q"))
        if not name or len(name) > bytes_max or any(not 32 < byte < 127 for byte in name):
            self.reasons.append(what)
        return name

    def value(self, kind, leaves):
        if kind == STRING:
            return self.take(self.number("<Q"))
        if kind != ARRAY:
            if kind not in SCALARS:
                raise Cut
            number = self.number(SCALARS[kind])
            if kind == BOOLEAN and number > 1:
                self.reasons.append("a boolean that is neither 0 nor 1")
            return number
        kind, length = self.number("<I"), self.number("<Q")
        if length > len(self.data):
            self.endless = True
            raise Cut
        if kind not in (*SCALARS, STRING, ARRAY):
            self.reasons.append("an array of a type that is not known")
        if kind != ARRAY:
            leaves.add(kind)
        return [self.value(kind, leaves) for _ in range(length)]

    def read(self):
        version, tensors, keys = self.number("<I"), self.number("<Q"), self.number("<Q")
        if version & 0xFFFF == 0:
            self.reasons.append("big-endian")
            return
        for _ in range(keys):
            name, kind = self.name(65535, "a key that is no name"), self.number("<I")
            found = self.value(kind, self.leaves.setdefault(name.decode("latin-1"), set()))
            if name == b"general.alignment":
                self.alignment = found
                if kind != UINT32:
                    self.reasons.append("an alignment of another type")
                elif found > 2**20:
                    self.reasons.append("an alignment above 1 MiB")
        if not isinstance(self.alignment, int) or self.alignment < 1:
            return
        places = []
        for _ in range(tensors):
            self.name(64, "a tensor's name that is none")
            count = self.number("<I")
            if count > 4:
                self.reasons.append("more than four extents")
            if count > len(self.data):
                raise Cut
            if count == 0:
                self.reasons.append("a tensor without extents")
            extents = [self.number("<Q") for _ in range(count)]
            kind, offset = self.number("<I"), self.number("<Q")
            if kind not in TENSORS:
                self.reasons.append("a type that is not known here or there")
                continue
            if max([0, *extents, math.prod(extent for extent in extents if extent)]) >= 2**63:
                self.reasons.append("more elements than can be counted")
            if offset % self.alignment != 0:
                self.reasons.append("a tensor that is not aligned")
            elements, size = TENSORS[kind]
            places.append((offset, offset + math.prod(extents) // elements * size))
        data = len(self.data) - (self.at + -self.at % self.alignment)
        if any(max(place) > data for place in places):  # the padding before them may be cut short, too
            self.reasons.append("cut short")
        places = sorted(place for place in places if place[0] < place[1])
        if any(place[0] < before[1] for before, place in zip(places, places[1:])):
            self.reasons.append("tensors that overlap")


def flat(items):
    """Arrays of arrays as the package has them: one after the other."""
    return [one for item in items for one in (flat(item) if isinstance(item, list) else [item])]


def canonical(found):
    return flat(found) if isinstance(found, list) else found


class Files(common.Subject):
    name = "random and damaged files"
    arguments = ["gguf"]

    def __init__(self):
        import gguf

        self.package = gguf
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.path = os.path.join(self.folder.name, "x.gguf")

    def inputs(self, numbers):
        while True:
            parts, data, alignment = pieces_of_file(numbers)
            how = numbers.randrange(8)
            for _ in range(numbers.choice((0, 0, 1, 1, 2)) if how < 6 else 0):
                change(parts, numbers)
            made = joined(parts, data, alignment)
            if how == 6:
                made = common.damaged(made, [b"\0", b"\1\0\0\0", b"GGUF", struct.pack("<Q", 3)], numbers)
            elif how == 7:
                made = made[: numbers.randrange(len(made) + 1)]
            yield made

    def number(self, part, kind):
        if kind in (6, 12):
            return struct.unpack("<Q", struct.pack("<d", float(part[0])))[0]
        return int(part[0])

    def field(self, field, leaves):
        kind = int(field.types[0])
        if kind == STRING:
            return bytes(field.parts[-1]).hex()
        if kind != ARRAY:
            found = self.number(field.parts[-1], kind)
            return bool(found) if kind == BOOLEAN else found
        if STRING in leaves:
            return [bytes(field.parts[index]).hex() for index in field.data]
        return [self.number(field.parts[index], *leaves) for index in field.data]

    def theirs(self, data, walk=None):
        leaves = (walk or Walk(data)).leaves
        with open(self.path, "wb") as file:
            file.write(data)
        try:
            reader = self.package.GGUFReader(self.path)
            keys = {
                name: self.field(field, leaves.get(name, set()))
                for name, field in reader.fields.items()
                if not name.startswith("GGUF.")
            }
            tensors = {}
            for one in reader.tensors:
                shape = [int(extent) for extent in reversed(one.shape)]
                tensors[one.name] = [int(one.tensor_type), shape, one.data.tobytes().hex()]
            return [keys, tensors]
        except Exception as refused:
            return refused

    def outcome(self, data, accepted, ours):
        walk = Walk(data)
        if walk.endless:
            return common.WRONG if accepted else common.deliberate("an array longer than the file")
        if accepted and any(len(leaves) > 1 for leaves in walk.leaves.values()):
            return common.deliberate("arrays of arrays of several types")
        theirs = self.theirs(data, walk)
        if isinstance(theirs, Exception) and not accepted:
            return common.BOTH_REFUSE
        if accepted and not isinstance(theirs, Exception):
            keys, tensors = json.loads(ours)
            same = {name: canonical(found) for name, found in keys.items()} == theirs[0] and tensors == theirs[1]
            return common.AGREED if same else common.WRONG
        reasons = [why for why in walk.reasons if (why in READ_HERE) == accepted]
        return common.deliberate(reasons[0]) if reasons else common.WRONG


def subjects():
    return [Files()]
