# SPDX-License-Identifier: MIT
"""What the scripts that compare programs share."""

import json
import statistics
from datetime import datetime, timezone
from pathlib import Path

Spread = dict[str, float]  # of the rounds: "median", "min", "max"


class Problem(Exception):
    """One sentence for the reader."""


def spread(values: list[float]) -> Spread:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def cell(values: Spread, digits: int) -> str:
    median, least, most = (f"{values[key]:.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} ({least}..{most})"


def write_results(file: Path, results: dict) -> None:
    whole = {"date": datetime.now(timezone.utc).isoformat(timespec="seconds"), **results}
    file.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
