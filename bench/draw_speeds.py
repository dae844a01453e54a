# SPDX-License-Identifier: MIT
"""Draws the speeds that compare_peers.py --prompts --json has measured: tokens per second, plain and with drafts.

    python3 bench/draw_speeds.py RUN.json... --svg docs/speed.svg

Each file, model and number of threads gets a panel with the same scale in all. Of several draft lengths, of the ways in
which our draft is made smaller, and of the n-gram drafts, it shows the fastest of a program. Bars are medians of the
rounds, whiskers the least and the most. The picture follows the reader's choice of light or dark colors.
"""

import argparse
import json
import sys
from html import escape
from pathlib import Path

from measured import Problem

WIDTH = 820
PROGRAM_AT, DRAFT_AT, BARS_AT, BARS_END = 16, 125, 230, 560
ROW, BAR, TITLE, GAP = 22, 14, 40, 10
COLORS = {"draftproof": "ours", "llama.cpp": "llama", "ik_llama.cpp": "ik"}

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .faint { fill: #59636e }
  .ours { fill: #1a7f37 } .llama { fill: #0969da } .ik { fill: #8250df } .other { fill: #59636e }
  .plain { opacity: 0.45 }
  line { stroke: #1f2328; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .faint { fill: #9198a1 }
    .ours { fill: #3fb950 } .llama { fill: #4493f8 } .ik { fill: #ab7df8 } .other { fill: #9198a1 }
    line { stroke: #f0f6fc }
  }
"""


def source(line: dict) -> str:
    kind = "n-gram" if line["draft"].startswith("ngram") else line["draft"]
    return f"{kind}, smaller" if line["draft_smaller"] else kind


def shown(speeds: list[dict]) -> list[dict]:
    """The fastest line of each program and source of drafts, in the order in which they come."""
    best: dict[tuple[str, str], dict] = {}
    for line in speeds:
        key = line["program"], source(line)
        if key not in best or line["tokens_per_second"]["median"] > best[key]["tokens_per_second"]["median"]:
            best[key] = line
    return list(best.values())


def text(x: float, y: float, words: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{attribute}>{escape(words)}</text>'


def row(line: dict, y: float, scale: float, first_of_program: bool) -> list[str]:
    speed = line["tokens_per_second"]
    middle = y + BAR / 2
    least, most = (BARS_AT + speed[key] * scale for key in ("min", "max"))
    plain = line["draft"] == "plain"
    kind = COLORS.get(line["program"], "other") + (" plain" if plain else "")
    beside = f"{speed['median']:.1f}"
    if not plain:
        beside += f" · {line['over_plain']['median']:.2f}x"
        different = line["texts"] - line["texts_of_plain"] - line["texts_cut_short"]
        if line["texts_of_plain"] == line["texts"]:
            beside += ", the same texts"
        elif different:
            beside += f", {different} of {line['texts']} texts differ"
        else:
            beside += f", {line['texts_cut_short']} of {line['texts']} texts end sooner"
    drawn = [
        f'<rect x="{BARS_AT}" y="{y:.1f}" width="{speed["median"] * scale:.1f}" height="{BAR}" class="{kind}"/>',
        f'<line x1="{least:.1f}" x2="{most:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>',
        *(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - 4:.1f}" y2="{middle + 4:.1f}"/>' for x in (least, most)),
        text(DRAFT_AT, y + BAR - 2, source(line), "faint"),
        text(most + 8, y + BAR - 2, beside),
    ]
    if first_of_program:
        drawn.append(text(PROGRAM_AT, y + BAR - 2, line["program"]))
    return drawn


def picture(results: list[dict]) -> str:
    panels = [(result, shown(result["speeds"])) for result in results]
    most = max(line["tokens_per_second"]["max"] for _, lines in panels for line in lines)
    scale = (BARS_END - BARS_AT) / most
    drawn = []
    y = GAP
    for result, lines in panels:
        counts = [(result["threads"], "thread"), (result["prompts"], "text"), (len(result["rounds"]), "round")]
        title = ", ".join([Path(result["model"]).stem, *(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts)])
        drawn.append(text(PROGRAM_AT, y + 18, f"{title}: tokens per second", "title"))
        y += TITLE - GAP
        before = None
        for line in lines:
            if before and before != line["program"]:
                y += GAP / 2
            drawn += row(line, y, scale, before != line["program"])
            before = line["program"]
            y += ROW
        y += GAP
    height = y + GAP
    return "\n".join([
        "<!-- SPDX-License-Identifier: MIT; made by bench/draw_speeds.py -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="Tokens per second of draftproof and its peers">',
        f"<style>{STYLE}</style>", *drawn, "</svg>",
    ]) + "\n"


def results_of(file: Path) -> list[dict]:
    try:
        found = [result for result in json.loads(file.read_text(encoding="utf-8"))["models"] if "speeds" in result]
    except (OSError, ValueError, KeyError, TypeError):
        found = []
    if not found:
        raise Problem(f"{file} holds no speeds; compare_peers.py --prompts FILE --json {file} writes them")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.json")
    parser.add_argument("--svg", type=Path, required=True, metavar="FILE", help="where the picture goes")
    arguments = parser.parse_args()
    try:
        results = [result for file in arguments.runs for result in results_of(file)]
        arguments.svg.write_text(picture(results), encoding="utf-8")
    except Problem as problem:
        print(f"draw_speeds: {problem}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
