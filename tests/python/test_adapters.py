# SPDX-License-Identifier: MIT
"""The adapters without an engine: what they share, and those of engines that need a GPU on recorded answers."""

import importlib
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import types
import unittest

import draftproof
from draftproof import adapters
from draftproof.adapters._adapter import Adapter
from draftproof.engines import Answer, Request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "fixtures/models/tale-target"
RECORDED = pathlib.Path(__file__).resolve().parent / "recorded"
PROMPTS = ("Once upon a time, there was a", "The little dog")
STOPS = (2044, 2046)


class OwnEngine(Adapter):
    """Our own engine as one of somebody else's, which may say each token twice."""

    name = "our own"
    supports = frozenset({"temperature", "stop_tokens", "seed"})
    vocabulary = 2048

    def __init__(self, double=False):
        self.model = draftproof.Model(TARGET)
        self.double = double

    def _generate(self, requests):
        answers = []
        for request in requests:
            text = self.model.generate(request.prompt, max_new_tokens=request.max_new_tokens)
            tokens = [token for token in text.tokens for _ in range(1 + self.double)][: request.max_new_tokens]
            answers.append(Answer(tokens, text.text, text.finish_reason))
        return answers


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = OwnEngine()

    def refused(self, words, request):
        with self.assertRaises(draftproof.Error) as caught:
            self.engine.generate([request])
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_what_an_engine_does_not_take_is_refused_by_name(self):
        self.refused("does not take top_k, which is 5 here", Request([1], top_k=5))
        self.refused("does not take logprobs, which is 0 here", Request([1], logprobs=0))
        self.refused("does not take stop, which is ('x',) here", Request([1], stop=("x",)))
        self.refused("does not take session", Request([1], session="a"))
        self.refused("does not take logit_bias", Request([1], logit_bias={1: 2.0}))

    def test_an_empty_list_asks_for_nothing(self):
        asked = Request([1], max_new_tokens=2, stop=[], banned_tokens=[], logit_bias={}, grammar="")
        self.assertEqual(len(self.engine.generate([asked])[0].tokens), 2)

    def test_prompts_that_no_engine_reads(self):
        self.refused("the prompt is empty", Request([]))
        self.refused("token 2048 is not in the vocabulary of 2048", Request([1, 2048]))


class Checks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        encode = draftproof.Model(TARGET).encode
        cls.asked = [Request(encode(text), 24, stop_tokens=STOPS) for text in PROMPTS]

    def test_a_right_engine_passes(self):
        report = adapters.check(OwnEngine(), self.asked, target=TARGET, reference="own")
        self.assertEqual(report.verdict, "PASS_STAT")

    def test_an_engine_that_says_tokens_twice_does_not(self):
        report = adapters.check(OwnEngine(double=True), self.asked, target=TARGET, tie=0.1)
        self.assertEqual(report.verdict, "BUG_PROVEN")

    def test_answers_may_not_be_lost(self):
        engine = OwnEngine()
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(draftproof.Error) as caught:
            adapters.write_trace(f"{folder}/t.jsonl", engine, self.asked, engine.generate(self.asked[:1]))
        self.assertIn("1 answers to 2 requests", str(caught.exception))


class Traces(unittest.TestCase):
    def written(self, request, answer):
        engine = types.SimpleNamespace(name="an engine", vocabulary=100, supports=(), sampler_order=("top_k",))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.jsonl")
            adapters.write_trace(path, engine, [request], [answer])
            draftproof.check_trace(path)  # that every field is one of the page
            return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]

    def test_the_fields_of_a_request(self):
        request = Request([1, 2], 5, 0.5, top_k=3, top_p=0.5, min_p=0.25, repeat_penalty=2.0, presence_penalty=1.0,
                          frequency_penalty=1.0, logit_bias={7: -1.0}, banned_tokens=[8], min_tokens=1,
                          stop_tokens=[9], stop=["end"])
        _, sequence, line, end = self.written(request, Answer([3, 9], finish_reason="stop", logprobs=[-0.5, -1.0]))
        self.assertEqual(sequence, {
            "type": "sequence", "sequence": 0, "prompt": [1, 2], "rule": "rejection",
            "temperature": "0x1p-1", "max_new_tokens": 5, "stop_tokens": [9], "top_k": 3, "top_p": "0x1p-1",
            "min_p": "0x1p-2", "repeat_penalty": "0x1p+1", "repeat_last_n": -1,
            "logit_bias": {"7": "-0x1p+0"}, "stop_strings": ["end"], "sampler_order": ["top_k"],
            "adjustments": ["bans", "min_tokens", "presence_penalty", "frequency_penalty"],
        })
        self.assertEqual(line["emitted"], [3, 9])
        self.assertEqual(line["logprobs"], ["-0x1p-1", "-0x1p+0"])
        self.assertEqual((end["reason"], end["emitted_count"]), ("stop", 2))

    def test_the_end_of_a_text(self):
        def reason(tokens, says):
            return self.written(Request([1], 3, stop_tokens=[9]), Answer(tokens, finish_reason=says))[-1]["reason"]

        self.assertEqual(reason([2, 9], "stop"), "stop")
        self.assertEqual(reason([2, 3, 4], "length"), "length")
        self.assertEqual(reason([2], "stop"), "other:stop")  # a stop string, or a stop token that it leaves out
        self.assertEqual(reason([2], None), "other:unknown")


class Documentation(unittest.TestCase):
    def test_the_ten_lines_of_the_pages_are_the_example(self):
        example = (ROOT / "python/examples/ten_lines.py").read_text(encoding="utf-8")
        for name in ("README.md", "docs/engines.md"):
            page = (ROOT / name).read_text(encoding="utf-8")
            lines = page.split("```python\n")[1].split("```")[0]
            self.assertTrue(example.endswith('"""\n' + lines), name)
            self.assertEqual(sum(bool(line) for line in lines.splitlines()), 10)

    def test_findings_name_scripts_that_exist(self):
        page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
        named = set(re.findall(r"`(\w+\.py)`", page))
        there = {path.name for path in (ROOT / "python/examples").glob("*.py")}
        self.assertEqual(there - {"common.py", "ten_lines.py"}, named)


class Missing(unittest.TestCase):
    def test_an_engine_that_is_not_installed_is_named_with_its_package(self):
        for module, engine, package in (
            ("transformers", "TransformersEngine", "pip install transformers"),
            ("vllm", "VllmEngine", "pip install vllm"),
            ("mlx_lm", "MlxEngine", "pip install mlx-lm"),
            ("openvino_genai", "OpenVinoEngine", "pip install openvino-genai"),
            ("sglang", "SglangEngine", "pip install sglang"),
            ("tensorrt_llm", "TensorRtEngine", "pip install tensorrt_llm"),
        ):
            if importlib.util.find_spec(module) is not None:
                continue
            made = getattr(importlib.import_module(f"draftproof.adapters.{module}"), engine)
            more = {"vocabulary": 10} if module in ("sglang", "tensorrt_llm") else {}
            with self.assertRaises(draftproof.Error) as caught:
                made(TARGET, **more)
            self.assertIn(package, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))


class Recorded(unittest.TestCase):
    """Engines that need a GPU: their public interface, and answers in the form that it documents."""

    asked = (Request([1, 2], 8, 0.5, top_k=4, stop_tokens=[2044], logprobs=2), Request([3], 2))

    def play(self, module):
        self.addCleanup(sys.modules.pop, module.__name__, None)
        sys.modules[module.__name__] = module

    def expect(self, answers):
        first, second = answers
        self.assertEqual(first.tokens, [290, 1286, 2044])
        self.assertEqual(first.text, " who had")
        self.assertEqual(first.finish_reason, "stop")
        self.assertEqual(first.logprobs, [-0.25, -3.5, -0.125])
        self.assertEqual(first.top_logprobs[0], {290: -0.25, 13: -2.0})
        self.assertEqual(second.tokens, [259, 912])
        self.assertEqual(second.finish_reason, "length")
        self.assertIsNone(second.logprobs)

    def test_sglang(self):
        outputs, got = json.loads((RECORDED / "sglang.json").read_text()), {}

        class Engine:
            def __init__(self, **arguments):
                got["engine"] = arguments

            def generate(self, **arguments):
                got["generate"] = arguments
                return outputs

        module = types.ModuleType("sglang")
        module.Engine, module.__version__ = Engine, "0.5"
        self.play(module)
        from draftproof.adapters.sglang import SglangEngine

        engine = SglangEngine("MODEL", vocabulary=2048, speculative_algorithm="EAGLE3")
        answers = engine.generate(self.asked)
        self.expect(answers)
        self.assertEqual((answers[0].drafted, answers[0].accepted), (6, 1))
        self.assertIsNone(answers[1].drafted)
        self.assertEqual(engine.name, "sglang 0.5, EAGLE3")
        self.assertEqual(got["engine"], {"model_path": "MODEL", "speculative_algorithm": "EAGLE3"})
        self.assertEqual(got["generate"]["input_ids"], [[1, 2], [3]])
        self.assertEqual(got["generate"]["return_logprob"], [True, False])
        self.assertEqual(got["generate"]["sampling_params"][0]["top_k"], 4)
        self.assertTrue(got["generate"]["sampling_params"][1]["ignore_eos"])

    def test_tensorrt_llm(self):
        got = {}

        def completion(recorded):
            rows = recorded["logprobs"]
            if rows is not None:
                recorded["logprobs"] = [{int(t): types.SimpleNamespace(**e) for t, e in row.items()} for row in rows]
            return types.SimpleNamespace(outputs=[types.SimpleNamespace(**recorded)])

        class LLM:
            def __init__(self, model, **arguments):
                got["llm"] = (model, arguments)

            def generate(self, prompts, sampling):
                got["prompts"], got["sampling"] = prompts, sampling
                return [completion(one) for one in json.loads((RECORDED / "tensorrt_llm.json").read_text())]

        module = types.ModuleType("tensorrt_llm")
        module.LLM, module.SamplingParams, module.__version__ = LLM, types.SimpleNamespace, "1.4"
        self.play(module)
        from draftproof.adapters.tensorrt_llm import TensorRtEngine

        engine = TensorRtEngine("MODEL", vocabulary=2048)
        self.expect(engine.generate(self.asked))
        self.assertEqual(engine.name, "tensorrt-llm 1.4, plain")
        self.assertEqual(got["prompts"], [[1, 2], [3]])
        self.assertEqual(got["sampling"][0].stop_token_ids, [2044])
        self.assertEqual(got["sampling"][1].top_k, 1)  # greedy


if __name__ == "__main__":
    unittest.main()
