# SPDX-License-Identifier: MIT
"""The two checkpoints beside llama.cpp, from the same files."""

import pathlib
import unittest

from llama_server import LlamaServer
from real import MODELS, ROUNDING, TEXTS, TOKENS, Server, first_difference, generate, summary, together, tokens_of

CONTEXT = 512
LONG = 8000
DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md")))


class BesideLlamaCpp(unittest.TestCase):
    def gap(self, model, prompt, ours, theirs):
        """None where the texts are equal; else by how many logits ours prefers its own token where they part."""
        place = first_difference(ours, theirs)
        if place is None:
            self.assertEqual(len(ours), len(theirs), f"{model.name}, after {prompt}")
            return None
        near = generate(model, prompt + ours[:place], 1, "--logprobs", "--top-logprobs", 20)["top_logprobs"][0]
        logprob = {entry["token"]: entry["logprob"] for entry in near}
        self.assertIn(theirs[place], logprob, f"{model.name}, token {place} of {prompt}")
        return logprob[ours[place]] - logprob[theirs[place]]

    def compare(self, model, prompts, context, count):
        expected = LlamaServer(model, context).texts(prompts, count)
        with Server(model) as server:
            answers = together(lambda prompt: server.complete(prompt, count), prompts)
        texts = zip(prompts, answers, expected, strict=True)
        parted = [(gap, *each) for each in texts if (gap := self.gap(model, *each)) is not None]
        print(f"\n  {model.name}: {summary([gap for gap, *_ in parted], len(prompts))}")
        # Both engines round, so their gaps lie within twice that of each other; llama.cpp's is at most 0 here.
        self.assertEqual([each for each in parted if each[0] > 2 * ROUNDING], [])

    def test_tokens_are_the_same(self):
        texts = [*TEXTS, "na\u00efve \u4f60\u597d \U0001f600\n\n\tx  y", " 12345 6.7e-8", "<|im_end|><eos>", PAGES]
        for model in MODELS:
            theirs = LlamaServer(model, CONTEXT)
            with Server(model) as server:
                for text in texts:
                    for more in ({}, {"parse_special": True}):
                        expected = tokens_of(theirs.url, text, **more)
                        self.assertEqual(server.tokenize(text, **more), expected, (model.name, more, text[:80]))

    def test_texts(self):
        for model in MODELS:
            with Server(model) as server:
                prompts = [server.tokenize(text) for text in TEXTS]
            self.compare(model, prompts, CONTEXT, TOKENS)

    def test_texts_behind_8000_tokens(self):
        for model in MODELS:
            with Server(model) as server:
                tokens = server.tokenize(PAGES)
            prompts = [tokens[begin : begin + LONG] for begin in (0, LONG)]
            self.compare(model, prompts, 8192, 64)


if __name__ == "__main__":
    unittest.main()
