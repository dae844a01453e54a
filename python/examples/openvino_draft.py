# SPDX-License-Identifier: MIT
"""openvino-genai: with a draft model, sampled texts do not have the target's distribution, and `score` is not the sum
of the log-probabilities that it returns beside it.

    pip install openvino-genai==2026.4.1 && python python/examples/openvino_draft.py
"""

import shutil
import subprocess
import tempfile

from common import MODELS, requests, shown, verdict

from draftproof.adapters.openvino_genai import OpenVinoEngine

command = shutil.which("draftproof") or str(MODELS.parents[1] / "build/draftproof")
folder = tempfile.TemporaryDirectory()


def as_gguf(name):
    """openvino-genai reads our models as GGUF of f16."""
    inside = tempfile.mkdtemp(dir=folder.name)
    subprocess.run([command, "convert", MODELS / name, f"{inside}/{name}.gguf", "--type", "f16", "--quiet"], check=True)
    return f"{inside}/{name}.gguf"


target, draft = as_gguf("tale-target"), as_gguf("tale-small")
engines = {"plain": OpenVinoEngine(target), "draft model": OpenVinoEngine(target, draft),
           "prompt lookup": OpenVinoEngine(target, prompt_lookup=True)}
law, off = {}, {}
for name, engine in engines.items():
    greedy = requests(temperature=0.0, logprobs=0)
    verdicts = verdict(engine, greedy, target), verdict(engine, requests(temperature=1.0), target)
    law[name] = verdicts
    answers = engine.generate(greedy)
    gaps = [abs(sum(answer.logprobs) - score) for answer, score in zip(answers, engine.scores)]
    off[name] = sum(gap > 0.01 for gap in gaps)
    print(f"{name}: of {len(gaps)} greedy texts {off[name]} have a score that is not the sum of their "
          f"log-probabilities; the furthest is {max(gaps):.4f} off")

good = ("PASS_STAT", "PASS_STAT")
holds = law["plain"] == good and law["prompt lookup"] == good and law["draft model"][0] == "PASS_STAT"
holds = holds and law["draft model"][1].startswith("BUG") and off["plain"] == 0
holds = holds and off["draft model"] > 0 and off["prompt lookup"] > 0
shown(holds, "greedy texts are right, and so is sampling without a draft model; with one it is not; scores are wrong "
             "with a draft model and with prompt lookup")
