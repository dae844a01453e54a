# SPDX-License-Identifier: MIT
"""llama.cpp's server on a CPU, plain and with a draft model, in bf16 and in q8_0: 200 greedy texts of each, what comes
of each text, and how every difference is explained, without the model and with it.

    pip install xllamacpp==2026.10.11549 && python python/examples/llama_cpp.py
"""

import itertools
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections import Counter

import xllamacpp
from common import MODELS, TEXTS, shown

PROMPTS = 200
SLOTS = 4
command = shutil.which("draftproof") or str(MODELS.parents[1] / "build/draftproof")

# Beginnings of the shipped prompts, and one prompt after another.
words = [text.split(" ") for text in TEXTS]
beginnings = [" ".join(each[:length]) for each in words for length in range(2, len(each) + 1)]
pairs = [f"{first} {second}" for first, second in itertools.permutations(TEXTS, 2)]
prompts = (beginnings + pairs)[:PROMPTS]


def serve(model, draft=None):
    """llama-server inside this process, at a port of its own."""
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.verbosity = str(model), 0, -1
    params.n_ctx, params.n_parallel = 512 * SLOTS, SLOTS
    drafting = params.speculative.draft
    if draft is not None:
        drafting.mparams.path = str(draft)
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    # One thread each: so small a model gains nothing by more, and waiting threads take a busy machine's processors.
    for cpu in (params.cpuparams, params.cpuparams_batch, drafting.cpuparams, drafting.cpuparams_batch):
        cpu.n_threads = 1
    return xllamacpp.Server(params)


def compare(plain, speculative, folder, *options):
    """The report of `draftproof endpoint check`, without sampled texts."""
    report = folder / "report.json"
    asked = [command, "endpoint", "check", "--api", "llama-server", "--plain", plain.listening_address, "--speculative",
             speculative.listening_address, "--prompts", str(folder / "prompts.txt"), "--pairs", "0", "--quiet",
             "--json", str(report), *options]
    subprocess.run(asked, check=False)  # its status is the verdict
    return json.loads(report.read_text(encoding="utf-8"))


def print_texts(report):
    """For each text that was asked alone: equal, or where and why it differs. Returns how many of each."""
    found = {}
    for difference in report.get("differences", []):
        alone = re.fullmatch(r"greedy, prompt (\d+), alone", difference["run"])
        if alone:
            found[int(alone[1])] = difference
    for number, text in enumerate(prompts, 1):
        difference = found.get(number)
        if difference is None:
            print(f"  {number}: equal")
            continue
        gap = f"gap {difference['gap']:.2g} of {difference['gap_from']}" if "gap" in difference else "gap not known"
        print(f"  {number}: {difference['explanation']}, {gap}, position {difference['position']}: "
              f"{difference['observed']} for {difference['plain']}; {text!r}")
    return Counter(difference["explanation"] for difference in found.values())


holds = True
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "prompts.txt").write_text("\n".join(prompts) + "\n", encoding="utf-8")
    for kind in ("bf16", "q8_0"):
        gguf = {model: folder / f"{model}-{kind}.gguf" for model in ("tale-target", "tale-small")}
        for model, file in gguf.items():
            subprocess.run([command, "convert", MODELS / model, file, "--type", kind, "--quiet"], check=True)
        plain, speculative = serve(gguf["tale-target"]), serve(gguf["tale-target"], gguf["tale-small"])
        for options in ((), ("--target", str(gguf["tale-target"]))):
            print(f"{kind}, {'with' if options else 'without'} the model:", flush=True)
            report = compare(plain, speculative, folder, *options)
            alone = print_texts(report)
            differences = report.get("differences", [])
            everything = Counter(difference["explanation"] for difference in differences)
            bugs = [difference for difference in differences if difference["explanation"] == "BUG"]
            equal = len(prompts) - sum(alone.values())
            print(f"{kind}, {'with' if options else 'without'} the model: of {len(prompts)} texts {equal} equal, "
                  f"{dict(alone)}; in all that was asked {dict(everything)}")
            for bug in bugs:
                print(f"  BUG: {bug['run']}, position {bug['position']}: {bug['observed']} for {bug['plain']}")
            print(f"  plain with itself: {report['about']['plain with itself']}")
            print(f"  draft tokens {report['examined']['draft tokens']}, accepted {report['examined']['accepted']}")
            for check in report["checks"]:
                print(f"  {check['name']}: {check['outcome']}, {check['message']}")
            failed = {check["name"] for check in report["checks"] if check["outcome"] == "fail"}
            print(f"  {report['verdict']} {report['reason']}", flush=True)
            holds = holds and set(alone) <= {"TIE"} and failed == {"logprobs", "option_tokens"}
            holds = holds and {bug["run"].split(",")[0] for bug in bugs} == {"end of the context"}
shown(holds, "every text is equal or parts at a tie; logprobs of accepted draft tokens are 0, and texts that fill the "
             "context lack their last tokens")
