# SPDX-License-Identifier: MIT
"""Tasks of lm-evaluation-harness against our server and against transformers, on a shipped model's weights.

Every way in which the harness asks a model is used: the likelihood of an answer, that of a whole text, and a text that
is written.
"""

import json
import pathlib
import tempfile
import unittest

import lm_eval
from real import Server

MODELS = pathlib.Path(__file__).parents[2] / "fixtures/models"
MODEL = MODELS / "tale-target"
ROUNDING = 0.5  # of the log-likelihood of a text of 15 tokens, whose weights are bfloat16 here; a wrong row costs more
SAMPLES = 12
TEXTS = ["Once upon a time there lived in Crow Hill a gardener named David.",
         "The baker of Crow Hill had a secret, and nobody in the village knew it.",
         "A recipe for bread: take flour, water and salt, and wait.",
         "In the morning the king went to the river to look for his daughter."]


def tasks(folder):
    """Of two choices one is how the text goes on, the other how the next one does."""
    rows = []
    for text, other in zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True):
        words, others = text.split(" "), other.split(" ")
        for cut in range(2, len(words) - 1):
            rows.append({"begin": " ".join(words[:cut]), "text": text,
                         "choices": [" ".join(words[cut:]), " ".join(others[cut:]) or "and"]})
    data = pathlib.Path(folder, "tales.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    common = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test"}
    return [common | {"task": "choice", "output_type": "multiple_choice", "doc_to_text": "{{begin}}",
                      "doc_to_choice": "{{choices}}", "doc_to_target": 0,
                      "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
            common | {"task": "text", "output_type": "loglikelihood_rolling", "doc_to_text": "",
                      "doc_to_target": "{{text}}", "metric_list": [{"metric": "word_perplexity"}]},
            common | {"task": "written", "output_type": "generate_until", "doc_to_text": "{{begin}}",
                      "doc_to_target": "{{text}}", "metric_list": [{"metric": "exact_match"}],
                      "generation_kwargs": {"until": ["."], "max_gen_toks": 12, "temperature": 0}}]


class BesideLmEval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def evaluate(kind, arguments):
            return lm_eval.simple_evaluate(model=kind, model_args=arguments | {"max_length": 1024}, tasks=tasks(folder),
                                           bootstrap_iters=0, log_samples=True, limit=SAMPLES, random_seed=0)

        with tempfile.TemporaryDirectory() as folder:
            with Server(MODEL, "--draft", f"dflash:{MODELS / 'tale-dflash'}") as server:
                cls.ours = evaluate("local-completions", {
                    "model": "m", "base_url": server.url + "/v1/completions", "tokenizer": str(MODEL),
                    "tokenizer_backend": "huggingface", "num_concurrent": 4})
            # The harness's own cache mixes up two cuts of one text into context and continuation.
            cls.theirs = evaluate("hf", {"pretrained": str(MODEL), "dtype": "float32", "device": "cpu",
                                         "logits_cache": False})

    def answers(self, task):
        """Of each sample, ours and theirs."""
        pairs = zip(self.ours["samples"][task], self.theirs["samples"][task], strict=True)
        both = [(ours["resps"], theirs["resps"]) for ours, theirs in pairs]
        self.assertEqual(len(both), SAMPLES)
        return both

    def test_answers_have_the_same_likelihoods(self):
        for ours, theirs in self.answers("choice"):
            for ((likelihood, greedy),), ((their_likelihood, their_greedy),) in zip(ours, theirs, strict=True):
                self.assertAlmostEqual(float(likelihood), float(their_likelihood), delta=ROUNDING)
                self.assertEqual(greedy, their_greedy)
        for metric in ("acc,none", "acc_norm,none"):
            self.assertEqual(self.ours["results"]["choice"][metric], self.theirs["results"]["choice"][metric])

    def test_texts_have_the_same_likelihoods(self):
        for ((likelihood,),), ((their_likelihood,),) in self.answers("text"):
            self.assertAlmostEqual(float(likelihood), float(their_likelihood), delta=ROUNDING)

    def test_texts_that_are_written_are_equal(self):
        same = sum(ours == theirs for ours, theirs in self.answers("written"))
        print(f"\n  {same} of {SAMPLES} texts are equal")
        self.assertGreaterEqual(same, 0.75 * SAMPLES)
