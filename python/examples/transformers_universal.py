# SPDX-License-Identifier: MIT
"""transformers: universal speculative decoding (an assistant with another tokenizer) does not sample from the target's
distribution, and leaves the assistant changed.

    pip install transformers==5.24.0 torch sentencepiece protobuf && python python/examples/transformers_universal.py
"""

import os
import tempfile

from common import MODELS, TARGET, requests, shown, verdict

import draftproof
from draftproof.adapters.transformers import TransformersEngine, record
from transformers import AutoTokenizer

assistant = str(MODELS / "tale-llama")
asked = requests(temperature=1.0)
plain = TransformersEngine(TARGET)
universal = TransformersEngine(TARGET, assistant, TARGET, assistant_tokenizer=AutoTokenizer.from_pretrained(assistant))

right = verdict(plain, asked)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.jsonl")
    with record(path, universal, rows=True):
        universal.generate(asked[:3])
    report = draftproof.check_trace(path, target=TARGET, slack=universal.slack)
    print("what 3 texts of it show, with q and the draft tokens:")
    for line in str(report).splitlines():
        if "e-value" in line or "verified" in line:
            print("   ", line.strip())
wrong = verdict(universal, asked)

try:
    universal.generate(requests(temperature=0.0)[:1])
    crash = ""
except Exception as error:  # noqa: BLE001, any error shows it
    crash = f"{type(error).__name__}: {error}"
    print("greedy with the same assistant afterwards:", crash)

shown(right == "PASS_STAT" and wrong.startswith("BUG") and crash != "",
      "plain sampling passes, sampling with an assistant of another tokenizer does not have the target's distribution, "
      "and greedy decoding with that assistant fails afterwards")
