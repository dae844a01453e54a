# SPDX-License-Identifier: MIT
"""transformers: a request with stop strings fails under assisted generation, although the tokenizer is given.

    pip install transformers==5.24.0 torch && python python/examples/transformers_stop.py
"""

from common import SMALL, TARGET, requests, shown, verdict

from draftproof.adapters.transformers import TransformersEngine

STOP = "was"
engines = {"plain": TransformersEngine(TARGET, tokenizer=TARGET),
           "assisted": TransformersEngine(TARGET, SMALL, TARGET),
           "prompt lookup": TransformersEngine(TARGET, tokenizer=TARGET, prompt_lookup_num_tokens=4)}
passed = [verdict(engine, requests(temperature=0.0)[:4]) for engine in engines.values()]

asked = requests(temperature=0.0, max_new_tokens=60, stop=(STOP,))
expected = engines["plain"].generate(asked)
found = {}
for name, engine in engines.items():
    try:
        answers = engine.generate(asked)
        found[name] = sum(a.tokens != b.tokens for a, b in zip(answers, expected))
        print(f"{name}: {found[name]} of {len(asked)} texts that stop at {STOP!r} differ from plain ones")
    except Exception as error:  # noqa: BLE001, any error shows it
        found[name] = type(error).__name__
        print(f"{name}: {found[name]}: {str(error).splitlines()[0]}")
shown(set(passed) == {"PASS_STAT"} and found == {"plain": 0, "assisted": "ValueError", "prompt lookup": 0},
      "texts are right; with a stop string, plain and with prompt lookup, too, but assisted generation fails")
