# SPDX-License-Identifier: MIT
"""The Python package, as users call it. PYTHONPATH names the folder it was built in."""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import numpy as np

import draftproof

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "fixtures/models/tale-target"
DFLASH = f"dflash:{ROOT}/fixtures/models/tale-dflash"
PROMPT = "Once upon a time, there was a"


def example(name):
    return ROOT / "docs/examples" / name


class Generating(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = draftproof.Model(TARGET)

    def test_speculative_text_equals_plain_text(self):
        for sampling in ({}, {"temperature": 0.9, "top_p": 0.95, "seed": 7}):
            plain = self.model.generate(PROMPT, max_new_tokens=48, **sampling)
            fast = self.model.generate(PROMPT, max_new_tokens=48, draft=DFLASH, draft_max=5, **sampling)
            self.assertEqual(fast.tokens, plain.tokens)
            self.assertEqual(fast.text, plain.text)
            self.assertGreater(fast.statistics["accepted"], 0)
            self.assertLess(fast.statistics["rounds"], plain.statistics["rounds"])
            self.assertEqual(plain.statistics["drafted"], 0)

    def test_the_text_is_that_of_the_command(self):
        command = os.environ.get("DRAFTPROOF_BINARY")
        if command is None:
            self.skipTest("DRAFTPROOF_BINARY does not name the command")
        arguments = [command, "generate", TARGET, "-p", PROMPT, "-n", "32", "--draft", DFLASH]
        printed = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
        generation = self.model.generate(PROMPT, max_new_tokens=32, draft=DFLASH)
        self.assertEqual(printed, PROMPT + generation.text + "\n")

    def test_adapters_are_those_of_the_command_or_of_the_pair(self):
        base = ROOT / "fixtures/external/llama-tiny-biased"
        adapter = str(ROOT / "fixtures/external/lora-llama-tiny-biased")
        prompt = [1, 2, 3, 4]
        plain = draftproof.Model(base).logits(prompt)
        merged = draftproof.Model(base, lora=[adapter]).logits(prompt)
        self.assertGreater(np.abs(merged - plain).max(), 1e-3)
        half = draftproof.Model(base, lora=[adapter + "=0.25", adapter + "=0.75"]).logits(prompt)
        np.testing.assert_allclose(half, merged, atol=1e-4)
        with tempfile.TemporaryDirectory() as folder:
            pair = pathlib.Path(folder, "pair.json")
            pair.write_text(json.dumps({"target": str(base), "lora": [adapter]}), encoding="utf-8")
            np.testing.assert_array_equal(draftproof.Model(pair).logits(prompt), merged)
            np.testing.assert_array_equal(draftproof.Model(pair, lora=[]).logits(prompt), plain)
        with self.assertRaisesRegex(draftproof.Error, "no-such-adapter"):
            draftproof.Model(base, lora=["no-such-adapter"])

    def test_a_pair_names_target_and_draft(self):
        with tempfile.TemporaryDirectory() as folder:
            pair = pathlib.Path(folder, "pair.json")
            pair.write_text(json.dumps({"target": str(TARGET), "draft": DFLASH}), encoding="utf-8")
            model = draftproof.Model(pair)
        plain = self.model.generate(PROMPT, max_new_tokens=16)
        paired = model.generate(PROMPT, max_new_tokens=16)
        self.assertEqual(paired.tokens, plain.tokens)
        self.assertGreater(paired.statistics["drafted"], 0)
        self.assertEqual(model.generate(PROMPT, max_new_tokens=16, draft="none").statistics["drafted"], 0)

    def test_tokens_come_as_they_are_decoded(self):
        generation = self.model.generate(PROMPT, max_new_tokens=16, draft=DFLASH)
        first = next(generation)
        rest = list(generation)
        self.assertEqual([first, *rest], generation.tokens)
        self.assertEqual(len(generation.tokens), 16)
        self.assertEqual(generation.finish_reason, "length")
        self.assertEqual(list(generation), [])

    def test_two_texts_in_turns_are_those_alone(self):
        prompts = [PROMPT, "The little dog"]
        alone = [self.model.generate(prompt, max_new_tokens=12, draft=DFLASH).tokens for prompt in prompts]
        together = list(zip(*(self.model.generate(prompt, max_new_tokens=12, draft=DFLASH) for prompt in prompts)))
        self.assertEqual([list(tokens) for tokens in zip(*together)], alone)

    def test_tokens_are_a_prompt_too(self):
        tokens = self.model.encode(PROMPT)
        self.assertEqual(self.model.decode(tokens), PROMPT)
        expected = self.model.generate(PROMPT, max_new_tokens=8).tokens
        self.assertEqual(self.model.generate(tokens, max_new_tokens=8).tokens, expected)
        self.assertEqual(self.model.generate(np.array(tokens), max_new_tokens=8).tokens, expected)

    def test_attributes(self):
        self.assertEqual(self.model.vocabulary, 2048)
        self.assertGreater(self.model.context, 100)
        self.assertEqual(self.model.numerics, "canonical, kv bf16")
        self.assertEqual(draftproof.Model.__module__, "draftproof")

    def test_logits_are_those_that_generate_and_next_distribution_read(self):
        prompt = self.model.encode(PROMPT)
        written = self.model.generate(prompt, max_new_tokens=200 - len(prompt)).tokens
        text = prompt + written
        rows = self.model.logits(text)
        self.assertEqual(rows.dtype, np.float32)
        self.assertEqual(rows.shape, (len(text), self.model.vocabulary))
        best = rows.argmax(axis=1)
        self.assertEqual(best[len(prompt) - 1 : -1].tolist(), written)
        for length in (1, len(prompt), len(text)):
            p = self.model.next_distribution(text[:length])
            self.assertEqual(p.argmax(), best[length - 1])
            row = rows[length - 1].astype(np.float64)
            softmax = np.exp(row - row.max())
            np.testing.assert_allclose(p, softmax / softmax.sum(), atol=1e-6)
        self.assertEqual(self.model.logits([]).shape, (0, self.model.vocabulary))

    def test_a_distribution_sums_to_one(self):
        for sampling in ({}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.9, "min_p": 0.01}, {"temperature": 0}):
            p = self.model.next_distribution(self.model.encode(PROMPT), **sampling)
            self.assertEqual(p.dtype, np.float64)
            self.assertEqual(p.sum(), 1.0, sampling)
            if "top_k" in sampling:
                self.assertLessEqual((p > 0).sum(), 5)
        self.assertEqual(p.max(), 1.0)

    def test_other_threads_run_meanwhile(self):
        generation = self.model.generate(PROMPT, max_new_tokens=150)
        done = threading.Event()
        counted = [0]

        def count():
            while not done.is_set():
                counted[0] += 1
                time.sleep(0.001)

        counter = threading.Thread(target=count)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is asked to give the interpreter away: a thread runs only where it is free
        try:
            counter.start()
            tokens = generation.tokens
        finally:
            sys.setswitchinterval(before)
            done.set()
            counter.join()
        self.assertGreater(len(tokens), 100)
        self.assertGreater(counted[0], 10)

    def test_control_c_ends_a_generation(self):
        script = f"""
            import draftproof
            model = draftproof.Model({str(TARGET)!r})
            try:
                print("loaded", flush=True)
                while True:
                    model.generate({PROMPT!r}, max_new_tokens=400, temperature=1).tokens
            except KeyboardInterrupt:
                print("interrupted")
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.read(), "interrupted\n")
            self.assertEqual(process.wait(), 0)


class BadInput(unittest.TestCase):
    def expect(self, words, call, *arguments, **options):
        with self.assertRaises(draftproof.Error) as caught:
            call(*arguments, **options)
        self.assertIn(words, str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)

    def test_of_a_model(self):
        self.expect("no/such/model", draftproof.Model, "no/such/model")
        self.expect("q3", draftproof.Model, TARGET, quantize="q3")
        self.expect("f64", draftproof.Model, TARGET, kv="f64")
        self.expect("abacus", draftproof.Model, TARGET, kernels="abacus")
        self.expect("threads is 0", draftproof.Model, TARGET, threads=0)

    def test_of_a_generation(self):
        model = draftproof.Model(TARGET)
        self.expect("telepathy", model.generate, PROMPT, draft="telepathy")
        self.expect("no/such/draft", model.generate, PROMPT, draft="model:no/such/draft")
        self.expect("luck", model.generate, PROMPT, rule="luck")
        self.expect("temperature is -1", model.generate, PROMPT, temperature=-1)
        self.expect("temperature is nan", model.generate, PROMPT, temperature=float("nan"))
        self.expect("top_p is 2", model.generate, PROMPT, top_p=2)
        self.expect("draft_max is 0", model.generate, PROMPT, draft_max=0)
        self.expect("positions", model.generate, PROMPT, max_new_tokens=1_000_000)
        self.expect("negative", model.generate, PROMPT, max_new_tokens=-1)
        self.expect("empty", model.generate, [])
        self.expect("vocabulary", model.generate, [5000])
        self.expect("vocabulary", model.logits, [1, -1])
        self.expect("empty", model.next_distribution, [])
        self.expect("-1", model.decode, [-1])
        for wrong in ({"seed": -1}, {"max_new_tokens": "many"}, {"surprise": 1}):
            with self.assertRaises(TypeError):
                model.generate(PROMPT, **wrong)
        with self.assertRaises(TypeError):
            model.generate(PROMPT, 10)

    def test_of_a_trace(self):
        self.expect("no/such/trace", draftproof.check_trace, "no/such/trace")
        self.expect(str(TARGET / "config.json"), draftproof.check_trace, TARGET / "config.json")
        tokens = example("tokens.jsonl")
        self.expect("no/such/model", draftproof.check_trace, tokens, target="no/such/model")
        self.expect("slack is 2", draftproof.check_trace, tokens, target=TARGET, slack=2)
        self.expect("give target", draftproof.check_trace, tokens, tie=1)
        self.expect("f16", draftproof.check_trace, tokens, target=TARGET, reference="f16")
        self.expect("give target", draftproof.check_trace, tokens, suspects=["q4"])
        self.expect("q5: no such", draftproof.check_trace, tokens, target=TARGET, suspects="q5")
        self.expect("lists of equal lengths", draftproof.compare_texts, [0], [[1]], [[2]], prompts=[])
        self.expect("a number or auto", draftproof.check_trace, tokens, target=TARGET, slack="some")
        self.expect("give --control", draftproof.check_trace, tokens, target=TARGET, tie="auto")


class Checking(unittest.TestCase):
    def test_a_right_trace_passes(self):
        report = draftproof.check_trace(example("tokens.jsonl"), target=TARGET)
        self.assertEqual(report.verdict, "PASS_STAT")
        self.assertTrue(report.passed)
        self.assertTrue(all(finding.outcome == "pass" and finding.place is None for finding in report.findings))

    def test_other_engines_are_compared_with_the_reference_asked_for(self):
        trace = ROOT / "tests/spectrace/files/transformers_float32.jsonl"
        # What lies within the reference's own distance from exact is no finding.
        for reference, off in {"f32": 0, "f64": 0, "own": 2}.items():
            report = draftproof.check_trace(trace, target=TARGET, tie=1e-4, reference=reference)
            self.assertEqual(report.verdict, "PASS_STAT")
            self.assertIn(f"{off} of 219", str(report))

    def test_a_wrong_trace_is_a_proven_bug_with_its_place(self):
        report = draftproof.check_trace(str(example("tokens_doubled.jsonl")), target=str(TARGET))
        self.assertEqual(report.verdict, "BUG_PROVEN")
        self.assertFalse(report.passed)
        found = report.findings[0]
        self.assertEqual((found.check, found.outcome), ("best", "fail"))
        self.assertEqual((found.place.run, found.place.line), ("sequence 0", 5))
        self.assertEqual((found.place.round, found.place.position), (3, 14))
        self.assertIn(found.expected, found.message)
        self.assertIn(found.observed, found.message)

    def test_every_form_of_a_report(self):
        trace = example("tokens_doubled.jsonl")
        report = draftproof.check_trace(trace, target=TARGET)
        self.assertEqual(report.json()["verdict"], "BUG_PROVEN")
        self.assertIn("<html", report.html())
        self.assertEqual(report._repr_html_(), report.html())
        self.assertIn("<testsuite", report.junit())
        self.assertIn("2.1.0", report.sarif())
        command = os.environ.get("DRAFTPROOF_BINARY")
        if command is not None:
            printed = subprocess.run([command, "trace", "check", trace, "--target", TARGET], capture_output=True)
            self.assertEqual(str(report), printed.stdout.decode())


class ComparingTexts(unittest.TestCase):
    def test_texts_that_avoid_the_prompt_are_found_where_the_prompt_is_known(self):
        random = np.random.default_rng(1)
        prompts, plain, other, again = random.integers(40, size=(4, 3000, 8))
        avoiding = np.where((other[:, :, None] == prompts[:, None]).any(-1), again, other)

        def alarm(texts, **options):
            return draftproof.compare_texts(range(3000), plain.tolist(), texts.tolist(), **options).alarm

        self.assertTrue(alarm(avoiding, prompts=prompts.tolist()))
        self.assertFalse(alarm(avoiding))
        self.assertFalse(alarm(other, prompts=prompts.tolist()))


class Documentation(unittest.TestCase):
    def test_every_block_of_the_pages_runs(self):
        pages = "".join((ROOT / "docs" / name).read_text() for name in ("python.md", "compare.md"))
        blocks = re.findall(r"^```python\n(.*?)^```$", pages, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(blocks), 9)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("docs", "fixtures"):
                os.symlink(ROOT / name, pathlib.Path(folder) / name)
            for block in blocks:
                with self.subTest(block=block):
                    needs = ["hypothesis"] if "hypothesis" in block else []
                    command = [sys.executable, "-c", block]
                    if "assert_lossless" in block:
                        (pathlib.Path(folder) / "test_block.py").write_text(block)
                        needs = ["pytest"]
                        command = [sys.executable, "-m", "pytest", "-p", "draftproof.pytest_plugin", "-q", "test_block.py"]
                    if not all(importlib.util.find_spec(name) for name in needs):
                        continue
                    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
                    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
