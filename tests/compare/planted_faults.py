# SPDX-License-Identifier: MIT
"""`endpoint check` before planted faults: each must be found, without --target where that can be, and none where none is.

    planted_faults.py DRAFTPROOF MODELS [FAULT...]
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import faulty_proxy

# What is asked of a fault, to be quick: only the cases that it concerns.
LAW_CASES = {
    "silent_greedy": "temperature 1",
    "temperature_too_high": "temperature 1",
    "top_p_ignored": "top_p 0.7",
    "top_k_ignored": "top_k 5",
    "min_p_ignored": "min_p 0.1",
}


def first_port(process):
    """The port that a server says in its first line with one."""
    for line in process.stdout:
        digits = "".join(c if c.isdigit() else " " for c in line.split("127.0.0.1:")[-1]).split()
        if digits:
            return int(digits[0])
    raise SystemExit("a server did not start")


def serve(draftproof, model, draft):
    process = subprocess.Popen(
        [draftproof, "serve", model, "--draft", draft, "--port", "0", "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return process, first_port(process)


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
    if any(bet["alarm"] for bet in report["bets"]):
        failed.add(faulty_proxy.LAW)
    return failed


def main():
    draftproof, models = sys.argv[1], pathlib.Path(sys.argv[2])
    names = sys.argv[3:] or ["none", *faulty_proxy.FAULTS]
    plain_server, plain_port = serve(draftproof, models / "tale-target", "none")
    server, port = serve(draftproof, models / "tale-target", f"dflash:{models / 'tale-dflash'}")
    plain = f"http://127.0.0.1:{plain_port}"
    wrong = []
    try:
        for name in names:
            proxy = subprocess.Popen(
                [sys.executable, faulty_proxy.__file__, "0", f"http://127.0.0.1:{port}", name],
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                url = f"http://127.0.0.1:{first_port(proxy)}"
                options = ["--pairs", "0", "--answer-seconds", "5"]
                if name in LAW_CASES:
                    options = ["--case", LAW_CASES[name], "--pairs", "400"]
                if name == "none":
                    options = ["--pairs", "60"]
                begin = time.monotonic()
                status, report = check(draftproof, plain, url, *options)
                found = found_by(report)
                expected = set(faulty_proxy.FAULTS[name][0]) if name != "none" else set()
                right = (status == 1 and bool(found & expected)) if expected else status == 0
                print(
                    f"{name:38} {report['verdict']:11} {', '.join(sorted(found)) or '-':40} "
                    f"{time.monotonic() - begin:5.1f} s{'' if right else '  WRONG, expected ' + str(expected or 'a pass')}",
                    flush=True,
                )
                if not right:
                    wrong.append(name)
            finally:
                proxy.kill()
    finally:
        plain_server.kill()
        server.kill()
    faults = [name for name in names if name != "none"]
    print(f"{len(faults) - len([n for n in wrong if n != 'none'])} of {len(faults)} planted faults found")
    if wrong:
        raise SystemExit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
