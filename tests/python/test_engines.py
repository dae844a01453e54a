# SPDX-License-Identifier: MIT
"""The adapter of the engine that DRAFTPROOF_ENGINE names, with the engine. engines.sh installs engines and runs it."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import draftproof
from draftproof import adapters
from draftproof.engines import Request

NAME = os.environ.get("DRAFTPROOF_ENGINE")
if NAME is None:
    raise unittest.SkipTest("DRAFTPROOF_ENGINE names no engine")

MODELS = pathlib.Path(__file__).resolve().parents[2] / "fixtures/models"
TARGET, SMALL = str(MODELS / "tale-target"), str(MODELS / "tale-small")
TEXTS = (MODELS / "prompts.txt").read_text(encoding="utf-8").splitlines()
STOPS = (2044, 2046)


def transformers():
    from draftproof.adapters.transformers import TransformersEngine

    return {
        "plain": TransformersEngine(TARGET, tokenizer=TARGET),
        "assisted": TransformersEngine(TARGET, SMALL),
        "prompt lookup": TransformersEngine(TARGET, prompt_lookup_num_tokens=4),
        "early exit": TransformersEngine(TARGET, assistant_early_exit=3),
    }


def mlx_lm():
    from draftproof.adapters.mlx_lm import MlxEngine

    return {"plain": MlxEngine(TARGET), "draft model": MlxEngine(TARGET, SMALL)}


def openvino_genai():
    from draftproof.adapters.openvino_genai import OpenVinoEngine

    global TARGET
    folder = tempfile.mkdtemp()
    gguf = {}
    for model in (TARGET, SMALL):
        inside = tempfile.mkdtemp(dir=folder)
        gguf[model] = f"{inside}/model.gguf"
        subprocess.run([os.environ["DRAFTPROOF_BINARY"], "convert", model, gguf[model], "--type", "f16", "--quiet"],
                       check=True)
    TARGET = gguf[TARGET]
    return {"plain": OpenVinoEngine(TARGET), "draft model": OpenVinoEngine(TARGET, gguf[SMALL]),
            "prompt lookup": OpenVinoEngine(TARGET, prompt_lookup=True)}


def vllm():
    from draftproof.adapters.vllm import VllmEngine

    draft = {"model": SMALL, "num_speculative_tokens": 4, "draft_sample_method": "probabilistic"}
    return {"plain": VllmEngine(TARGET, enforce_eager=True),
            "draft model": VllmEngine(TARGET, draft, enforce_eager=True)}


# What docs/findings.md says of these versions.
WRONG_LAW = {("openvino_genai", "draft model"), ("vllm", "draft model")}


class Engine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.encode = draftproof.Model(TARGET).encode
        cls.engines = {"transformers": transformers, "mlx_lm": mlx_lm, "openvino_genai": openvino_genai,
                       "vllm": vllm}[NAME]()

    def asked(self, temperature, tokens=64, texts=TEXTS[:3], **fields):
        return [Request(self.encode(text), tokens, temperature, stop_tokens=STOPS, **fields) for text in texts]

    def test_greedy_texts_are_right(self):
        for mode, engine in self.engines.items():
            with self.subTest(mode):
                report = adapters.check(engine, self.asked(0.0), target=TARGET)
                self.assertEqual(report.verdict, "PASS_STAT", report)

    def test_sampled_texts_have_the_distribution(self):
        for mode, engine in self.engines.items():
            if (NAME, mode) in WRONG_LAW:
                continue
            for fields in ({}, {"temperature": 0.8, "top_k": 20, "top_p": 0.9}):
                with self.subTest(mode, **fields):
                    asked = self.asked(**{"temperature": 1.0, **fields})
                    report = adapters.check(engine, asked, target=TARGET)
                    self.assertNotIn(report.verdict, ("BUG_STAT", "BUG_PROVEN"), report)

    def test_known_faults_are_seen(self):
        for mode, engine in self.engines.items():
            if (NAME, mode) in WRONG_LAW:
                with self.subTest(mode):
                    report = adapters.check(engine, self.asked(1.0, 100, TEXTS), target=TARGET)
                    self.assertEqual(report.verdict, "BUG_STAT", report)

    def test_numbers_beside_the_tokens(self):
        asked = self.asked(0.0, 24, logprobs=1)
        plain = self.engines["plain"].generate(asked)
        for mode, engine in self.engines.items():
            with self.subTest(mode):
                answers = engine.generate(asked)
                if mode in ("assisted", "draft model") and NAME != "openvino_genai":  # it does not say
                    self.assertGreater(sum(answer.accepted for answer in answers), 0)
                for expected, answer in zip(plain, answers):
                    self.assertEqual(answer.tokens, expected.tokens)
                    self.assertEqual(answer.finish_reason, expected.finish_reason)
                    self.assertEqual(len(answer.logprobs), len(answer.tokens))
                    for a, b in zip(answer.logprobs, expected.logprobs):
                        self.assertAlmostEqual(a, b, delta=1e-3)
                    if answer.top_logprobs is not None:  # greedy: the likeliest one is the token
                        self.assertEqual([max(row, key=row.get) for row in answer.top_logprobs], answer.tokens)

    def test_a_stop_token_ends_a_text_and_is_part_of_it(self):
        for mode, engine in self.engines.items():
            with self.subTest(mode):
                whole = engine.generate(self.asked(0.0, 24))[0].tokens
                stopped = engine.generate([Request(self.encode(TEXTS[0]), 24, stop_tokens=[whole[9]])])[0]
                self.assertEqual(stopped.tokens, whole[: whole.index(whole[9]) + 1])
                self.assertEqual(stopped.finish_reason, "stop")

    def test_a_seed_repeats_a_text(self):
        for mode, engine in self.engines.items():
            with self.subTest(mode):
                if "seed" not in engine.supports or (NAME, mode) in WRONG_LAW:
                    self.skipTest("no seed")
                asked = [Request(self.encode(TEXTS[0]), 24, 1.0, seed=5)]
                self.assertEqual(*(engine.generate(asked)[0].tokens for _ in range(2)))

    def test_a_second_turn_of_a_plain_session_is_what_it_is_alone(self):
        engine = self.engines["plain"]
        if "session" not in engine.supports:
            self.skipTest("it keeps no prompt cache")
        first = engine.generate([Request(self.encode(TEXTS[0]), 16, session="one")])[0].tokens
        prompt = [*self.encode(TEXTS[0]), *first, *self.encode(" And then")]
        kept = engine.generate([Request(prompt, 16, session="one")])[0].tokens
        self.assertEqual(kept, engine.generate([Request(prompt, 16)])[0].tokens)


@unittest.skipIf(NAME != "transformers", "of transformers")
class Recording(unittest.TestCase):
    def test_a_trace_of_rounds_with_draft_tokens_p_q_and_u(self):
        from draftproof.adapters.transformers import record

        encode = draftproof.Model(TARGET).encode
        engines = transformers()
        del engines["plain"]
        for mode, engine in engines.items():
            for temperature in (0.0, 1.0):
                with self.subTest(mode, temperature=temperature), tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "trace.jsonl")
                    asked = [Request(encode(text), 64, temperature, stop_tokens=STOPS) for text in TEXTS[:3]]
                    with record(path, engine):
                        answers = engine.generate(asked)
                    report = draftproof.check_trace(path, target=TARGET, slack=engine.slack, tie=engine.tie)
                    self.assertEqual(report.verdict, "PASS_STAT", report)
                    # Of a proposal the check counts those up to the first that is rejected.
                    counted = int(re.search(r"draft_tokens (\d+)", str(report)).group(1))
                    self.assertGreater(counted, 0)
                    self.assertLessEqual(counted, sum(answer.drafted for answer in answers))

    def test_rows_are_the_distributions_that_decided(self):
        from draftproof.adapters.transformers import record

        engine = transformers()["assisted"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.jsonl")
            with record(path, engine, rows=True):
                engine.generate([Request(draftproof.Model(TARGET).encode(TEXTS[0]), 40, 1.0)])
            report = draftproof.check_trace(path)
        self.assertNotIn(report.verdict, ("BUG_PROVEN", "BUG_STAT"), report)

    def test_a_plain_generation_is_refused(self):
        from draftproof.adapters.transformers import record

        engine = transformers()["plain"]
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(draftproof.Error) as caught:
            with record(os.path.join(folder, "t.jsonl"), engine):
                engine.generate([Request([1, 2], 2)])
        self.assertIn("a plain generation has no draft tokens", str(caught.exception))

    def test_what_was_patched_is_put_back(self):
        import torch
        from draftproof.adapters.transformers import record
        from transformers.generation import utils

        engine = transformers()["assisted"]
        before = engine.model.generate, engine.model._get_candidate_generator, utils._speculative_sampling
        with tempfile.TemporaryDirectory() as folder, record(os.path.join(folder, "t.jsonl"), engine):
            pass
        after = engine.model.generate, engine.model._get_candidate_generator, utils._speculative_sampling
        self.assertEqual(after, before)
        self.assertEqual(torch.rand_like.__module__, torch.ones_like.__module__)


if __name__ == "__main__":
    unittest.main()
