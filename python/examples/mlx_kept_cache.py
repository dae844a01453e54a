# SPDX-License-Identifier: MIT
"""mlx-lm: a prompt cache that speculative generation leaves may lack the last token, and the second turn then reads a
text without it.

    pip install mlx-lm==0.32.2 'mlx[cpu]==0.32.4' && python python/examples/mlx_kept_cache.py
"""

from common import SMALL, TARGET, TEXTS, encode, requests, shown, verdict

from draftproof.adapters.mlx_lm import MlxEngine
from draftproof.engines import Request

plain, speculative = MlxEngine(TARGET), MlxEngine(TARGET, SMALL)
passed = [verdict(engine, requests(temperature=0.0)[:4]) for engine in (plain, speculative)]


def two_turns(engine, text):
    first = engine.generate([Request(encode(text), 24, session=text)])[0].tokens
    missing = len(encode(text)) + len(first) - engine.held(session=text)
    prompt = [*encode(text), *first, *encode(" And then")]
    second = engine.generate([Request(prompt, 24, session=text)])[0].tokens
    return first, second, missing


short = first_differ = second_differ = with_whole_cache = 0
for text in TEXTS:
    first, second, missing = two_turns(plain, text)
    assert missing == 0, "plain generation feeds every token"
    fast_first, fast_second, missing = two_turns(speculative, text)
    short += missing
    first_differ += fast_first != first
    second_differ += fast_second != second
    with_whole_cache += fast_second != second and missing == 0
print(f"{len(TEXTS)} conversations: {first_differ} first answers differ, {short} caches are one token short, "
      f"{second_differ} second answers differ, {with_whole_cache} of them with a whole cache")
shown(set(passed) == {"PASS_STAT"} and first_differ == 0 and second_differ > 0 and with_whole_cache == 0,
      "first turns are right; second turns differ, only where the kept cache lacks a token")
