# SPDX-License-Identifier: MIT
"""The command draftproof (docs/cli.md): `draftproof ...` and `python -m draftproof ...`."""

from __future__ import annotations

import sys
from typing import NoReturn

from ._core import command


def main() -> NoReturn:
    """Runs the command with the words of the command line."""
    sys.exit(command(["draftproof", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
