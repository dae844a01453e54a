# SPDX-License-Identifier: MIT
"""Faults of the system, injected into the command one at a time: every call of a kind that a command makes fails once,
and from there on; it is killed before and within each call that changes a file; the power fails after each. Whatever
happens, a command gives its right answer, or one sentence and exit status 3; its files are the old or the new ones, whole.

    faults.py DRAFTPROOF PRELOAD CARELESS MODELS [--suite NAME...] [--every N] [--sample N] [--only COMMAND...]

Prints a table for each suite and what was wrong, and exits with 1 if anything was. --every: the first N calls of a kind
fail one by one, and behind them a sample of --sample others, the same in every run.
"""

import argparse
import dataclasses
import errno
import http.client
import json
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import disks

sys.path.append(str(pathlib.Path(__file__).parent.parent / "fetch"))
import hub  # noqa: E402 - the place of a neighbor

KINDS = """memory opening creating reading writing mapping syncing renaming removing threads closing looking sockets
clocks""".split()
FAIL, PART, DIE, DIE_HALF, CUT, JUMP = range(6)
ALL = 1 << 60
DAY = 86400

# What a kind of call fails with.
ERRORS = {
    "memory": errno.ENOMEM,
    "opening": errno.EMFILE,
    "creating": errno.EACCES,
    "reading": errno.EIO,
    "writing": errno.ENOSPC,
    "mapping": errno.ENOMEM,
    "syncing": errno.EIO,
    "renaming": errno.EIO,
    "removing": errno.EIO,
    "threads": errno.EAGAIN,
    "closing": errno.EIO,
    "looking": errno.EIO,
    "sockets": errno.ECONNRESET,
}


@dataclasses.dataclass
class Fault:
    kind: str
    first: int = 1
    count: int = 1
    how: int = FAIL
    error: int = 0
    jump: int = 0


class Page:
    """What the library is told, and what it has counted (faults.cpp has the same layout)."""

    HEAD = "=qqqqqqq"

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(4096))
        self.map = mmap.mmap(os.open(path, os.O_RDWR), 4096)
        self.reset()

    def reset(self, fault=None):
        calls = bytes(8 * len(KINDS))
        self.map[struct.calcsize(self.HEAD) : struct.calcsize(self.HEAD) + len(calls)] = calls
        self.set(fault)

    def set(self, fault=None):
        if fault is None:
            fault = Fault("memory", 0, 0)
        error = fault.error or ERRORS.get(fault.kind, 0)
        head = (KINDS.index(fault.kind), fault.first, fault.count, fault.how, error, fault.jump, 0)
        self.map[: struct.calcsize(self.HEAD)] = struct.pack(self.HEAD, *head)

    def done(self):
        """How many calls have failed."""
        return struct.unpack_from("=q", self.map, 48)[0]

    def calls(self):
        return dict(zip(KINDS, struct.unpack_from(f"={len(KINDS)}q", self.map, struct.calcsize(self.HEAD))))


@dataclasses.dataclass
class Command:
    name: str
    words: list  # a path without a folder is a file in the folder of the run
    outputs: list = dataclasses.field(default_factory=list)
    old: list = None  # the words that write an old file, where not any bytes will do
    inputs: dict = dataclasses.field(default_factory=dict)  # files in that folder that it reads
    environment: dict = dataclasses.field(default_factory=dict)
    status: int = 0
    inexact: tuple = ()  # outputs that hold times
    cost: int = 1  # how many times fewer faults
    checks_rows: bool = False  # a trace, whose rows in a second file are checked with it
    reader: list = None  # reads the outputs: where it says the same, bytes may differ


@dataclasses.dataclass
class Ended:
    status: object  # "hang", or the exit status, below zero a signal
    out: bytes
    err: bytes
    files: dict


class Bench:
    """A folder in which commands run."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.run_folder = folder / "run"
        self.page = Page(folder / "page")
        self.wrong = []
        self.quiet = False

    def environment(self, **more):
        # Every symbol is bound before main(): a loader that gets no memory ends a process as it likes.
        fixed = {"LD_PRELOAD": self.options.preload, "LD_BIND_NOW": "1", "FAULTS_PAGE": str(self.page.path), "OMP_WAIT_POLICY": "passive"}
        return {**os.environ, **fixed, **more}

    def prepare(self, files):
        shutil.rmtree(self.run_folder, ignore_errors=True)
        self.run_folder.mkdir()
        for name, content in files.items():
            (self.run_folder / name).write_bytes(content)

    def files(self):
        found = {}
        for path in sorted(self.run_folder.rglob("*")):
            if path.is_file():
                found[str(path.relative_to(self.run_folder))] = path.read_bytes()
        return found

    def run(self, command, fault=None, old=None, words=None, **more):
        self.prepare({**command.inputs, **(old or {})})
        self.page.reset(fault)
        return self.run_again(words or command.words, **command.environment, **more)

    def run_again(self, words, **more):
        process = subprocess.Popen(
            words,
            cwd=self.run_folder,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # its group is killed, never ours
        )
        try:
            out, err = process.communicate(timeout=self.options.timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = "hang"
        return Ended(status, out, err, self.files())

    def complain(self, command, fault, what, err=b""):
        self.wrong.append(f"{command}: {fault}: {what}: {err[-300:].decode(errors='replace').strip()}")
        if not self.quiet:
            print("wrong:", self.wrong[-1], file=sys.stderr, flush=True)


def sentence(err, out=b""):
    """`trace check` says of a trace what is wrong with it on standard output."""
    lines = err.decode(errors="replace").strip().splitlines()
    said = bool(lines) and lines[-1].startswith("draftproof: ") and len(lines[-1]) > len("draftproof: ") + 8
    return said or re.search(rb"\n  INVALID_TRACE: [^\n]{9,}\n$", out) is not None


def without_times(out):
    return re.sub(rb"\d+\.\d+|\d+(?= (ms|s|tokens))", b"0", out)


class Runs:
    """One command: its right answer, and the judgment of other ends."""

    def __init__(self, bench, command):
        self.bench = bench
        self.command = command
        self.old = {name: b"what was there before" for name in command.outputs if "/" not in name}
        if command.old is not None:
            self.old = {name: content for name, content in bench.run(command, words=command.old).files.items() if name in command.outputs}
        self.begin = self.old if command.old is not None else {}  # what is there where nothing fails
        self.right = bench.run(command, old=self.begin)
        self.calls = bench.page.calls()
        self.read = self.read_outputs() if command.reader else None
        if self.right.status != command.status:
            raise SystemExit(f"{command.name} ends with {self.right.status}: {self.right.err.decode()}")
        again = bench.run(command, old=self.begin)
        if without_times(again.out) != without_times(self.right.out):
            raise SystemExit(f"{command.name} prints something else when it is run again")
        for name in command.outputs:
            if name not in self.right.files:
                raise SystemExit(f"{command.name} does not write {name}: {sorted(self.right.files)}")
            if name not in command.inexact and again.files[name] != self.right.files[name]:
                raise SystemExit(f"{command.name} writes something else to {name} when it is run again")

    def read_outputs(self):
        run = subprocess.run(self.command.reader, cwd=self.bench.run_folder, capture_output=True)
        return run.returncode, run.stdout

    def is_new(self, name, content):
        right = self.right.files[name]
        if name not in self.command.inexact:
            return content == right or (self.read is not None and content is not None and self.read_outputs() == self.read)
        return content is not None and without_times(content)[:40] == without_times(right)[:40] and content[-2:] == right[-2:]

    def wrong_files(self, ended, old):
        """Says which outputs are neither old nor new."""
        return [
            name
            for name in self.command.outputs
            if ended.files.get(name) != old.get(name) and not self.is_new(name, ended.files.get(name))
        ]

    def judge(self, ended, old):
        """Returns "right", "sentence" or what is wrong."""
        if ended.status == "hang":
            return "hangs"
        if ended.status < 0:
            return f"ended by signal {-ended.status}"
        if self.wrong_files(ended, old):
            return f"neither old nor new: {', '.join(self.wrong_files(ended, old))}"
        if ended.status == self.command.status:
            if without_times(ended.out) != without_times(self.right.out):
                return "another answer"
            kept = [name for name in self.command.outputs if not self.is_new(name, ended.files.get(name))]
            return f"success without {', '.join(kept)}" if kept else "right"
        if ended.status != 3:
            return f"exit status {ended.status}"
        return "sentence" if sentence(ended.err, ended.out) else "no sentence"

    def leftovers(self, ended):
        if b"ended by a library" in ended.err:  # as if it had been killed: the next run takes them away
            return []
        return [name for name in ended.files if ".partial" in name]


def commands_of(options, folder):
    d, m = options.draftproof, options.models
    small = f"{m}/tale-small"
    pair = [f"{m}/tale-target", "--draft", f"dflash:{m}/tale-dflash"]
    text = ["-p", "Once upon a time", "-n", "6", "--threads", "1"]
    quick = ["-p", "Once", "-n", "2", "--threads", "1"]
    schema = folder / "schema.json"
    schema.write_text('{"type":"object","properties":{"a":{"type":"string","maxLength":5}},"required":["a"]}')
    words_file = folder / "words.txt"
    words_file.write_text("Once upon a time there was a cat. The cat sat on a mat, and the mat was red.\n" * 20)
    made = folder / "made"
    made.mkdir()

    def make(*words):
        run = subprocess.run([d, *words], capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"{words}: {run.stderr}")

    trace, recorded, index = f"{made}/t.jsonl", f"{made}/f.h5", f"{made}/c.bin"
    make("generate", *pair, *text, "--trace", trace, "--trace-rows")
    make("fixture", "record", small, recorded, *text, "--reason", "a run")
    make("corpus", small, str(words_file), "--for", "suffix", "--index", "--out", index, "--quiet")
    published = options.models.parent / "external" / "qwen3-tiny-tied"
    blobs = [hub.digest(name, (published / name).read_bytes()) for name in hub.NAMES]
    record = [d, "fixture", "record", small, "f.h5", "--reason", "a run"]
    return [
        Command("generate", [d, "generate", *pair, *text, "--temp", "0.8", "--seed", "3"]),
        Command("generate --json", [d, "generate", small, *text, "--json", "g.json"], ["g.json"], inexact=("g.json",)),
        Command("generate --trace", [d, "generate", small, *text, "--trace", "t.jsonl"], ["t.jsonl"]),
        Command(
            "generate --trace-rows",
            [d, "generate", small, *text, "--trace", "t.jsonl", "--trace-rows"],
            ["t.jsonl", "t.jsonl.rows.h5"],
            checks_rows=True,
            reader=[d, "trace", "check", "t.jsonl"],
        ),
        Command(
            "generate --lookup-update",
            [d, "generate", small, *text, "--lookup-update", "l.bin"],
            ["l.bin"],
            old=[d, "generate", small, "-p", "A dog", "-n", "4", "--threads", "1", "--lookup-update", "l.bin"],
        ),
        Command("generate --json-schema", [d, "generate", small, *text, "--json-schema", str(schema)]),
        Command(
            "generate, mapped index",
            [d, "generate", small, *text, "--draft", "suffix:index.bin"],
            inputs={"index.bin": pathlib.Path(index).read_bytes()},
        ),
        Command(
            "generate --prefix-cache",
            [d, "generate", small, *text, "--prefix-cache", "pc.h5"],
            ["pc.h5"],
            old=[d, "generate", small, "-p", "A dog", "-n", "2", "--threads", "1", "--prefix-cache", "pc.h5"],
            reader=[d, "generate", small, *text, "--prefix-cache", "pc.h5"],
        ),
        Command(
            "verify",
            [d, "verify", small, "--draft", "ngram-simple", "--effort", "quick", *quick]
            + ["--kernels", "scalar", "--json", "v.json", "--html", "v.html", "--junit", "v.xml"],
            ["v.json", "v.html", "v.xml"],
            status=2,
            inexact=("v.json", "v.html", "v.xml"),
            cost=20,
        ),
        Command("trace check", [d, "trace", "check", trace, "--target", f"{m}/tale-target", "--threads", "1"]),
        Command(
            "fixture record",
            [*record, *text],
            ["f.h5"],
            old=[*record, *quick],
            reader=[d, "fixture", "replay", "f.h5", "--threads", "1"],
        ),
        Command("fixture replay", [d, "fixture", "replay", recorded, "--threads", "1"]),
        Command("convert", [d, "convert", small, "o.gguf", "--type", "q8_0"], ["o.gguf"]),
        Command(
            "corpus",
            [d, "corpus", small, str(words_file), "--for", "suffix", "--index", "--out", "c.bin", "--quiet"],
            ["c.bin"],
        ),
        Command(
            "fetch",
            [d, "fetch", "owner/name"],
            [f"hub/models--owner--name/{name}" for name in ("refs/main", *(f"blobs/{blob}" for blob in blobs))],
            environment={"HF_ENDPOINT": hub.start(published), "HF_HUB_CACHE": "hub"},
        ),
        Command("synth", [d, "synth", "--shape", "tiny", "--type", "q8_0", "s.gguf", "--threads", "1"], ["s.gguf"]),
    ]


# The suites. Each returns its table, and tells the bench what is wrong.


def chosen(bench, command, calls):
    """Which calls of so many fail, one by one."""
    every = max(1, bench.options.every // command.cost)
    sample = max(1, bench.options.sample // command.cost)
    first = list(range(1, min(calls, every) + 1))
    beyond = range(every + 1, calls + 1)
    return first + sorted(random.Random(calls).sample(beyond, min(sample, len(beyond))))


def ways_of(kind):
    """How the calls of a kind fail."""
    ways = [("once", dict()), ("from there on", dict(count=ALL))]
    if kind in ("reading", "writing", "sockets"):
        ways.append(("in part", dict(how=PART)))
    if kind in ("opening", "creating", "reading", "writing", "sockets"):
        ways.append(("interrupted", dict(error=errno.EINTR)))
    if kind == "creating":
        ways.append(("read-only", dict(count=ALL, error=errno.EROFS)))
    if kind == "mapping":
        ways.append(("file cut", dict(how=CUT)))
    if kind == "clocks":
        ways = [("jump a day on", dict(count=ALL, how=JUMP, jump=DAY)), ("jump a day back", dict(count=ALL, how=JUMP, jump=-DAY))]
    return ways


class Cells:
    """A table of what came of the faults: rows of commands, and of kinds of calls."""

    def __init__(self):
        self.counts = {}
        self.calls = {}  # that a row makes when nothing fails, where they are counted

    def add(self, row, verdict):
        right, refused, wrong = self.counts.get(row, (0, 0, 0))
        self.counts[row] = (right + (verdict == "right"), refused + (verdict == "sentence"), wrong + (verdict not in ("right", "sentence")))

    def print(self):
        rows = [(name, kind, self.calls.get((name, kind), ""), counts) for (name, kind), counts in self.counts.items()]
        rows.append(("all", "", "", tuple(map(sum, zip((0, 0, 0), *self.counts.values())))))
        print(f"| {'':24} | {'':11} | {'calls':>8} | faults | right answer | an error | wrong |")
        print("|---|---|---|---|---|---|---|")
        for name, kind, calls, counts in rows:
            right, refused, wrong = counts
            print(f"| {name:24} | {kind:11} | {calls:>8} | {sum(counts):6} | {right:12} | {refused:8} | {wrong:5} |", flush=True)


def inject(bench, runs, cells):
    """Every call of every kind fails."""
    command = runs.command
    number = 0
    for kind in bench.options.kinds:
        cells.calls[command.name, kind] = runs.calls[kind]
        for way, how in ways_of(kind):
            for first in chosen(bench, command, runs.calls[kind]):
                if way == "read-only" and first > 1:
                    break
                number += 1
                old = runs.old if number % 2 == 0 or command.old else {}
                fault = Fault(kind, first, **how)
                ended = bench.run(command, fault, old)
                verdict = runs.judge(ended, old)
                if runs.leftovers(ended) and kind != "removing" and verdict in ("right", "sentence"):
                    verdict = f"left {', '.join(runs.leftovers(ended))}"
                if bench.page.done() == 0 and verdict == "right":
                    continue  # a run that made fewer calls
                cells.add((command.name, kind), verdict)
                if verdict not in ("right", "sentence"):
                    bench.complain(command.name, f"{kind} {first} {way}", verdict, ended.err)


def suite_calls(bench, commands):
    cells = Cells()
    for command in commands:
        inject(bench, Runs(bench, command), cells)
    return cells


def kills_of(bench, runs):
    for kind in ("creating", "opening", "writing", "syncing", "renaming", "removing", "closing"):
        for first in chosen(bench, runs.command, runs.calls[kind]):
            yield Fault(kind, first, how=DIE)
            if kind == "writing":
                yield Fault(kind, first, how=DIE_HALF)


def judge_killed(bench, runs, ended, old):
    """A run after it must go well, and take away what the killed one has left."""
    if ended.status != -signal.SIGKILL:
        return runs.judge(ended, old)
    wrong = runs.wrong_files(ended, old)
    if runs.command.checks_rows:
        wrong = wrong if ended.files.get("t.jsonl") is None else []  # docs/spectrace.md, "A killed process"
    if wrong:
        return f"neither old nor new: {', '.join(wrong)}"
    for name, content in runs.begin.items():  # what goes on with an old file
        (bench.run_folder / name).write_bytes(content)
    bench.page.reset()
    again = bench.run_again(runs.command.words, **runs.command.environment)
    if runs.leftovers(again):
        return f"the next run leaves {', '.join(runs.leftovers(again))}"
    verdict = runs.judge(again, old)
    return verdict if verdict == "right" else f"the next run: {verdict}"


def suite_kills(bench, commands):
    cells = Cells()
    for command in commands:
        if not command.outputs:
            continue
        runs = Runs(bench, command)
        for number, fault in enumerate(kills_of(bench, runs)):
            old = runs.old if number % 2 == 0 or command.old else {}
            ended = bench.run(command, fault, old)
            verdict = judge_killed(bench, runs, ended, old)
            cells.add((command.name, fault.kind), verdict)
            if verdict != "right":
                bench.complain(command.name, f"killed at {fault}", verdict, ended.err)
    return cells


def suite_power(bench, commands):
    cells = Cells()
    for command in commands:
        if not command.outputs:
            continue
        runs = Runs(bench, command)
        for old in [runs.old] if command.old or not runs.old else [{}, runs.old]:
            fail_power(bench, runs, old, cells)
    return cells


def fail_power(bench, runs, old, cells):
    command = runs.command
    log = bench.folder / "log"
    log.write_bytes(b"")
    bench.prepare({**command.inputs, **old})
    folders = {os.stat(bench.run_folder).st_ino: str(bench.run_folder)}
    bench.page.reset()
    ended = bench.run_again(command.words, FAULTS_LOG=str(log), **command.environment)
    if runs.judge(ended, old) != "right":
        raise SystemExit(f"{command.name}, logged: {runs.judge(ended, old)}: {ended.err.decode()}")
    path = {name: str(bench.run_folder / name) for name in command.outputs}
    disk = disks.Disk({path[name]: content for name, content in old.items()}, folders)
    operations = disks.read_log(log)
    for number, operation in enumerate(operations):
        disk.apply(operation)
        last = number + 1 == len(operations)
        for name in command.outputs:
            allowed = [ended.files[name]] if last else [ended.files[name], old.get(name)]
            for content in disk.after_failures(path[name], number):
                verdict = "right" if content in allowed else "wrong"
                cells.add((command.name, "power"), verdict)
                if verdict != "right":
                    size = "nothing" if content is None else f"{len(content)} bytes"
                    bench.complain(command.name, f"power fails after operation {number + 1} of {len(operations)}", f"{name}: {size}")
                    break
    for name in command.outputs:
        file = disk.names.get(path[name])
        if file is None or file.now() != ended.files[name]:
            raise SystemExit(f"{command.name}: the log misses what was written to {name}")


# The server.

REQUESTS = {
    "a completion": ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0}),
    "a stream": ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0, "stream": True}),
    "a schema": (
        "/v1/completions",
        {"prompt": "Once", "max_tokens": 8, "temperature": 0, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}},
    ),
}


class Served:
    """A server that runs under the library."""

    def __init__(self, bench, words, fault=None, old=None, **more):
        self.bench = bench
        bench.prepare(old or {})
        bench.page.reset(fault)
        self.errors = bench.folder / "errors"
        self.process = subprocess.Popen(
            words,
            cwd=bench.run_folder,
            env=bench.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("wb"),
            start_new_session=True,
        )
        timer = threading.Timer(bench.options.timeout, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        found = re.search(rb"127\.0\.0\.1:(\d+)", line)
        self.port = int(found.group(1)) if found else None

    def ask(self, path, body):
        """Returns (status, text), or the name of what happened to the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.bench.options.timeout)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, text_of(response.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as wrong:
            return type(wrong).__name__
        finally:
            connection.close()

    def alive(self):
        return self.process.poll() is None

    def end(self, signal_number=signal.SIGTERM):
        """Returns its exit status, or "hang"."""
        if self.alive():
            os.killpg(self.process.pid, signal_number)
        try:
            self.process.wait(timeout=self.bench.options.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return "hang"
        return self.process.returncode

    def err(self):
        return self.errors.read_bytes()


def text_of(body):
    """Of a completion, whole or streamed; None where it is not whole."""
    try:
        if not body.startswith("data:"):
            return json.loads(body)["choices"][0]["text"]
        events = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
        if events[-1] != "[DONE]":
            return None
        return "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])
    except (KeyError, IndexError, TypeError, json.JSONDecodeError):
        return None


def judge_answer(answer, right):
    """Of a request in which something failed: the right text, an error, a connection that is closed."""
    if answer == right:
        return "right"
    if answer == "TimeoutError":
        return "no answer"
    if isinstance(answer, str) or answer[1] is None:
        return "sentence"
    return f"another answer, {answer}"


def serve_words(options, *more):
    model = [f"{options.models}/tale-target", "--draft", f"dflash:{options.models}/tale-dflash", "--draft-max", "4"]
    return [options.draftproof, "serve", *model, "--port", "0", "--threads", "1", "--log-format", "none", *more]


def faulty_requests(bench, words, name, cells, requests, kinds):
    """One server: in each request one call fails. The next request, in which nothing does, has the right answer."""
    server = None
    number = 0
    for request, (path, body) in requests.items():
        for kind in kinds:
            for way, how in [*ways_of(kind), *([("200 of them", dict(count=200))] if kind == "memory" else [])]:
                if how.get("count") == ALL and kind != "clocks":
                    continue  # a server that never gets anything again: suite_serve ends one so
                first = 1
                while first <= bench.options.every:
                    if server is None or not server.alive():
                        server = Served(bench, words)
                        right = {each: server.ask(*REQUESTS[each]) for each in requests}
                        if any(isinstance(answer, str) or answer[0] != 200 for answer in right.values()):
                            raise SystemExit(f"{name}: {right} {server.err().decode()}")
                    number += 1
                    bench.page.reset(Fault(kind, first, **how))
                    verdict = judge_answer(server.ask(path, body), right[request])
                    done = bench.page.done()
                    bench.page.reset()
                    if done > 0:
                        after = server.ask(path, body)
                        if not server.alive():
                            verdict = f"the server ended with {server.end()}"
                        elif after != right[request]:
                            verdict = f"the next request: {after}"
                            server.end(signal.SIGKILL)
                        cells.add((name, kind), verdict)
                        if verdict not in ("right", "sentence"):
                            bench.complain(f"{name}, {request}", f"{kind} {first} {way}", verdict, server.err())
                    elif kind != "clocks":
                        break  # it makes no more such calls
                    first += 1 if first < 50 else 1 + first // 50
    if server is not None and server.alive() and server.end() != 0:
        bench.complain(name, "at the end", "does not end in order", server.err())
        cells.add((name, "end"), "wrong")


def suite_serve(bench, _):
    cells = Cells()
    words = serve_words(bench.options)
    kinds = [kind for kind in bench.options.kinds if kind != "looking"]
    faulty_requests(bench, words, "serve: a request", cells, REQUESTS, kinds)
    faulty_ends(bench, cells)
    return cells


def faulty_ends(bench, cells):
    """Faults from main() to the first answer, and from the signal that ends it to its end, with a file to write."""
    words = serve_words(bench.options, "--prefix-cache", ".")
    path, body = REQUESTS["a completion"]
    first = Served(bench, words)
    right = first.ask(path, body)
    starting = bench.page.calls()
    bench.page.reset()
    first.end()
    ending = bench.page.calls()
    saved = bench.files()
    few = Command("", [], cost=8)
    for kind in bench.options.kinds:
        for way, how in ways_of(kind):
            for call in chosen(bench, few, starting[kind]):
                server = Served(bench, words, Fault(kind, call, **how))
                verdict = judge_started(server, path, body, right)
                if verdict == "no answer" and how.get("count") == ALL:
                    verdict = "sentence"  # it never gets a connection, and has ended in order
                cells.add(("serve: start", kind), verdict)
                if verdict not in ("right", "sentence"):
                    bench.complain("serve, from its start", f"{kind} {call} {way}", verdict, server.err())
            for call in chosen(bench, few, ending[kind]):
                server = Served(bench, words)
                server.ask(path, body)
                bench.page.reset(Fault(kind, call, **how))
                status = server.end()
                files = bench.files()
                verdict = "right" if status == 0 else "sentence" if status == 3 and sentence(server.err()) else f"ended with {status}"
                if any(saved.get(name) != content for name, content in files.items()) and kind != "removing":
                    verdict = f"left {', '.join(files)}"
                cells.add(("serve: end", kind), verdict)
                if verdict not in ("right", "sentence"):
                    bench.complain("serve, from its end", f"{kind} {call} {way}", verdict, server.err())


def judge_started(server, path, body, right):
    if server.port is None:
        status = server.end()
        return "sentence" if status == 3 and sentence(server.err()) else f"no server; ended with {status}"
    verdict = judge_answer(server.ask(path, body), right)
    if not server.alive():
        status = server.end()
        return "sentence" if status == 3 and sentence(server.err()) else f"the server ended with {status}"
    status = server.end()
    return verdict if status in (0, 3) else f"ended with {status}"


# What others have set.


def suite_environment(bench, commands):
    cells = Cells()
    few = [c for c in commands if c.cost == 1]
    settings = {f"MXCSR {word}": {"FAULTS_MXCSR": word} for word in ("3f80", "5f80", "7f80", "9f80", "1fc0", "ffc0", "0000")}
    settings["locale"] = {"FAULTS_LOCALE": "de_DE.UTF-8", "LOCPATH": str(made_locale(bench))}
    for command in few:
        runs = Runs(bench, command)
        for name, more in settings.items():
            verdict = runs.judge(bench.run(command, old=runs.begin, **more), runs.begin)
            cells.add((command.name, name.split()[0]), verdict)
            if verdict != "right":
                bench.complain(command.name, name, verdict)
    serve = serve_words(bench.options)
    for name, more in settings.items() if not bench.options.only else ():
        answers = []
        for environment in ({}, more):
            server = Served(bench, serve, **environment)
            answers.append([server.ask(*request) for request in REQUESTS.values()])
            server.end()
        verdict = "right" if answers[0] == answers[1] and answers[0][0][0] == 200 else "another answer"
        cells.add(("serve", name.split()[0]), verdict)
        if verdict != "right":
            bench.complain("serve", name, verdict)
    return cells


def made_locale(bench):
    """A folder with a locale whose numbers have a comma."""
    folder = bench.folder / "locales"
    folder.mkdir(exist_ok=True)
    made = folder / "de_DE.UTF-8"
    if shutil.which("localedef"):
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(made)], capture_output=True)
    if not made.is_dir():
        sys.exit("no locale with commas can be made; install the Debian package locales")
    return folder


# Programs with one mistake each, which the suites must see.

MISTAKES = {
    "unchecked_memory": "calls",
    "other_status": "calls",
    "silent": "calls",
    "endless": "calls",
    "short_read": "calls",
    "short_write": "calls",
    "ignored_write": "calls",
    "leftover": "calls",
    "in_place": "kills",
    "no_sync": "power",
    "no_folder_sync": "power",
}
SERVED_MISTAKES = ("dies", "stops", "answers_wrongly")


def suite_mistakes(bench, _):
    source = bench.folder / "source"
    source.write_bytes(bytes(range(256)) * 64)
    timeout, bench.options.timeout = bench.options.timeout, 2
    bench.quiet = True
    wrong = list(bench.wrong)
    missed = []
    suites = {"calls": suite_calls, "kills": suite_kills, "power": suite_power}
    for mistake, suite in [*(("right", suite) for suite in suites), *MISTAKES.items()]:
        bench.wrong = []
        suites[suite](bench, [Command(mistake, [bench.options.careless, "copy", mistake, str(source), "copy"], ["copy"])])
        missed += tell_seen(bench, suite, mistake)
    for mistake in ("right", *SERVED_MISTAKES):
        bench.wrong = []
        request = {"a completion": REQUESTS["a completion"]}
        faulty_requests(bench, [bench.options.careless, "serve", mistake], mistake, Cells(), request, ["memory"])
        missed += tell_seen(bench, "serve", mistake)
    bench.wrong = wrong + missed
    bench.options.timeout = timeout
    bench.quiet = False


def tell_seen(bench, suite, mistake):
    """Returns what is wrong: a mistake that was not seen, or one seen in what is right."""
    seen = bool(bench.wrong)
    print(f"{suite:6} {mistake:18} {bench.wrong[0].split(': ', 1)[1] if seen else '-'}", flush=True)
    return [f"{mistake} by {suite}: {bench.wrong[:1]}"] if seen != (mistake != "right") else []


SUITES = {
    "mistakes": (suite_mistakes, "Programs with one mistake each, and what shows it"),
    "calls": (suite_calls, "Calls that fail: once, from there on, in part, interrupted"),
    "kills": (suite_kills, "Kills before and within calls that change files; then the command runs again"),
    "power": (suite_power, "Power failures after each operation, and what the disk may hold then"),
    "environment": (suite_environment, "What others have set before main()"),
    "serve": (suite_serve, "The server: calls that fail in a request, while it starts and while it ends"),
}


def main():
    parser = argparse.ArgumentParser()
    for name in ("draftproof", "preload", "careless"):
        parser.add_argument(name)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--every", type=int, default=int(os.environ.get("FAULTS_EVERY", 200)))
    parser.add_argument("--sample", type=int, default=int(os.environ.get("FAULTS_SAMPLE", 100)))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--only", nargs="+", help="names of commands")
    parser.add_argument("--timeout", type=float, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bench = Bench(options, folder)
        commands = [c for c in commands_of(options, folder) if not options.only or c.name in options.only]
        for suite in options.suite:
            begin = time.monotonic()
            run, title = SUITES[suite]
            print(f"\n{title}\n", flush=True)
            cells = run(bench, commands)
            if cells is not None:
                cells.print()
            print(f"{time.monotonic() - begin:.0f} s", flush=True)
    for each in bench.wrong:
        print("wrong:", each)
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
