# SPDX-License-Identifier: MIT
"""How many texts show that an engine serves another model or samples otherwise: our tests beside Model Equality Testing.

    PYTHONPATH=build/python python3 bench/model_equality.py [--trials N] [--texts FOLDER] [--suspects q8 q4]

The question of Gao, Liang and Guestrin (arXiv 2410.20247): 10 texts of 50 tokens of each prompt, of a reference and of an
endpoint. Their test: maximum mean discrepancy with the Hamming kernel, its p-value by permutations within prompts, at
level 0.05. Ours: PairedTexts (compare_texts), which knows no model either; the tokens against the target (check_trace);
and the first token that is not the target's with the same seed. The first two are e-values; one of 20 is level 0.05,
whenever one stops.

A trial takes 50 texts of each prompt, which no other trial takes, and is also five trials of 10 texts. What the most
powerful test of the variant against the target needs is computed from their distributions: ln 20 / KL.
"""

import argparse
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import tempfile

import numpy as np

import draftproof

MODEL = "fixtures/models/tale-target"
LENGTH = 50
SAMPLES = 10  # of each prompt, in a part of a trial
PARTS = 5
STOPS = [2044, 2046]

# name: (options of Model, options of generate); the first is the reference.
VARIANTS = {
    "reference": ({}, {}),
    "the same": ({}, {}),
    "weights q8_0": ({"quantize": "q8"}, {}),
    "weights q4_0": ({"quantize": "q4"}, {}),
    "KV cache bf16": ({"kv": "bf16"}, {}),
    "temperature 1.05": ({}, {"temperature": 1.05}),
    "temperature 1.2": ({}, {"temperature": 1.2}),
    "top_p 0.98": ({}, {"top_p": 0.98}),
    "top_p 0.9": ({}, {"top_p": 0.9}),
    "top_k 20": ({}, {"top_k": 20}),
    "repeat_penalty 1.1": ({}, {"repeat_penalty": 1.1}),
}


def load(variant="reference"):
    return draftproof.Model(MODEL, threads=1, **{"kv": "f32", **VARIANTS[variant][0]})


def read_prompts():
    """The project's prompts, alone and with what the model writes next."""
    model = load()
    texts = pathlib.Path("fixtures/models/prompts.txt").read_text(encoding="utf-8").splitlines()
    prompts = [model.encode(text) for text in texts]
    return prompts + [prompt + list(model.generate(prompt, max_new_tokens=12).tokens) for prompt in prompts]


def seed_of(variant, part, prompt, sample):
    return ((list(VARIANTS).index(variant) * 10000 + part) * 100 + prompt) * 100 + sample + 1


def generate(model, prompt, variant, seed):
    return model.generate(prompt, max_new_tokens=LENGTH, seed=seed, **{"temperature": 1.0, **VARIANTS[variant][1]}).tokens


def draw(variant, parts, folder):
    """Texts, [part][prompt][sample][token], -1 behind the end; from the folder where they were drawn before."""
    path = folder / f"{list(VARIANTS).index(variant)}.npy"
    if path.exists() and len(np.load(path, mmap_mode="r")) >= parts:
        return np.load(path)[:parts]
    prompts, model = read_prompts(), load(variant)
    texts = np.full((parts, len(prompts), SAMPLES, LENGTH), -1, np.int16)
    for part, prompt, sample in np.ndindex(texts.shape[:3]):
        tokens = generate(model, prompts[prompt], variant, seed_of(variant, part, prompt, sample))
        texts[part, prompt, sample, : len(tokens)] = tokens
    np.save(path, texts)
    return texts


def tokens_of(row):
    return [int(token) for token in row if token >= 0]


def joined(parts):
    """[prompt][sample][token] of several parts."""
    return np.concatenate(list(parts), axis=1)


def mmd_p_value(first, second, random, permutations=400):
    """first, second: [prompt][sample][token]."""
    number = first.shape[1]
    totals = np.zeros(permutations + 1)  # of the observed labels, and of permuted ones
    for rows in np.concatenate([first, second], axis=1):
        kernel = np.stack([(row == rows).sum(-1) for row in rows]).astype(float)
        np.fill_diagonal(kernel, 0)
        orders = random.permuted(np.tile(np.arange(2 * number), (permutations, 1)), axis=1)
        in_first = np.vstack([np.arange(2 * number), orders]) < number
        of_first = in_first @ kernel
        inside = (of_first * in_first).sum(1)
        across = (of_first * ~in_first).sum(1)
        other = kernel.sum() - inside - 2 * across
        totals += (inside + other) / (number * (number - 1)) - 2 * across / number**2
    return (1 + (totals[1:] >= totals[0] - 1e-9).sum()) / (permutations + 1)


def without_model(prompts, first, second):
    """Returns whether an e-value of 20 is reached, and after how many tokens of the endpoint."""
    places = [(prompt, sample) for sample in range(first.shape[1]) for prompt in range(first.shape[0])]
    requests = [prompt for prompt, _ in places]
    asked = [prompts[prompt] for prompt in requests]
    a, b = ([tokens_of(texts[place]) for place in places] for texts in (first, second))

    def found(pairs):
        return draftproof.compare_texts(requests[:pairs], a[:pairs], b[:pairs], prompts=asked[:pairs]).e_value >= 20

    if not found(len(places)):
        return False, math.inf
    few, enough = 0, len(places)  # the e-value is the largest so far, so it never falls
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if found(middle) else (middle, enough)
    return True, sum(map(len, b[:enough]))


def with_model(prompts, texts, path, suspects):
    """Returns after how many tokens an e-value of 20 is reached."""
    with draftproof.TraceWriter(path, vocabulary=2048, rule="rejection") as trace:
        number = 0
        for sample in range(texts.shape[1]):
            for prompt, of_prompt in zip(prompts, texts):
                text = tokens_of(of_prompt[sample])
                trace.sequence(sequence=number, prompt=prompt, temperature=1.0, max_new_tokens=LENGTH, stop_tokens=STOPS)
                trace.round(sequence=number, emitted=text)
                trace.end("length" if len(text) == LENGTH else "stop", sequence=number)
                number += 1
    report = draftproof.check_trace(path, target=MODEL, suspects=suspects, slack=1e-5, threads=1).json()
    return next((n for test in report["token_tests"] for n, e in test["curve"] if float(e) >= 20), math.inf)


def with_seed(prompts, parts, reference, first_part, variant, model):
    """Returns how many tokens an engine writes up to the first that is not the target's with the same seed."""
    count = 0
    for part, sample, prompt in np.ndindex(len(parts), SAMPLES, len(prompts)):
        expected = tokens_of(parts[part][prompt, sample])
        seed = seed_of(reference, first_part + part, prompt, sample)
        tokens = generate(model, prompts[prompt], variant, seed)
        for a, b in zip(expected, tokens):
            count += 1
            if a != b:
                return count
        if len(tokens) != len(expected):
            return count + 1
    return math.inf


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def sampled_from(z, texts_before, temperature=1.0, top_k=0, top_p=1.0, repeat_penalty=1.0):
    """Logarithms of what tokens are drawn from, of logits after each text."""
    z = z.astype(float)
    for row, text in zip(z, texts_before):
        seen = list(set(text[-64:]))
        row[seen] = np.where(row[seen] < 0, row[seen] * repeat_penalty, row[seen] / repeat_penalty)
    logs = log_softmax(z / temperature)
    order = np.argsort(-logs, axis=-1)
    ranked = np.exp(np.take_along_axis(logs, order, -1))
    kept = np.cumsum(ranked, -1) - ranked < top_p
    if top_k > 0:
        kept[:, top_k:] = False
    np.put_along_axis(logs, order, np.where(kept, np.take_along_axis(logs, order, -1), -np.inf), -1)
    return log_softmax(logs)


def divergence(prompts, texts, variant):
    """Returns KL(variant || reference) of a token, on the variant's texts."""
    own, reference = load(variant), load()
    values = []
    for prompt, rows in zip(prompts, texts):
        for row in rows:
            text = tokens_of(row)
            whole = list(prompt) + text
            places = range(len(prompt), len(whole))
            q = sampled_from(own.logits(whole)[len(prompt) - 1 : -1], [whole[:i] for i in places], **VARIANTS[variant][1])
            p = log_softmax(reference.logits(whole)[len(prompt) - 1 : -1].astype(float))
            values.extend(np.where(q > -np.inf, np.exp(q) * (np.maximum(q, -1e9) - p), 0).sum(-1))
    return float(np.mean(values))


def measure(job):
    variant, trials, target_trials, folder, suspects = job
    prompts, model = read_prompts(), load(variant)
    random = np.random.default_rng(1)
    reference, other = (draw(name, trials * PARTS, folder) for name in ("reference", variant))
    figures = {"MMD": [], "MMD of all": [], "pairs": [], "pairs of all": [], "target": [], "seed": []}
    for trial in range(trials):
        parts = range(trial * PARTS, (trial + 1) * PARTS)
        for part in parts:
            figures["MMD"].append(bool(mmd_p_value(reference[part], other[part], random) <= 0.05))
            figures["pairs"].append(without_model(prompts, reference[part], other[part])[0])
        all_first, all_second = joined(reference[parts]), joined(other[parts])
        figures["MMD of all"].append(bool(mmd_p_value(all_first, all_second, random) <= 0.05))
        figures["pairs of all"].append(without_model(prompts, all_first, all_second)[1])
        figures["seed"].append(with_seed(prompts, reference[parts], "reference", parts[0], variant, model))
        if trial >= target_trials:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            trace = pathlib.Path(scratch) / "texts.jsonl"
            few = with_model(prompts, other[parts[0]], trace, suspects)
            figures["target"].append(few if few < math.inf else with_model(prompts, all_second, trace, suspects))
    figures["KL"] = divergence(prompts, other[0], variant)
    return figures


def count(found):
    return f"{sum(found)} of {len(found)}"


def tokens(number):
    return "–" if number == math.inf else f"{float(f'{number:.2g}'):,.0f}"


def print_table(figures):
    few = len(read_prompts()) * SAMPLES * LENGTH
    print("| endpoint | MMD, 10 texts | no model | target | MMD, 50 texts | no model | target |")
    print("|---|---|---|---|---|---|---|")
    for name, of in figures.items():
        no_model = [number < math.inf for number in of["pairs of all"]]
        target = [number <= few for number in of["target"]], [number < math.inf for number in of["target"]]
        cells = [of["MMD"], of["pairs"], target[0], of["MMD of all"], no_model, target[1]]
        print("| " + " | ".join([name, *map(count, cells)]) + " |")
    print("\n| endpoint | no model | target | same seed | best test |\n|---|---|---|---|---|")
    for name, of in figures.items():
        medians = [statistics.median_high(of[key]) for key in ("pairs of all", "target", "seed")]
        best = math.log(20) / of["KL"] if of["KL"] > 1e-12 else math.inf
        print("| " + " | ".join([name, *map(tokens, [*medians, best])]) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--target-trials", type=int, default=10, help="of these, that are checked against the target")
    parser.add_argument("--suspects", nargs="*", default=[], help="what tokens are bet on with, too: q8, q4")
    parser.add_argument("--texts", type=pathlib.Path, help="keep the texts in this folder, for the next run")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS)[1:])
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as scratch, multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        folder = options.texts or pathlib.Path(scratch)
        folder.mkdir(exist_ok=True)
        drawn = ["reference", *options.variants]
        pool.starmap(draw, [(name, options.trials * PARTS, folder) for name in drawn], chunksize=1)
        about = options.trials, options.target_trials, folder, options.suspects
        jobs = [(name, *about) for name in options.variants]
        figures = dict(zip(options.variants, pool.map(measure, jobs, chunksize=1)))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print_table(figures)


if __name__ == "__main__":
    main()
