# SPDX-License-Identifier: MIT
"""Assertions, the plugin of pytest, recorded runs, and the strategies for Hypothesis."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import draftproof
from draftproof import fixtures, strategies, testing

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "fixtures/models/tale-target"
DFLASH = f"dflash:{ROOT}/fixtures/models/tale-dflash"
RIGHT = ROOT / "docs/examples/tokens.jsonl"
WRONG = ROOT / "docs/examples/tokens_doubled.jsonl"
PROMPT = "Once upon a time, there was a"


def installed(name):
    return importlib.util.find_spec(name) is not None


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def expect(self, words, call, *arguments, **options):
        with self.assertRaises(draftproof.Error) as caught:
            call(*arguments, **options)
        self.assertIn(words, str(caught.exception))


class Lossless(Folder):
    def test_a_right_trace_passes(self):
        report = testing.assert_lossless(RIGHT, target=TARGET)
        self.assertTrue(report.passed)
        testing.assert_lossless(RIGHT.read_text().splitlines(), target=TARGET)

    def test_a_wrong_trace_is_shown_with_its_place_and_its_command(self):
        with self.assertRaises(AssertionError) as caught:
            testing.assert_lossless(WRONG, target=TARGET, tie=0.5)
        self.assertEqual(caught.exception.report.verdict, "BUG_PROVEN")
        text = str(caught.exception)
        self.assertTrue(
            text.startswith("BUG_PROVEN\n  best (sequence 0, line 5, round 3, position 14): expected"), text
        )
        command = text.splitlines()[-1].removeprefix("  repeat it: ").split()
        self.assertEqual(command[:3], ["draftproof", "trace", "check"])
        repeated = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        self.assertEqual(repeated.returncode, 1, repeated.stderr)
        self.assertIn("BUG_PROVEN", repeated.stdout)

    def test_a_writer_is_a_trace(self):
        with draftproof.TraceWriter(self.folder / "run", vocabulary=2048, rule="greedy") as trace:
            trace.sequence(prompt=[1080, 1081, 259, 541, 378, 567], temperature=0)
            trace.round(emitted=[290, 1286])
            trace.end("length")
        testing.assert_lossless(trace, target=TARGET)

    def test_what_is_undecided_fails_and_says_why(self):
        with self.assertRaises(AssertionError) as caught:
            testing.assert_lossless(RIGHT)
        self.assertIn("UNDECIDED", str(caught.exception))
        self.assertIn("not proved: ", str(caught.exception))
        testing.assert_lossless(RIGHT, accept=["UNDECIDED"])

    def test_reports_are_written(self):
        for _ in range(2):
            testing.assert_lossless(RIGHT, target=TARGET, report_folder=self.folder, name="tests/a.py::test[x y]")
        with self.assertRaises(AssertionError) as caught:
            lines = WRONG.read_text().splitlines()
            testing.assert_lossless(lines, target=TARGET, report_folder=self.folder, name="wrong")
        stem = "tests-a.py-test-x-y"
        pages = [f"{name}.{form}" for name in (stem, f"{stem}-2", "wrong") for form in ("html", "json")]
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted([*pages, "wrong.jsonl"]))
        self.assertEqual(json.loads((self.folder / "wrong.json").read_text())["verdict"], "BUG_PROVEN")
        self.assertIn(f"report: {self.folder / 'wrong.html'}", str(caught.exception))
        self.assertIn(f"draftproof trace check {self.folder / 'wrong.jsonl'}", str(caught.exception))

    def test_alpha(self):
        class Report:
            verdict = "PASS_STAT"
            findings = ()

            def __init__(self, e_value):
                self.e_value = e_value

            def json(self):
                return {"reason": "", "bets": [{"e_value": self.e_value}], "token_tests": [{"e_value": 1.0}]}

        def judge(e_value, alpha):
            with mock.patch.object(testing, "check_trace", lambda *_, **__: Report(e_value)):
                testing.assert_lossless(RIGHT, alpha=alpha)

        judge(5.9e9, 1e-9)
        judge(5.9e4, 1e-4)
        for e_value, alpha in ((6.1e4, 1e-4), ("inf", 1e-9)):
            with self.assertRaisesRegex(AssertionError, "evidence"):
                judge(e_value, alpha)
        self.expect("alpha is 0.5", judge, 1.0, 0.5)
        self.expect("alpha is 1e-12", judge, 1.0, 1e-12)

    def test_two_engines_are_compared(self):
        report = draftproof.check_trace(WRONG, target=TARGET)
        calls = []

        def compare(*arguments, **options):
            calls.append((arguments, options))
            return report

        with mock.patch.object(draftproof, "compare", compare, create=True):
            with self.assertRaisesRegex(AssertionError, "BUG_PROVEN"):
                testing.assert_lossless("plain", "speculative", target=TARGET, prompts=[[1]])
        self.assertEqual(calls, [(("plain", "speculative"), {"target": TARGET, "prompts": [[1]]})])
        with mock.patch.object(draftproof, "compare", None, create=True):
            self.expect("does not compare", testing.assert_lossless, "plain", "speculative")


class Distribution(Folder):
    @classmethod
    def setUpClass(cls):
        cls.model = draftproof.Model(TARGET)
        cls.prompt = cls.model.encode(PROMPT)

    def texts(self, count, **options):
        for seed in range(count):
            yield self.prompt, self.model.generate(self.prompt, max_new_tokens=100, seed=seed, **options).tokens

    def test_right_texts_pass(self):
        stops = [2044, 2046]
        report = testing.assert_distribution(
            self.texts(6, temperature=1.0, draft=DFLASH), target=TARGET, stop_tokens=stops, slack=0.01
        )
        self.assertEqual(report.verdict, "PASS_STAT")
        report = testing.assert_distribution(self.texts(1), target=TARGET, temperature=0, stop_tokens=stops, tie=0.01)
        self.assertEqual(report.verdict, "PASS_STAT")

    def test_texts_of_another_temperature_do_not(self):
        with self.assertRaises(AssertionError) as caught:
            testing.assert_distribution(self.texts(6, temperature=3), target=TARGET, slack=0.01)
        self.assertEqual(caught.exception.report.verdict, "BUG_STAT")
        with self.assertRaisesRegex(AssertionError, "trace check"):
            folder = self.folder
            testing.assert_distribution(self.texts(3, temperature=3), target=TARGET, report_folder=folder, slack=0.01)

    def test_a_few_tokens_are_undecided(self):
        with self.assertRaisesRegex(AssertionError, "UNDECIDED"):
            testing.assert_distribution([(self.prompt, [290])], target=TARGET, slack=0.01)

    def test_a_trace_is_taken_too(self):
        testing.assert_distribution(RIGHT, target=TARGET)

    def test_bad_input(self):
        self.expect("no token", testing.assert_distribution, [([1], [])], target=TARGET)
        self.expect("field prompt", testing.assert_distribution, [([9999], [1])], target=TARGET)


class ShippedModels(Folder):
    def test_every_form_gives_the_same_text(self):
        models = testing.Models(self.folder / "cache")
        texts = set()
        for form in (models.target, *(models.gguf(type_) for type_ in ("bf16", "f32", "f16"))):
            texts.add(draftproof.Model(form).generate(PROMPT, max_new_tokens=20).text)
        self.assertEqual(len(texts), 1)
        self.assertTrue(draftproof.Model(models.gguf("q8_0")).generate(PROMPT, max_new_tokens=20).text)
        made = models.gguf("f16", "tale-small").stat()
        self.assertEqual(models.gguf("f16", "tale-small").stat().st_mtime_ns, made.st_mtime_ns)
        self.assertEqual(len(list((self.folder / "cache").iterdir())), 5)

    def test_bad_input(self):
        models = testing.Models(self.folder)
        self.expect("there are tale-target and tale-small", models.folder, "tale-huge")
        self.expect("q2_k", models.gguf, "q2_k")


class RecordedRuns(Folder):
    def test_a_run_is_recorded_and_replayed(self):
        file = self.folder / "run.h5"
        self.assertEqual(
            fixtures.record(file, TARGET, PROMPT, reason="a test", draft=DFLASH, max_new_tokens=12, rows=True), file
        )
        again = fixtures.replay(file)
        self.assertTrue(again.equal)
        self.assertEqual(again.verdict, "equal")
        self.assertEqual(str(again), f"{file}: equal")
        changed = fixtures.replay(file, target=ROOT / "fixtures/models/tale-small", draft="none")
        self.assertFalse(changed.equal)
        self.assertEqual(changed.verdict, "different")
        self.assertIn("the first difference is rows", str(changed))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.h5"], "only the recorded pair is pending")

    def test_tokens_and_a_sampled_text(self):
        file = self.folder / "run.h5"
        fixtures.record(file, TARGET, [1080, 1081], reason="a test", temperature=0.8, seed=3, max_new_tokens=8)
        self.assertTrue(fixtures.replay(file, threads=1).equal)

    def test_bad_input(self):
        self.expect("no/such/model", fixtures.record, self.folder / "x.h5", "no/such/model", PROMPT, reason="a test")
        self.expect("no/folder", fixtures.record, self.folder / "no/folder/x.h5", TARGET, PROMPT, reason="a test")
        self.expect("x.h5", fixtures.replay, self.folder / "x.h5")
        self.expect("telepathy", fixtures.record, self.folder / "x.h5", TARGET, PROMPT, reason="r", draft="telepathy")


@unittest.skipUnless(installed("hypothesis"), "hypothesis is not installed")
class Strategies(Folder):
    def examples(self, strategy, count=300):
        """Returns examples, by a seed."""
        from hypothesis import HealthCheck, Phase, given, seed, settings

        found = []

        @seed(1)
        @settings(
            max_examples=count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=HealthCheck
        )
        @given(strategy)
        def collect(value):
            found.append(value)

        collect()
        return found

    def test_prompts(self):
        found = self.examples(strategies.prompts(10, min_size=2, max_size=12, exclude=[3, 4]))
        self.assertTrue(all(2 <= len(prompt) <= 12 for prompt in found))
        self.assertLessEqual({token for prompt in found for token in prompt}, set(range(10)) - {3, 4})
        self.assertTrue(any(len(p) >= 6 and p[: len(p) // 3] * 3 == p for p in found), "some repeat themselves")

    def test_sampling_settings_are_taken_by_a_model(self):
        model = draftproof.Model(TARGET)
        found = self.examples(strategies.sampling_settings(), 60)
        for settings in found:
            model.generate([1], max_new_tokens=1, **settings).tokens
        self.assertTrue(any(settings["temperature"] == 0 for settings in found))
        self.assertTrue(any("top_k" in settings and "top_p" not in settings for settings in found))
        warm = self.examples(strategies.sampling_settings(greedy=False), 60)
        self.assertTrue(all(settings["temperature"] > 0 for settings in warm))

    def test_pairs_are_rows_of_every_family(self):
        found = self.examples(strategies.row_pairs(4, 8), 1500)
        for p, q in found:
            for row in (p, q):
                self.assertEqual((len(row), sum(row), min(row) >= 0), (4, 8, True))
        for name, family in {
            "equal": lambda p, q: p == q,
            "disjoint": lambda p, q: not any(map(min, p, q)),
            "p is a point": lambda p, q: 8 in p and 8 not in q,
            "q is a point": lambda p, q: 8 in q and 8 not in p,
            "two points": lambda p, q: 8 in p and 8 in q and p != q,
            "a permutation": lambda p, q: p != q and sorted(p) == sorted(q) and 8 not in p,
            "a zero in p only": lambda p, q: any(a == 0 < b for a, b in zip(p, q)),
            "one unit apart": lambda p, q: sum(abs(a - b) for a, b in zip(p, q)) == 2,
            "uniform": lambda p, q: q == (2, 2, 2, 2) and p != q,
            "a single unit in the tail": lambda p, q: 1 in p and 7 in p,
        }.items():
            self.assertTrue(any(family(p, q) for p, q in found), name)

    def test_they_find_what_is_wrong_and_shrink_it(self):
        from hypothesis import given, settings

        from draftproof.exact import exact_distribution

        def sampler(p, q, draft_token, random):
            return draft_token if random.uniform() * q[draft_token] < p[draft_token] else random.choice(p)

        smallest = []

        @settings(max_examples=200, database=None, deadline=None)
        @given(strategies.row_pairs(3, 4))
        def check(pair):
            exact = exact_distribution(sampler, *pair)
            if not exact.right:
                smallest.append(exact)
            assert exact.right

        with self.assertRaises(AssertionError):
            check()
        self.assertGreater(smallest[-1].distance, 0)

    def test_bad_input(self):
        self.expect("min_size is 5", strategies.prompts, 10, min_size=5, max_size=4)
        self.expect("vocabulary is 1", strategies.row_pairs, 1, 4)
        self.expect("total 0", strategies.rows, 2, 0)


class WithoutHypothesis(unittest.TestCase):
    def test_one_sentence_says_what_is_missing(self):
        with mock.patch.dict(sys.modules, {"hypothesis": None}):
            with self.assertRaises(draftproof.Error) as caught:
                strategies.prompts(10)
        self.assertIn("pip install hypothesis", str(caught.exception))


@unittest.skipUnless(installed("pytest"), "pytest is not installed")
class Plugin(Folder):
    def run_pytest(self, text, *options):
        (self.folder / "test_engine.py").write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "pytest", "-p", "draftproof.pytest_plugin", "-q", *options, "test_engine.py"]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    def test_assertions_of_traces(self):
        status, said = self.run_pytest(
            f"""
            def test_right(assert_lossless, draftproof_models):
                assert_lossless({str(RIGHT)!r}, target=draftproof_models.target)

            def test_wrong(assert_lossless, draftproof_models):
                assert_lossless({str(WRONG)!r}, target=draftproof_models.target)

            def test_few(assert_distribution, draftproof_models):
                assert_distribution([([1, 2], [3])], target=draftproof_models.target, slack=0.01)
            """,
            "--draftproof-report=reports",
        )
        self.assertEqual(status, 1, said)
        self.assertIn("2 failed, 1 passed", said)
        for words in ("BUG_PROVEN", "expected", "repeat it: draftproof trace check", "UNDECIDED", "report: reports"):
            self.assertIn(words, said)
        written = sorted(path.name for path in (self.folder / "reports").iterdir())
        self.assertIn("test_engine.py-test_wrong.html", written)
        self.assertIn("test_engine.py-test_few.jsonl", written)

    def test_models_are_kept_in_the_cache(self):
        text = """
            def test_models(draftproof_models):
                assert (draftproof_models.small / "config.json").exists()
                assert draftproof_models.gguf("q8_0").stat().st_size > 1_000_000
            """
        for _ in range(2):
            status, said = self.run_pytest(text)
            self.assertEqual(status, 0, said)
        self.assertEqual(len(list(self.folder.glob(".pytest_cache/d/draftproof/*.gguf"))), 1)
        shutil.rmtree(self.folder / ".pytest_cache")
        self.assertEqual(self.run_pytest(text, "-p", "no:cacheprovider")[0], 0)

    def test_alpha_is_held_to_its_range(self):
        status, said = self.run_pytest(
            f"""
            def test_right(assert_lossless, draftproof_models):
                assert_lossless({str(RIGHT)!r}, target=draftproof_models.target)
            """,
            "--draftproof-alpha=0.5",
        )
        self.assertEqual(status, 1)
        self.assertIn("alpha is 0.5; give a number from 1e-09 to 0.1", said)

    def test_help_names_the_options(self):
        self.assertIn("--draftproof-report=DIR", self.run_pytest("", "--help")[1])


class Command(unittest.TestCase):
    def run_command(self, *words):
        done = subprocess.run([sys.executable, "-m", "draftproof", *words], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_the_command_is_in_the_module(self):
        status, said, _ = self.run_command("--version")
        self.assertEqual(status, 0)
        self.assertIn(draftproof.__version__, said)
        binary = os.environ.get("DRAFTPROOF_BINARY")
        for words in (["trace", "check", str(WRONG), "--target", str(TARGET)], ["frobnicate"], []):
            own = self.run_command(*words)
            if binary is not None:
                program = subprocess.run([binary, *words], capture_output=True, text=True)
                self.assertEqual(own, (program.returncode, program.stdout, program.stderr))


if __name__ == "__main__":
    unittest.main()
