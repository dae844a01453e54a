# SPDX-License-Identifier: MIT
"""mlx-lm: under speculation logits processors do not see the prompt, so that penalties give another text.

    pip install mlx-lm==0.32.2 'mlx[cpu]==0.32.4' && python python/examples/mlx_history.py
"""

from common import SMALL, TARGET, requests, shown, verdict

from draftproof.adapters.mlx_lm import MlxEngine

plain, speculative = MlxEngine(TARGET), MlxEngine(TARGET, SMALL)
passed = [verdict(engine, requests(temperature=0.0)[:4]) for engine in (plain, speculative)]


def first_history(engine, request):
    """How many tokens a logits processor sees when it is called first."""
    seen = []
    engine.logits_processors = lambda _: [lambda tokens, logits: (seen.append(len(tokens)), logits)[1]]
    engine.generate([request])
    del engine.logits_processors
    return seen[0]


request = requests(temperature=0.0, max_new_tokens=1)[0]
seen = first_history(plain, request), first_history(speculative, request)
print(f"a prompt of {len(request.prompt)} tokens: a logits processor sees {seen[0]} plain, {seen[1]} speculative")

differ = {}
for fields in ({}, {"repeat_penalty": 1.3}, {"presence_penalty": 0.5}):
    asked = requests(temperature=0.0, max_new_tokens=40, **fields)
    answers = zip(plain.generate(asked), speculative.generate(asked))
    differ[str(fields)] = sum(a.tokens != b.tokens for a, b in answers)
    print(f"{fields or 'no penalty'}: {differ[str(fields)]} of {len(asked)} greedy texts differ")
shown(set(passed) == {"PASS_STAT"} and seen[1] < seen[0] and [bool(n) for n in differ.values()] == [False, True, True],
      "texts are equal without penalties and differ with them, because the history lacks the prompt")
