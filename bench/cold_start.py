# SPDX-License-Identifier: MIT
"""What a program takes from its start to the first token of a text, beside another build of it or llama-bench.

    python3 bench/cold_start.py MODEL PROGRAM PROGRAM [--repeats N] [--threads N]

Runs `PROGRAM generate MODEL --prompt The -n 1 --quiet` with each of the two in turn; of one that is named llama-bench,
`-m MODEL -p 0 -n 1 -r 1 --no-warmup`. Prints the processor time and the time of the clock, median, least and most, and
the first over the second: of each pair of runs, median, least and most. The files of the model are in memory after the
first run, which is not counted. One thread by default: on a busy machine threads that wait for each other take
processor time as well.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import time


def run(program, model, threads):
    """Seconds of processors and of the clock."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = ["generate", model, "--prompt", "The", "-n", "1", "--quiet", "--threads", str(threads)]
    if pathlib.Path(program).name == "llama-bench":
        words = ["-m", model, "-p", "0", "-n", "1", "-r", "1", "--no-warmup", "-t", str(threads)]
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, time.monotonic() - began


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for program in options.programs:
        run(program, options.model, options.threads)
    pairs = [[run(program, options.model, options.threads) for program in options.programs]
             for _ in range(options.repeats)]
    for kind, name in enumerate(("processors", "clock")):
        times = [[pair[program][kind] for pair in pairs] for program in range(2)]
        ratios = [first / second for first, second in zip(*times, strict=True)]
        print(f"{name}: {spread(times[0])} s, {spread(times[1])} s, ratio {spread(ratios)}")


if __name__ == "__main__":
    main()
