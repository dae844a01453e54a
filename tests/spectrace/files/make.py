# SPDX-License-Identifier: MIT
"""Writes h5py.jsonl and h5py_reals.jsonl with their rows: what docs/spectrace.md's emitters put into files by h5py.
Run in this folder, with h5py and numpy installed."""
import pathlib
import random
import re

root = pathlib.Path(__file__).resolve().parents[3]
blocks = re.findall(r"```python\n(.*?)```", (root / "docs/spectrace.md").read_text(), re.S)
exec(blocks[0] + blocks[1])
dice = random.Random(5)


def draw(row, coin):
    until = 0
    for token, weight in sorted(row.items()):
        until += weight
        if coin < until:
            return token


def shares(total, whole):
    parts = [dice.randrange(1, 9) for _ in range(6)]
    weights = [total * part // sum(parts) if whole else total * part / sum(parts) for part in parts]
    if whole:
        weights[0] += total - sum(weights)
    return dict(enumerate(weights))


def plain(name, whole):
    """Rounds without guesses: of each the row and the coin."""
    file = name + ".jsonl.rows.h5"
    total = 1 << 52 if whole else 1
    rows = SpecRows(file, "<u8" if whole else "<f8")
    more = dict(W=total) if whole else dict(dtype="f64")
    trace = SpecTrace(name + ".jsonl", "h5py", "rejection", 6, rows=file, **more)
    trace.open(0, [1], 1.0)
    for n in range(20):
        row = shares(total, whole)
        coin = dice.randrange(total) if whole else dice.random()
        token = draw(row, coin)
        if whole:
            said = dict(y=dict(id=token, c=coin, of=total, at=sum(row[t] for t in range(token)), wt=row[token]))
        else:
            said = dict(ur=coin.hex())
        trace.step(0, 1 + n, [token], d=[], a=0, w=1, last="bonus", P=rows.add([row]), **said)
    trace.end(0, "cancelled", 20)
    trace.file.close()
    rows.close()


plain("h5py", True)
plain("h5py_reals", False)
