# SPDX-License-Identifier: MIT
"""Our speed beside llama.cpp's and ik_llama.cpp's, on the same GGUF files, the same threads and the same machine.

    python3 bench/compare_peers.py --llama-bin DIR --ik-bin DIR --models FILE...

What is compared, in milliseconds of one pass (less is better), after --context positions:
  M rows   a pass over M tokens with the logits of all M, which is what a verification costs. Of peers it is measured
           by their llama-batched-bench, as one step of M sequences with a common prompt; and, where given, by
           bench/peer_verify_cost.cpp, as one batch of M tokens of one sequence. Of ours by `draftproof bench decode`.
  decode   one token after another, by the peers' llama-bench (tg, from an empty context, which favors them a
           little), beside our pass of one row. Only at the context of 64.
  prompt   reading a prompt of --prompt tokens, by the peers' llama-bench (pp) and by `draftproof bench prefill`.
With --sequences, instead of all these:
  M sequences  one step of M sequences that are decoded together, each with a prompt of its own of --context tokens and
           --steps new tokens: by the peers' llama-batched-bench and by `draftproof bench batch`. A second table has the
           tokens per second of all sequences, and how many times those of one sequence of the same program in the
           same round.
Programs take turns, in an order that turns as well, for several rounds; a ratio is of two programs in one round.
Weights lie in memory of the process, not in a mapped file. ik_llama.cpp repacks its weights at the start (-rtr), its
fast path.

Building the peers is yours to do, Release and for this machine, as they recommend:

    cmake -S llama.cpp -B llama-build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON
    cmake --build llama-build --target llama-bench llama-batched-bench          # DIR is llama-build/bin

and the same for ik_llama.cpp; --sequences needs no llama-bench. peer_verify_cost.cpp says how it is linked to either.
With gcc 12 on a CPU with AMX, llama.cpp stops with an illegal instruction: this compiler's _tile_loadconfig declares
eight of the bytes it reads. A line `__asm__ volatile("" : : "m"(tc));` before the call in
ggml/src/ggml-cpu/amx/mmq.cpp helps.

Needs only Python's standard library. Prints Markdown; --json FILE writes every time as well.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CONTEXT = 64
DECODED = 32  # tokens that llama-bench decodes at a time
STEPS = 16  # steps of llama-batched-bench at each number of rows
VERIFY_TURNS = 5

Times = dict[str, float]  # milliseconds of a pass, by "decode", "2 rows", "prompt of 512", "2 sequences", ...


@dataclass(frozen=True)
class Question:
    rows: list[int]
    context: int
    prompt: int  # 0: not asked
    sequences: list[int]  # decoded together; empty: not asked, and otherwise nothing else is
    steps: int  # of these sequences
    threads: int

    @property
    def decode(self) -> bool:
        """llama-bench's decoding starts from an empty context, which says nothing about a long one."""
        return self.context == DEFAULT_CONTEXT


class Problem(Exception):
    """One sentence for the reader."""


def absolute(path: str | Path) -> Path:
    return Path(path).absolute()


def run(command: list[str], diagnostics: bool = False) -> str:
    """What it prints; diagnostics too where asked for. Peers leave a log in their folder, so they get one of their own."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    except FileNotFoundError:
        raise Problem(f"{command[0]} is not there; build it (--help says how) or name its folder") from None
    except PermissionError:
        raise Problem(f"{command[0]} cannot be run; name a program") from None
    if done.returncode != 0:
        last = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()][-3:]
        status = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        raise Problem(f"{' '.join(command)}: {status}: {' | '.join(last) or 'no output'}")
    return done.stdout + done.stderr if diagnostics else done.stdout


def rows_name(count: int) -> str:
    return f"{count} rows" if count > 1 else "1 row"


def sequences_name(count: int) -> str:
    return f"{count} sequences" if count > 1 else "1 sequence"


def list_of(values: list[int]) -> str:
    return ",".join(map(str, values))


@dataclass(frozen=True)
class Ours:
    program: Path
    name: str = "draftproof"

    def measure(self, model: Path, question: Question) -> Times:
        if question.sequences:
            return self.together(model, question)
        lines = self.bench(
            model, question, ["decode", "--rows", list_of(question.rows), "--context", str(question.context)]
        )["rows"]
        times = {rows_name(line["rows"]): line["milliseconds"]["median"] for line in lines}
        if question.decode:
            times["decode"] = times[rows_name(1)]
        if question.prompt:
            line = self.bench(model, question, ["prefill", "--prompt-lengths", str(question.prompt)])["prompts"][0]
            times[f"prompt of {question.prompt}"] = line["milliseconds"]["median"]
        return times

    def together(self, model: Path, question: Question) -> Times:
        lines = self.bench(model, question, [
            "batch", "--sequences", list_of(question.sequences), "--prompt-length", str(question.context),
            "--max-new-tokens", str(question.steps), "--repeats", "1",
        ])["batches"]
        return {sequences_name(line["sequences"]): line["milliseconds"]["median"] / question.steps for line in lines}

    def bench(self, model: Path, question: Question, flags: list[str]) -> dict:
        with tempfile.TemporaryDirectory() as scratch:
            answer = Path(scratch) / "times.json"
            run([
                str(self.program), "bench", flags[0], str(model), *flags[1:], "--threads", str(question.threads),
                "--json", str(answer), "--quiet",
            ])
            return json.loads(answer.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class StockPeer:
    """llama-bench and llama-batched-bench, as they come."""

    name: str
    folder: Path
    bench_flags: tuple[str, ...]
    batched_flags: tuple[str, ...]

    def measure(self, model: Path, question: Question) -> Times:
        if question.sequences:
            times = self.batched(model, question, question.sequences, question.steps, ())
            return {sequences_name(count): milliseconds for count, milliseconds in times.items()}
        # The sequences share their prompt, as the rows of a verification do.
        batched = self.batched(model, question, question.rows, STEPS, ("-pps",))
        times = {rows_name(count): milliseconds for count, milliseconds in batched.items()}
        if question.decode:
            times["decode"] = self.bench(model, question, ["-p", "0", "-n", str(DECODED)])
        if question.prompt:
            each = self.bench(model, question, ["-p", str(question.prompt), "-n", "0"])
            times[f"prompt of {question.prompt}"] = each * question.prompt
        return times

    def bench(self, model: Path, question: Question, flags: list[str]) -> float:
        """Milliseconds a token."""
        text = run([
            str(self.folder / "llama-bench"), "-m", str(model), *flags, "-r", "3", "-t", str(question.threads),
            "-o", "json", *self.bench_flags,
        ])
        try:
            return 1e3 / json.loads(text[text.index("[") :])[-1]["avg_ts"]
        except (ValueError, KeyError, IndexError):
            raise Problem(f"{self.folder / 'llama-bench'}: its JSON is not as expected; another version?") from None

    def batched(
        self, model: Path, question: Question, counts: list[int], steps: int, flags: tuple[str, ...]
    ) -> dict[int, float]:
        """Milliseconds a step, by the number of sequences."""
        program = self.folder / "llama-batched-bench"
        context = question.context
        # A peer that gives each sequence its own part of the cache needs room for all, also when they share a prompt.
        positions = max(counts) * (context + steps)
        text = run([
            str(program), "-m", str(model), "-c", str(positions), "-b", "512", "-ub", "512", "-npp", str(context),
            "-ntg", str(steps), "-npl", list_of(counts), *flags, "-t", str(question.threads),
            "-tb", str(question.threads), *self.batched_flags,
        ], diagnostics=True)  # where ik_llama.cpp prints its table
        # | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | ...
        line = rf"^\|\s*{context} \|\s*{steps} \|\s*(\d+) \|(?:\s*[\d.]+ \|){{4}}\s*([\d.]+) \|"
        lines = re.findall(line, text, re.MULTILINE)
        times = {int(count): 1e3 * int(count) / float(speed) for count, speed in lines}
        missing = [count for count in counts if count not in times]
        if missing:
            raise Problem(f"{program}: no line for {list_of(missing)} sequences; another version?")
        return times


@dataclass(frozen=True)
class VerifyCost:
    """bench/peer_verify_cost.cpp, linked to a peer."""

    name: str
    program: Path
    flags: tuple[str, ...]

    def measure(self, model: Path, question: Question) -> Times:
        text = run([
            str(self.program), str(model), "--rows", list_of(question.rows), "--context", str(question.context),
            "--turns", str(VERIFY_TURNS), "--threads", str(question.threads), *self.flags,
        ])
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return {rows_name(line["rows"]): line["median_ms"] for line in lines}


Program = Ours | StockPeer | VerifyCost


def programs(arguments: argparse.Namespace) -> list[Program]:
    found: list[Program] = [Ours(arguments.ours)]
    if arguments.llama_bin:
        found.append(StockPeer("llama.cpp", arguments.llama_bin, ("-lm", "none"), ("-lm", "none")))
    if arguments.ik_bin:
        found.append(StockPeer("ik_llama.cpp", arguments.ik_bin, ("-mmp", "0", "-rtr", "1"), ("-rtr",)))
    if arguments.verify_cost_llama:
        found.append(VerifyCost("llama.cpp, one sequence", arguments.verify_cost_llama, ()))
    if arguments.verify_cost_ik:
        found.append(VerifyCost("ik_llama.cpp, one sequence", arguments.verify_cost_ik, ("--repack",)))
    if len(found) == 1:
        raise Problem("no peer is named; give --llama-bin, --ik-bin, --verify-cost-llama or --verify-cost-ik")
    return found


def require_there(arguments: argparse.Namespace) -> None:
    """Before the first minute of measuring, not after it."""
    wanted = [arguments.ours, arguments.verify_cost_llama, arguments.verify_cost_ik]
    for folder in (arguments.llama_bin, arguments.ik_bin):
        if folder:
            wanted.append(folder / "llama-batched-bench")
            if not arguments.sequences:
                wanted.append(folder / "llama-bench")
    for program in wanted:
        if program and not (program.is_file() and os.access(program, os.X_OK)):
            raise Problem(f"{program} is not a program; build it (--help says how) or name its folder")
    for model in arguments.models:
        if not model.is_file():
            raise Problem(f"{model} is not a file; make one, for example with: draftproof synth")


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def table(rounds: list[dict[str, Times]], ours: str) -> list[dict]:
    """One line for each pass that we and a peer have times of."""
    lines = []
    for peer in rounds[0]:
        for what in rounds[0][peer]:
            if peer == ours or what not in rounds[0][ours]:
                continue
            mine, theirs = [r[ours][what] for r in rounds], [r[peer][what] for r in rounds]
            lines.append({
                "peer": peer, "pass": what, "our_ms": spread(mine), "peer_ms": spread(theirs),
                "peer_over_ours": spread([t / m for t, m in zip(theirs, mine, strict=True)]),
            })
    return lines


def throughput(rounds: list[dict[str, Times]], counts: list[int]) -> list[dict]:
    """One line for each program and number of sequences."""
    lines = []
    for program in rounds[0]:
        for count in counts:
            steps = [r[program][sequences_name(count)] for r in rounds]
            alone = [r[program][sequences_name(1)] for r in rounds]
            lines.append({
                "program": program, "sequences": count, "tokens_per_second": spread([1e3 * count / s for s in steps]),
                "over_one_sequence": spread([count * a / s for a, s in zip(alone, steps, strict=True)]),
            })
    return lines


def cell(values: dict[str, float], digits: int) -> str:
    median, least, most = (f"{values[key]:.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} ({least}..{most})"


def throughput_markdown(lines: list[dict]) -> str:
    text = ["| program | sequences | tokens/s | over one sequence |", "|---|---|---|---|"]
    text += [
        f"| {line['program']} | {line['sequences']} | {cell(line['tokens_per_second'], 1)} | "
        f"{cell(line['over_one_sequence'], 2)} |"
        for line in lines
    ]
    return "\n".join(text) + "\n"


def markdown(model: Path, lines: list[dict], rounds: int, question: Question) -> str:
    text = [
        f"### {model}: {question.threads} threads, context {question.context}, {rounds} rounds, median (min..max)",
        "",
        "| peer | pass | ours, ms | peer, ms | peer / ours |",
        "|---|---|---|---|---|",
    ]
    text += [
        f"| {line['peer']} | {line['pass']} | {cell(line['our_ms'], 2)} | {cell(line['peer_ms'], 2)} | "
        f"**{cell(line['peer_over_ours'], 2).replace(' ', '** ')} |"
        for line in lines
    ]
    return "\n".join(text) + "\n"


def compare(arguments: argparse.Namespace) -> None:
    require_there(arguments)
    taking_part = programs(arguments)
    question = Question(
        arguments.rows, arguments.context, arguments.prompt, arguments.sequences, arguments.steps, arguments.threads
    )
    results = []
    for model in arguments.models:
        rounds: list[dict[str, Times]] = []
        for number in range(arguments.rounds):
            first = number % len(taking_part)
            times: dict[str, Times] = {}
            for program in taking_part[first:] + taking_part[:first]:
                print(f"{model.name}: round {number + 1} of {arguments.rounds}, {program.name}", file=sys.stderr)
                times[program.name] = program.measure(model, question)
            rounds.append({program.name: times[program.name] for program in taking_part})
        lines = table(rounds, taking_part[0].name)
        print(markdown(model, lines, arguments.rounds, question), flush=True)
        result = {"model": str(model), "bytes": model.stat().st_size, "rounds": rounds, "table": lines}
        if question.sequences:
            result["throughput"] = throughput(rounds, question.sequences)
            print(throughput_markdown(result["throughput"]), flush=True)
        results.append(result)
        if arguments.json:  # after each model, so that a long run that is stopped leaves what it has
            whole = {
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "threads": arguments.threads, "context": arguments.context, "unit": "milliseconds of one pass",
                "models": results,
            }
            arguments.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def row_counts(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"{text} is not a list of numbers like 1,4,16")
    return sorted({1, *map(int, words)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=absolute, nargs="+", required=True, metavar="FILE", help="GGUF files")
    parser.add_argument("--ours", type=absolute, default=absolute(Path(__file__).parent.parent / "build" / "draftproof"))
    parser.add_argument("--llama-bin", type=absolute, metavar="DIR", help="llama.cpp's programs")
    parser.add_argument("--ik-bin", type=absolute, metavar="DIR", help="ik_llama.cpp's programs")
    parser.add_argument("--verify-cost-llama", type=absolute, metavar="PROGRAM")
    parser.add_argument("--verify-cost-ik", type=absolute, metavar="PROGRAM")
    parser.add_argument("--rows", type=row_counts, default=row_counts("1,2,4,8,12,16,32"), help="like 1,4,16")
    parser.add_argument("--context", type=int, default=DEFAULT_CONTEXT, help="positions before the rows")
    parser.add_argument("--prompt", type=int, default=0, metavar="TOKENS", help="also time reading a prompt")
    parser.add_argument("--sequences", type=row_counts, default=[], help="decoded together, like 1,8,16")
    parser.add_argument("--steps", type=int, default=32, help="tokens decoded for each of the sequences")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.threads, arguments.context, arguments.steps) < 1 or arguments.prompt < 0:
        parser.error("--rounds, --threads, --context and --steps are at least 1, --prompt at least 0")
    if arguments.sequences and (arguments.prompt or arguments.verify_cost_llama or arguments.verify_cost_ik):
        parser.error("--sequences is measured alone: without --prompt and --verify-cost-...")
    try:
        compare(arguments)
    except Problem as problem:
        print(f"compare_peers: {problem}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
