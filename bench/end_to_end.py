# SPDX-License-Identifier: MIT
"""Whole texts by the servers of draftproof, llama.cpp and ik_llama.cpp, plain and speculative; for compare_peers.py.

Each server gets the same prompts, one at a time, greedy, and streams its answers. Its speed is that of decoding: the
tokens after the first part of an answer, over the time from the first part to the last, as the client sees them. So
reading the prompt does not count, and whatever the server does between two tokens does.
"""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measured import Problem, Spread, cell, spread

PLAIN = "plain"
NGRAMS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
HOST = "127.0.0.1"
CONTEXT = 4096  # positions of a server's cache
WARM_UP = 16  # tokens of an answer that is not counted
# The options of docs/drafts.md by which our programs load a draft smaller than it is.
SMALLER = {"": "", "4 bits": "?type=q4", "4 bits, 64k head": "?type=q4,head=65536"}
TIMEOUT = 600  # seconds until a server is ready, and between two parts of an answer


@dataclass(frozen=True)
class Draft:
    """Where draft tokens come from."""

    kind: str  # PLAIN, "dflash", "model", or one of NGRAMS
    file: Path | None = None
    length: int = 0  # draft tokens of a round, at most; 0: what the program takes by itself
    smaller: str = ""  # one of SMALLER

    @property
    def name(self) -> str:
        if self.smaller:
            return f"{self.kind}, {self.smaller}"
        return f"{self.kind}, {self.length}" if self.length else self.kind


@dataclass
class Answer:
    text: str
    tokens: int  # after the first part
    seconds: float  # from the first part to the last
    drafted: int
    accepted: int


# How a program's server is started and asked, and what the parts of its stream say: `tokens_of` counts the tokens up to
# a part, of which there were `before` up to the part before it.


@dataclass(frozen=True)
class OurServer:
    program: Path
    name: str = "draftproof"
    path: str = "/v1/completions"

    def command(self, model: Path, draft: Draft, threads: int, port: int) -> list[str]:
        options = SMALLER[draft.smaller]
        spec = {PLAIN: "none", "dflash": f"dflash:{draft.file}{options}", "model": f"model:{draft.file}{options}"}
        return [
            str(self.program), "serve", str(model), "--port", str(port), "--threads", str(threads), "--parallel", "1",
            "--log-format", "none", "--draft", spec.get(draft.kind, draft.kind), "--draft-max", str(draft.length),
        ]

    def question(self, prompt: str, tokens: int) -> dict:
        return {
            "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "return_tokens": True,
            "stream_options": {"include_usage": True},
        }

    def tokens_of(self, part: dict, before: int) -> int:
        return before + len(part["round"]["tokens"]) if "round" in part else before

    def text_of(self, part: dict) -> str:
        return "".join(choice["text"] for choice in part["choices"])

    def drafts_of(self, last: dict) -> tuple[int, int]:
        return last["usage"]["drafted_tokens"], last["usage"]["accepted_tokens"]


@dataclass(frozen=True)
class LlamaServer:
    """llama-server, and what the one of ik_llama.cpp has in common with it."""

    folder: Path
    name: str = "llama.cpp"
    path: str = "/completion"

    def command(self, model: Path, draft: Draft, threads: int, port: int) -> list[str]:
        count = str(threads)
        words = [
            str(self.folder / "llama-server"), "-m", str(model), "--host", HOST, "--port", str(port), "-np", "1",
            "-c", str(CONTEXT), "-t", count, "-tb", count, *self.loading(),
        ]
        if draft.file:
            words += ["-md", str(draft.file), "-td", count, "-tbd", count]
        return words + self.drafting(draft)

    def loading(self) -> list[str]:
        return ["-lm", "none", "--no-ui"]

    def drafting(self, draft: Draft) -> list[str]:
        types = {PLAIN: "none", "dflash": "draft-dflash", "model": "draft-simple"}
        words = ["--spec-type", types.get(draft.kind, draft.kind)]
        return words + (["--spec-draft-n-max", str(draft.length)] if draft.length else [])

    def question(self, prompt: str, tokens: int) -> dict:
        return {"prompt": prompt, "n_predict": tokens, "temperature": 0, "stream": True, "cache_prompt": False}

    def tokens_of(self, part: dict, before: int) -> int:
        return part["tokens_predicted"]

    def text_of(self, part: dict) -> str:
        return part["content"]

    def drafts_of(self, last: dict) -> tuple[int, int]:
        return last["timings"].get("draft_n", 0), last["timings"].get("draft_n_accepted", 0)


@dataclass(frozen=True)
class IkServer(LlamaServer):
    name: str = "ik_llama.cpp"

    def loading(self) -> list[str]:
        return ["--no-mmap", "-rtr"]

    def drafting(self, draft: Draft) -> list[str]:
        if draft.kind == PLAIN:
            return []
        kind = {"model": "draft"}.get(draft.kind, draft.kind)
        return ["--spec-type", f"{kind}:n_max={draft.length}" if draft.length else kind]

    def tokens_of(self, part: dict, before: int) -> int:
        """Each part is a token. Its own count at the end is larger where draft tokens beyond the end were accepted."""
        return before + (not part["stop"])


Server = OurServer | LlamaServer


@dataclass(frozen=True)
class Way:
    """A program with a draft."""

    server: Server
    draft: Draft

    @property
    def name(self) -> str:
        return f"{self.server.name}, {self.draft.name}"


@dataclass(frozen=True)
class Texts:
    prompts: list[str]
    tokens: int  # of each answer, at most
    threads: int


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return one.getsockname()[1]


def is_ready(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """A server that is ready. It ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
        try:
            late = time.monotonic() + TIMEOUT
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > late:
                    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
                    raise Problem(f"{' '.join(command)}: it does not answer: {' | '.join(lines[-3:]) or 'no output'}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def parts_of(port: int, path: str, question: dict) -> list[tuple[float, dict]]:
    """The parts of a streamed answer, each with the time at which it came. They are parsed when all have come."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
    try:
        connection.request("POST", path, json.dumps(question), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Problem(f"port {port}{path}: status {answer.status}: {answer.read().decode(errors='replace')}")
        lines = []
        while line := answer.readline():
            if line.startswith(b"data: {"):
                lines.append((time.monotonic(), line))
    except (OSError, http.client.HTTPException) as wrong:
        raise Problem(f"port {port}{path}: the answer broke off: {wrong!r}") from None
    finally:
        connection.close()
    return [(moment, json.loads(line[len(b"data: ") :])) for moment, line in lines]


def ask(server: Server, port: int, prompt: str, tokens: int) -> Answer:
    parts = parts_of(port, server.path, server.question(prompt, tokens))
    text, count = "", 0
    first: tuple[float, int] | None = None
    last = (0.0, 0)
    for moment, part in parts:
        text += server.text_of(part)
        now = server.tokens_of(part, count)
        if now > count:
            last = (moment, now)
            first = first or last
        count = now
    if first is None:
        raise Problem(f"{server.name} gave no token for {prompt!r}")
    return Answer(text, last[1] - first[1], last[0] - first[0], *server.drafts_of(parts[-1][1]))


def measure(way: Way, model: Path, texts: Texts) -> list[Answer]:
    """The answers of a server of its own, so that it remembers nothing of the rounds before."""
    port = free_port()
    with running(way.server.command(model, way.draft, texts.threads, port), port):
        ask(way.server, port, texts.prompts[0], WARM_UP)
        return [ask(way.server, port, prompt, texts.tokens) for prompt in texts.prompts]


# Of one round: the answers by the way's name.
Round = dict[str, list[Answer]]


def speed(answers: list[Answer]) -> float:
    """Tokens per second."""
    return sum(answer.tokens for answer in answers) / sum(answer.seconds for answer in answers)


def summary(ways: list[Way], rounds: list[Round]) -> list[dict]:
    """One line for each way."""
    speeds = {way: [speed(answers[way.name]) for answers in rounds] for way in ways}

    def ratio(over: Way, under: Way) -> Spread:
        return spread([a / b for a, b in zip(speeds[over], speeds[under], strict=True)])

    lines = []
    ours = {(way.draft.kind, way.draft.smaller): way for way in ways if isinstance(way.server, OurServer)}
    for way in ways:
        plain = Way(way.server, Draft(PLAIN))
        every = [answer for answers in rounds for answer in answers[way.name]]
        without = [answer for answers in rounds for answer in answers[plain.name]]
        line = {
            "program": way.server.name, "draft": way.draft.kind, "draft_max": way.draft.length,
            "draft_smaller": way.draft.smaller,
            "tokens_per_second": spread(speeds[way]), "over_plain": ratio(way, plain),
            "drafted": sum(answer.drafted for answer in every), "accepted": sum(answer.accepted for answer in every),
            "texts": len(every),
            "texts_of_plain": sum(a.text == b.text for a, b in zip(every, without, strict=True)),
            "texts_cut_short": sum(
                a.text != b.text and b.text.startswith(a.text) for a, b in zip(every, without, strict=True)
            ),
        }
        if not isinstance(way.server, OurServer):
            line["ours_over_it"] = {
                smaller: ratio(ours[way.draft.kind, smaller], way)
                for smaller in SMALLER
                if (way.draft.kind, smaller) in ours
            }
        lines.append(line)
    return lines


def draft_of(line: dict) -> Draft:
    return Draft(line["draft"], length=line["draft_max"], smaller=line["draft_smaller"])


def markdown(lines: list[dict]) -> str:
    text = [
        "| program | draft | tokens/s | over its plain | "
        + " | ".join(f"ours{', ' * bool(smaller)}{smaller} / it" for smaller in SMALLER)
        + " | accepted | texts equal to its plain |",
        "|---|---|---|---|" + "---|" * len(SMALLER) + "---|---|",
    ]
    for line in lines:
        ratios = line.get("ours_over_it", {})
        beside = [cell(ratios[smaller], 2) if smaller in ratios else "" for smaller in SMALLER]
        over, accepted, equal = "", "", ""
        if line["draft"] != PLAIN:
            over = cell(line["over_plain"], 2)
            accepted = f"{line['accepted']} of {line['drafted']}"
            equal = f"{line['texts_of_plain']} of {line['texts']}"
            if line["texts_cut_short"]:
                equal += f", {line['texts_cut_short']} end sooner"
        text.append(
            f"| {line['program']} | {draft_of(line).name} | {cell(line['tokens_per_second'], 1)} | {over} | "
            f"{' | '.join(beside)} | {accepted} | {equal} |"
        )
    return "\n".join(text) + "\n"


def compare(ways: list[Way], model: Path, texts: Texts, number_of_rounds: int) -> dict:
    rounds: list[Round] = []
    for number in range(number_of_rounds):
        first = number % len(ways)
        answers: Round = {}
        for way in ways[first:] + ways[:first]:
            print(
                f"{model.name}: {texts.threads} threads, round {number + 1} of {number_of_rounds}, {way.name}",
                file=sys.stderr,
            )
            answers[way.name] = measure(way, model, texts)
        rounds.append(answers)
    return {
        "model": str(model), "bytes": model.stat().st_size, "threads": texts.threads, "prompts": len(texts.prompts),
        "tokens": texts.tokens, "speeds": summary(ways, rounds),
        "rounds": [{name: [vars(answer) for answer in of] for name, of in answers.items()} for answers in rounds],
    }
