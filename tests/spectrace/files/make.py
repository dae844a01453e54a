# SPDX-License-Identifier: MIT
"""Writes h5py.jsonl and h5py_reals.jsonl with their rows, by the emitters of docs/spectrace.md and h5py. Run in this
folder, with h5py and numpy installed."""
import pathlib
import random
import re

root = pathlib.Path(__file__).resolve().parents[3]
blocks = re.findall(r"```python\n(.*?)```", (root / "docs/spectrace.md").read_text(), re.S)
exec(blocks[0] + blocks[1])
dice = random.Random(5)


def draw(row, u):
    until = 0
    for token, weight in sorted(row.items()):
        until += weight
        if u < until:
            return token


def shares(total, integers):
    parts = [dice.randrange(1, 9) for _ in range(6)]
    weights = [total * part // sum(parts) if integers else total * part / sum(parts) for part in parts]
    if integers:
        weights[0] += total - sum(weights)
    return dict(enumerate(weights))


def plain(name, integers):
    """Writes rounds without draft tokens, each with its row and its random number."""
    file = name + ".jsonl.rows.h5"
    total = 1 << 52 if integers else 1
    rows = SpecRows(file, "<u8" if integers else "<f8")
    more = dict(total_weight=total) if integers else dict(dtype="f64")
    trace = SpecTrace(name + ".jsonl", "h5py", "rejection", 6, rows_file=file, **more)
    trace.sequence(0, [1], 1.0)
    for n in range(20):
        row = shares(total, integers)
        u = dice.randrange(total) if integers else dice.random()
        token = draw(row, u)
        if integers:
            before = sum(row[t] for t in range(token))
            drawn = dict(next=dict(token=token, u=u, bound=total, before=before, weight=row[token]))
        else:
            drawn = dict(next_u=u.hex())
        trace.round(0, 1 + n, [token], draft_tokens=[], accepted=0, width=1, next_from="bonus",
                    p_rows=rows.add([row]), **drawn)
    trace.end(0, "cancelled", 20)
    trace.file.close()
    rows.close()


plain("h5py", True)
plain("h5py_reals", False)
