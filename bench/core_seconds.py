#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Core-seconds, user and system, of a clean build and of tests: other work on the machine changes them less than it
changes seconds by the clock.

    core_seconds.py build FOLDER [--jobs N]     configures and builds in FOLDER, which must not exist; its slowest files
    core_seconds.py tests BUILD LABEL [REGEX]   each row of ctest with this label, one after another
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time


def used(command, **options):
    """Exit status, core-seconds and seconds by the clock of a command and all that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    status = subprocess.run(command, **options).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return status, cores, time.monotonic() - began


def launch(log, command):
    """What the build calls in place of the compiler."""
    status, cores, clock = used(command)
    output = command[command.index("-o") + 1] if "-o" in command else " ".join(command[:2])
    with open(log, "a") as lines:
        lines.write(f"{cores:.2f} {clock:.2f} {output}\n")
    return status


def show(rows):
    total = sum(cores for cores, _, _ in rows)
    for cores, clock, name in sorted(rows, reverse=True):
        print(f"{cores:8.1f} {clock:8.1f}  {name}")
    print(f"{total:8.1f} core-seconds in {len(rows)} rows")


def build(folder, jobs):
    log = os.path.abspath(folder) + ".core_seconds"
    launcher = f"{sys.executable};{os.path.abspath(__file__)};launch;{log}"
    if os.path.exists(folder):
        sys.exit(f"{folder} is there already; remove it, so that all of it is built")
    if os.path.exists(log):
        os.remove(log)
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
                    f"-DCMAKE_CXX_LINKER_LAUNCHER={launcher}"], check=True, stdout=subprocess.DEVNULL)
    status, cores, clock = used(["cmake", "--build", folder, "--parallel", str(jobs)])
    with open(log) as lines:
        rows = [(float(a), float(b), c) for a, b, c in (line.split(maxsplit=2) for line in lines.read().splitlines())]
    show(rows)
    print(f"{cores:8.1f} core-seconds with those of ninja and CMake, {clock:.0f} s by the clock")
    return status


def tests(folder, label, pattern):
    listed = json.loads(subprocess.check_output(["ctest", "--test-dir", folder, "--show-only=json-v1", "-L", f"^{label}$",
                                                 "-R", pattern]))
    rows, failed = [], []
    for test in listed["tests"]:
        properties = {property["name"]: property["value"] for property in test["properties"]}
        environment = dict(os.environ, **dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", [])))
        status, cores, clock = used(test["command"], cwd=properties["WORKING_DIRECTORY"], env=environment,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"{cores:8.1f} {clock:8.1f}  {test['name']}", file=sys.stderr, flush=True)
        rows.append((cores, clock, test["name"]))
        if status not in (0, properties.get("SKIP_RETURN_CODE", 0)):
            failed.append(test["name"])
    show(rows)
    print(f"failed: {', '.join(failed)}" if failed else "none failed")
    return 1 if failed else 0


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "launch":
        return launch(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build")
    one.add_argument("folder")
    one.add_argument("--jobs", type=int, default=os.cpu_count())
    two = commands.add_parser("tests")
    two.add_argument("folder")
    two.add_argument("label")
    two.add_argument("pattern", nargs="?", default=".")
    asked = parser.parse_args()
    if asked.command == "build":
        return build(asked.folder, asked.jobs)
    return tests(asked.folder, asked.label, asked.pattern)


if __name__ == "__main__":
    sys.exit(main())
