# SPDX-License-Identifier: MIT
"""transformers: assisted generation over a cache that was kept from the turn before reads the whole text again, behind
what the cache holds, and writes another text.

    pip install transformers==5.24.0 torch && python python/examples/transformers_kept_cache.py
"""

from common import SMALL, STOPS, TARGET, TEXTS, encode, requests, shown, verdict

from draftproof.adapters.transformers import TransformersEngine
from draftproof.engines import Request

plain = TransformersEngine(TARGET)
engines = {"assisted": TransformersEngine(TARGET, SMALL),
           "prompt lookup": TransformersEngine(TARGET, prompt_lookup_num_tokens=4)}

passed = [verdict(engine, requests(temperature=0.0)[:4]) for engine in (plain, *engines.values())]


def second_turn(engine, text, session):
    """The answer to a second turn, with the cache that the first one left if there is a session."""
    first = engine.generate([Request(encode(text), 20, session=session)])[0].tokens
    prompt = [*encode(text), *first, *encode(" And then")]
    return engine.generate([Request(prompt, 20, stop_tokens=STOPS, session=session)])[0].tokens


fresh = [second_turn(plain, text, "") for text in TEXTS]
control = sum(second_turn(plain, text, text) != answer for text, answer in zip(TEXTS, fresh))
print(f"plain: {control} of {len(TEXTS)} second turns over a kept cache differ from those without one")
different = {}
for name, engine in engines.items():
    without = sum(second_turn(engine, text, "") != answer for text, answer in zip(TEXTS, fresh))
    different[name] = sum(second_turn(engine, text, text) != answer for text, answer in zip(TEXTS, fresh))
    print(f"{name}: {different[name]} of {len(TEXTS)} second turns over a kept cache differ; without one {without}")

shown(set(passed) == {"PASS_STAT"} and control == 0 and min(different.values()) > 0,
      "first turns are right, and plain second turns; assisted second turns over a kept cache are not")
