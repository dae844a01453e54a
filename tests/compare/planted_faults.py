# SPDX-License-Identifier: MIT
"""`endpoint check` before planted faults: each must be found, without --target where that can be, and none where none is.

    planted_faults.py DRAFTPROOF MODELS [FAULT...]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import faulty_proxy

# What is asked of a fault, to be quick: only the cases that it concerns.
SAMPLED_CASES = {
    "crash_at_top_k_alone": "top_k 5",
    "silent_greedy": "temperature 1",
    "temperature_too_high": "temperature 1",
    "top_p_ignored": "top_p 0.7",
    "top_k_ignored": "top_k 5",
    "min_p_ignored": "min_p 0.1",
}


def port_in(log, process):
    """The port that a server says in its log."""
    for _ in range(600):
        found = re.search(r"127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            return int(found.group(1))
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"a server did not start: {log.read_text()}")


def start(log, *command):
    # Into a file: a pipe that nobody reads fills, and the server waits for it.
    process = subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT)
    return process, f"http://127.0.0.1:{port_in(log, process)}"


def serve(draftproof, log, model, draft):
    # A fixed number of draft tokens: left to itself the server drafts none where that does not pay on this machine.
    length = [] if draft == "none" else ["--draft-max", "4"]
    return start(log, draftproof, "serve", model, "--draft", draft, *length, "--port", "0", "--threads", "1")


def check(draftproof, plain, speculative, *options):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        run = subprocess.run(
            [draftproof, "endpoint", "check", "--plain", plain, "--speculative", speculative, "--json", report, "--quiet"]
            + list(options),
            capture_output=True,
            text=True,
            timeout=900,
        )
        if not report.exists():
            raise SystemExit(f"endpoint check ended with {run.returncode}: {run.stderr}")
        return run.returncode, json.loads(report.read_text())


def found_by(report):
    failed = {one["name"] for one in report["checks"] if one["outcome"] == "fail"}
    if any(bet["alarm"] for bet in report.get("bets", [])):
        failed.add(faulty_proxy.BETS)
    return failed


def refusals(draftproof, models, plain):
    """Returns the names of bad inputs that are not answered with status 3 and their sentence."""
    bad = {
        "another tokenizer than the target's": (
            ["--speculative", plain, "--target", models / "tale-llama"],
            "has another tokenizer than the target",
        ),
        "a server that is not there": (["--speculative", "http://127.0.0.1:9"], "cannot be reached"),
        "a case that does not exist": (["--speculative", plain, "--case", "top_k 6"], "there is no case 'top_k 6'"),
        "an interface that it does not speak": (["--speculative", plain, "--api", "tgi"], "nothing can be compared"),
    }
    wrong = []
    for name, (options, sentence) in bad.items():
        run = subprocess.run(
            [draftproof, "endpoint", "check", "--plain", plain, *options], capture_output=True, text=True, timeout=300
        )
        right = run.returncode == 3 and sentence in run.stderr and len(run.stderr.splitlines()) == 1
        print(f"{name:38} {run.stderr.strip()}{'' if right else '  WRONG'}", flush=True)
        if not right:
            wrong.append(name)
    return wrong


def main():
    draftproof, models = sys.argv[1], pathlib.Path(sys.argv[2])
    names = sys.argv[3:] or ["none", *faulty_proxy.FAULTS]
    with tempfile.TemporaryDirectory() as folder:
        wrong = run(draftproof, models, names, pathlib.Path(folder))
    faults = [name for name in names if name != "none"]
    print(f"{len(faults) - len([n for n in faults if n in wrong])} of {len(faults)} planted faults found")
    if wrong:
        raise SystemExit(f"wrong: {', '.join(wrong)}")


def run(draftproof, models, names, folder):
    """Returns the names of what went wrong: faults that were not found, "none" if no fault was called one."""
    plain_server, plain = serve(draftproof, folder / "plain.log", models / "tale-target", "none")
    draft = f"dflash:{models / 'tale-dflash'}"
    server, upstream = serve(draftproof, folder / "speculative.log", models / "tale-target", draft)
    try:
        wrong = refusals(draftproof, models, plain)
        for name in names:
            log = folder / f"{name}.log"
            proxy, url = start(log, sys.executable, faulty_proxy.__file__, "0", upstream, name)
            try:
                options = ["--pairs", "0", "--answer-seconds", "5"]
                if name in SAMPLED_CASES:
                    options = ["--case", SAMPLED_CASES[name], "--pairs", "400"]
                if name == "none":
                    options = ["--pairs", "60"]
                begin = time.monotonic()
                status, report = check(draftproof, plain, url, *options)
                found = found_by(report)
                expected = set(faulty_proxy.FAULTS[name][0]) if name != "none" else set()
                right = (status == 1 and bool(found & expected)) if expected else status == 0
                right = right and report["examined"]["accepted"] > 0
                print(
                    f"{name:38} {report['verdict']:11} {', '.join(sorted(found)) or '-':40} "
                    f"{time.monotonic() - begin:5.1f} s{'' if right else f'  WRONG, expected {expected or 0}'}",
                    flush=True,
                )
                if not right:
                    wrong.append(name)
            finally:
                proxy.kill()
    finally:
        plain_server.kill()
        server.kill()
    return wrong


if __name__ == "__main__":
    main()
