#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the targets of tests/fuzz under libFuzzer and prints what came of it.

    cmake --preset fuzz && cmake --build --preset fuzz
    tests/fuzz/run.py build-fuzz --work FOLDER [--executions N] [--seconds N] [TARGET ...]

FOLDER keeps the inputs that reach new code, those that failed, and how many executions there have been, from one run to
the next; --executions is what all runs together are to reach, and "hours left" what one core needs for it. Coverage is
that of the parser: of the functions in its own files, and of their edges, how many the kept inputs reach. Many edges
clean up after an exception, which most calls may throw and few do.

A target with a file in dictionaries/ takes words from it.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# Each target and the files of its parser.
HOMES = {
    "json": ["ref/formats/json.cpp"],
    "gguf": ["ref/formats/gguf.cpp", "ref/formats/gguf/"],
    "safetensors": ["ref/formats/safetensors.cpp"],
    "folder": ["ref/formats/quantized_folder/", "ref/formats/checkpoint.cpp", "ref/formats/stored_tensor.cpp"],
    "adapter": ["ref/formats/lora_adapter.cpp", "ref/formats/merged_matrix.cpp"],
    "tokenizer": ["ref/text/", "ref/formats/protobuf.cpp"],
    "chat_template": ["ref/chat/"],
    "grammar": ["ref/grammar/grammar.cpp", "ref/grammar/grammar_states.cpp"],
    "schema": ["ref/grammar/json_schema.cpp", "ref/grammar/schema_", "ref/grammar/regular_",
               "ref/grammar/number_texts"],
    "lookup_file": ["ref/drafts/lookup_file.cpp"],
    "http": ["serve/head.cpp", "serve/chunks.cpp", "serve/browser_rules.cpp"],
    "request": ["serve/completion_request.cpp", "serve/chat_request.cpp", "serve/anthropic_api.cpp",
                "serve/responses_api.cpp", "serve/ollama_api.cpp", "serve/llama_server_api.cpp",
                "serve/foreign_json.cpp", "serve/request_fields.cpp"],
}
# Inputs are as long as the longest seeds; what is longer shows nothing more and takes longer.
LENGTH_MAX = {"folder": 1 << 15, "adapter": 1 << 16, "gguf": 72 << 10, "safetensors": 1 << 15, "tokenizer": 1 << 15,
              "chat_template": 1 << 13, "json": 1 << 12, "schema": 1 << 12, "grammar": 1 << 11, "http": 1 << 10,
              "lookup_file": 1 << 13, "request": 1 << 12}
FAILURES = ("crash-*", "timeout-*", "oom-*", "leak-*")
WHOLE = "allocator_may_return_null=1"
# Without what takes time in every execution and finds little; the kept inputs are then run with all, for the coverage.
# What is freed waits in a quarantine that a core's cache holds: an allocation then finds its memory there.
QUICK = (f"{WHOLE}:detect_leaks=0:malloc_context_size=2:detect_stack_use_after_return=0:quarantine_size_mb=1:"
         "thread_local_quarantine_size_kb=64")


def stats_of(folder):
    file = folder / "stats.json"
    return json.loads(file.read_text()) if file.exists() else {"executions": 0, "seconds": 0}


def processor_seconds():
    """Of the programs that were run: what others do on the machine does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def fuzz(build, target, folder, executions, seconds):
    """Returns the statistics of all runs of a target, this one included."""
    corpus, seeds = folder / "corpus", folder / "seeds"
    corpus.mkdir(parents=True, exist_ok=True)
    if not seeds.exists():
        subprocess.run([build / "fuzz", target, "--write-seeds", seeds], check=True)
    stats = stats_of(folder)
    left = executions - stats["executions"]
    if left <= 0:
        return stats
    known = [path for path in (seeds, SOURCE / "tests/fuzz/corpus" / target) if path.is_dir()]
    dictionary = SOURCE / f"tests/fuzz/dictionaries/{target}.dict"
    words = [f"-dict={dictionary}"] if dictionary.exists() else []
    command = [build / f"fuzz_{target}", f"-runs={left}", f"-max_total_time={seconds}", "-timeout=30",
               f"-max_len={LENGTH_MAX[target]}", "-rss_limit_mb=3000", "-print_final_stats=1",
               f"-artifact_prefix={folder}/", *words, corpus, *known]
    before = processor_seconds()
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace",
                         env={**os.environ, "ASAN_OPTIONS": QUICK})
    stats["seconds"] += processor_seconds() - before
    (folder / "log").write_text(run.stderr[-1_000_000:])
    done = re.findall(r"stat::number_of_executed_units: (\d+)", run.stderr)
    if not done:  # it failed; libFuzzer says how far it had come before
        done = re.findall(r"^#(\d+)\t", run.stderr, re.M)
    stats["executions"] += int(done[-1]) if done else 0
    (folder / "stats.json").write_text(json.dumps(stats))
    return stats


def coverage(build, target, folder):
    """Functions in the files of the parser, and their edges: how many the kept inputs reach, of how many."""
    command = [build / f"fuzz_{target}", "-runs=0", "-print_coverage=1", f"-artifact_prefix={folder}/",
               f"-max_len={LENGTH_MAX[target]}", folder / "corpus", folder / "seeds"]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace",
                         env={**os.environ, "ASAN_OPTIONS": WHOLE})
    if run.returncode != 0:
        (folder / "crash-of-kept-inputs").write_text(run.stderr[-1_000_000:])
    lines = re.findall(r"COVERED_FUNC: hits: \d+ edges: (\d+)/(\d+) .* (\S+?):\d+\s*$", run.stderr, re.M)
    edges = [(int(some), int(of)) for some, of, place in lines if any("/" + home in place for home in HOMES[target])]
    pairs = [(1 if some > 0 else 0, 1) for some, of in edges], edges
    return [tuple(map(sum, zip(*counted))) if counted else (0, 0) for counted in pairs]


def share(reached, total):
    return f"{reached} of {total} ({100 * reached // total} %)" if total else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("targets", nargs="*", default=list(HOMES), metavar="TARGET")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--executions", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    options = parser.parse_intermixed_args()
    build = options.build.resolve()
    failed = 0
    columns = ["target", "executions", "per second of a core", "hours left", "inputs kept", "functions of the parser",
               "edges", "failures"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for target in options.targets:
        folder = options.work.resolve() / target
        folder.mkdir(parents=True, exist_ok=True)
        stats = fuzz(build, target, folder, options.executions, options.seconds)
        functions, edges = coverage(build, target, folder)
        failures = sorted(path for pattern in FAILURES for path in folder.glob(pattern))
        failed += len(failures)
        rate = stats["executions"] / stats["seconds"] if stats["executions"] else 1
        hours = max(0, options.executions - stats["executions"]) / rate / 3600
        kept = len(list((folder / "corpus").iterdir()))
        row = [target, f"{stats['executions']:,}".replace(",", " "), f"{rate:.0f}", f"{hours:.1f}", kept,
               share(*functions), share(*edges), len(failures)]
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        for failure in failures:
            print(f"  {failure}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
