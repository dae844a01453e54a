# SPDX-License-Identifier: MIT
"""What a disk may hold after a power failure, by the log that faults.cpp keeps of a process.

What was written to a file since its last fsync may be there in full, in part or not at all, page by page; so may its new
size. New, renamed and removed names reach the disk in their order, but as late as the fsync of their folder.
"""

import dataclasses
import os
import random
import struct

PAGE = 4096


@dataclasses.dataclass
class File:
    safe: bytes = b""  # what survives
    pending: list = dataclasses.field(default_factory=list)  # (place, bytes), or (size, None) for a truncation

    def now(self):
        return applied(self.safe, self.pending)


def applied(content, changes):
    content = bytearray(content)
    for place, data in changes:
        if data is None:
            content = content[:place] + bytes(max(0, place - len(content)))
        else:
            content += bytes(max(0, place + len(data) - len(content)))
            content[place : place + len(data)] = data
    return bytes(content)


def read_log(path):
    """Returns the operations: (letter, values...)."""
    log = path.read_bytes()
    at = 0

    def number():
        nonlocal at
        at += 8
        return struct.unpack_from("<Q", log, at - 8)[0]

    def data():
        nonlocal at
        size = number()
        at += size
        return log[at - size : at]

    operations = []
    while at < len(log):
        letter = chr(log[at])
        at += 1
        if letter in "CT":
            operations.append((letter, number(), data().decode()))
        elif letter == "W":
            operations.append((letter, number(), number(), data()))
        elif letter in "LS":
            operations.append((letter, number(), number()))
        else:
            operations.append((letter, data().decode(), data().decode()))
    return operations


class Disk:
    """`old`: the files that were there before, name to bytes, all safe. `folders`: their inode numbers."""

    def __init__(self, old, folders):
        self.safe_names = {name: File(content) for name, content in old.items()}
        self.names = dict(self.safe_names)
        self.changes = []  # of names: (name, File or None), since they were synced
        self.files = {}  # by inode number
        self.folders = dict(folders)

    def set_name(self, name, file):
        self.changes.append([(name, file)])
        self.names[name] = file

    def apply(self, operation):
        letter, *values = operation
        if letter in "CT":
            number, name = values
            if self.names.get(name) is None:
                self.files[number] = File()
                self.set_name(name, self.files[number])
            else:
                self.files[number] = self.names[name]
                if letter == "T":
                    self.files[number].pending.append((0, None))
        elif letter == "W" and values[0] in self.files:
            self.files[values[0]].pending.append((values[1], values[2]))
        elif letter == "L" and values[0] in self.files:
            self.files[values[0]].pending.append((values[1], None))
        elif letter == "S":
            self.sync(values[0])
        elif letter == "R":
            file = self.names.get(values[0])
            self.names[values[0]] = None
            self.names[values[1]] = file
            self.changes.append([(values[0], None), (values[1], file)])
        elif letter == "U":
            self.set_name(values[0], None)
        elif letter == "M":
            self.folders[os.stat(values[0]).st_ino] = values[0]

    def sync(self, number):
        if number in self.files:
            file = self.files[number]
            file.safe, file.pending = file.now(), []
        elif number in self.folders:
            folder = self.folders[number]
            # In their order: those before the last one of this folder, too.
            last = max((i for i, change in enumerate(self.changes) if os.path.dirname(change[-1][0]) == folder), default=-1)
            for change in self.changes[: last + 1]:
                self.safe_names.update(change)
            self.changes = self.changes[last + 1 :]

    def after_failures(self, name, seed, draws=3):
        """Yields what `name` may hold: bytes, or None where it is not there."""
        for count in range(len(self.changes) + 1):
            names = dict(self.safe_names)
            for change in self.changes[:count]:
                names.update(change)
            file = names.get(name)
            if file is None:
                yield None
                continue
            yield file.safe
            if not file.pending:
                continue
            whole = file.now()
            yield whole
            yield bytes(len(whole))  # its size alone
            draw = random.Random(seed)
            for _ in range(draws):
                pages = [
                    (whole if draw.random() < 0.5 else file.safe + bytes(max(0, len(whole) - len(file.safe))))[at : at + PAGE]
                    for at in range(0, len(whole), PAGE)
                ]
                yield b"".join(pages)
