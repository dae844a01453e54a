# SPDX-License-Identifier: MIT
"""The command draftproof, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from ._core import Error

# The process finds the package where this one did.
_RUN = "import sys; sys.path[:] = {path!r}; from draftproof.__main__ import main; main()"


def run(words: Sequence[str]) -> tuple[int, str]:
    """Returns the exit status of the command and what it printed. Throws Error when it refuses its input."""
    script = _RUN.format(path=sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode not in (0, 1, 2, 4):
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"ended with status {done.returncode}"
        raise Error(reason.removeprefix("draftproof: "))
    return done.returncode, done.stdout


def run_for_json(words: Sequence[str]) -> tuple[int, Any]:
    """The same of a command that has --json."""
    status, printed = run([*words, "--json", "-"])
    return status, json.loads(printed)
