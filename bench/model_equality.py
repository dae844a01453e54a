# SPDX-License-Identifier: MIT
"""How many texts show that an engine serves another model or samples otherwise: our tests beside Model Equality Testing.

    PYTHONPATH=build/python python3 bench/model_equality.py [--trials N]

The question of Gao, Liang and Guestrin (arXiv 2410.20247): 10 samples of each prompt of a reference and of an endpoint.
Their test: maximum mean discrepancy with the Hamming kernel of texts, its p-value by permutations of the labels within
prompts, at level 0.05. Ours: PairedTexts, which knows no model either, and the tokens against the target (check_trace).
Both are e-values; one of 20 is level 0.05, whenever one stops.

Texts are drawn once, and every trial takes some of them, so trials are not independent.
"""

import argparse
import json
import os
import pathlib
import tempfile

import numpy as np

import draftproof

MODEL = "fixtures/models/tale-target"
PROMPTS = 10
POOL = 40  # texts of each prompt
SAMPLES = 10  # of each prompt, that a trial takes
LENGTH = 24

VARIANTS = {
    "the same": {},
    "weights q8_0": {"model": {"quantize": "q8"}},
    "weights q4_0": {"model": {"quantize": "q4"}},
    "KV cache bf16": {"model": {"kv": "bf16"}},
    "temperature 1.05": {"sampling": {"temperature": 1.05}},
    "temperature 1.2": {"sampling": {"temperature": 1.2}},
    "top_p 0.98": {"sampling": {"top_p": 0.98}},
    "repeat_penalty 1.1": {"sampling": {"repeat_penalty": 1.1}},
}


def draw(prompts, variant, seed):
    """Texts of each prompt: [prompt][sample] of tokens."""
    model = draftproof.Model(MODEL, **{"kv": "f32", **variant.get("model", {})})
    options = {"temperature": 1.0, **variant.get("sampling", {})}
    texts = []
    for number, prompt in enumerate(prompts):
        texts.append(
            [
                model.generate(prompt, max_new_tokens=LENGTH, seed=seed + 1000 * number + sample, **options).tokens
                for sample in range(POOL)
            ]
        )
    return texts


def hamming(texts):
    """The kernel matrix of texts of one prompt: at how many places two of them agree."""
    rows = np.full((len(texts), LENGTH), -1)
    for row, text in zip(rows, texts):
        row[: len(text)] = text
    return (rows[:, None, :] == rows[None, :, :]).sum(-1)


def mmd_p_value(first, second, random, permutations=1000):
    """first, second: [prompt][sample]. The labels are permuted within each prompt."""
    kernels = [hamming(a + b) for a, b in zip(first, second)]
    number = len(first[0])

    def statistic(orders):
        total = 0.0
        for kernel, order in zip(kernels, orders):
            a, b = order[:number], order[number:]
            same = [(kernel[np.ix_(x, x)].sum() - np.trace(kernel[np.ix_(x, x)])) / (number * (number - 1)) for x in (a, b)]
            total += same[0] + same[1] - 2 * kernel[np.ix_(a, b)].mean()
        return total

    observed = statistic([np.arange(2 * number)] * len(kernels))
    above = sum(statistic([random.permutation(2 * number) for _ in kernels]) >= observed for _ in range(permutations))
    return (above + 1) / (permutations + 1)


def without_model(first, second):
    requests = [prompt for _ in range(len(first[0])) for prompt in range(len(first))]
    pairs = [(first[p][s], second[p][s]) for s in range(len(first[0])) for p in range(len(first))]
    return draftproof.compare_texts(requests, [a for a, _ in pairs], [b for _, b in pairs])


def with_model(prompts, texts, folder):
    path = pathlib.Path(folder) / "texts.jsonl"
    with draftproof.TraceWriter(path, vocabulary=2048, rule="rejection") as trace:
        number = 0
        for sample in range(len(texts[0])):
            for prompt, of_prompt in zip(prompts, texts):
                text = of_prompt[sample]
                trace.sequence(sequence=number, prompt=prompt, temperature=1.0, max_new_tokens=LENGTH, stop_tokens=[2044, 2046])
                trace.round(sequence=number, emitted=text)
                trace.end("length" if len(text) == LENGTH else "stop", sequence=number)
                number += 1
    report = draftproof.check_trace(path, target=MODEL, slack=1e-5).json()
    if report["verdict"] == "BUG_PROVEN":
        return float("inf")
    return max(float(test["e_value"]) for test in report["token_tests"])


def chosen(texts, random, number):
    return [[of_prompt[i] for i in random.choice(len(of_prompt), number, replace=False)] for of_prompt in texts]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    random = np.random.default_rng(1)
    texts = open("fixtures/models/prompts.txt", encoding="utf-8").read().splitlines()[:PROMPTS]
    encode = draftproof.Model(MODEL).encode
    prompts = [encode(text) for text in texts]
    reference = draw(prompts, {}, 1)
    figures = {}
    print(f"{options.trials} trials of {SAMPLES} texts of {LENGTH} tokens for {PROMPTS} prompts; share found at level 0.05")
    print(f"{'':20} {'MMD-Hamming':>12} {'ours, no model':>15} {'ours, target':>13}   e-values of ours (median)")
    with tempfile.TemporaryDirectory() as folder:
        for name, variant in VARIANTS.items():
            other = draw(prompts, variant, 1_000_001)
            found = [0, 0, 0]
            e_values = [[], []]
            for _ in range(options.trials):
                a, b = chosen(reference, random, SAMPLES), chosen(other, random, SAMPLES)
                found[0] += mmd_p_value(a, b, random) <= 0.05
                e_values[0].append(without_model(a, b).e_value)
                e_values[1].append(with_model(prompts, b, folder))
                found[1] += e_values[0][-1] >= 20
                found[2] += e_values[1][-1] >= 20
            shares = [number / options.trials for number in found]
            medians = [float(np.median(values)) for values in e_values]
            figures[name] = {"found": shares, "median_e_values": medians}
            print(
                f"{name:20} {shares[0]:12.2f} {shares[1]:15.2f} {shares[2]:13.2f}   {medians[0]:.3g}, {medians[1]:.3g}",
                flush=True,
            )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
