# SPDX-License-Identifier: MIT
"""Is assisted generation of transformers lossless? Run it in the checkout, with the shipped models."""
import draftproof
from draftproof import adapters
from draftproof.adapters.transformers import TransformersEngine
from draftproof.engines import Request

target, assistant = "fixtures/models/tale-target", "fixtures/models/tale-small"
encode = draftproof.Model(target).encode
texts = open("fixtures/models/prompts.txt", encoding="utf-8").read().splitlines()
requests = [Request(encode(text), 100, temperature=1.0, stop_tokens=[2044, 2046]) for text in texts]
engine = TransformersEngine(target, assistant_model=assistant)
print(engine.name, adapters.check(engine, requests, target=target), sep="\n")
