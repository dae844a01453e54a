# SPDX-License-Identifier: MIT
"""The two checkpoints beside transformers, which unpacks their weights and computes in float32."""

import json
import pathlib
import tempfile
import unittest

import torch
import transformers
from llama_server import LlamaServer
from real import FOLDER, MODELS, ROUNDING, SMOL, TEXTS, TOKENS, Server, first_difference, said, summary, together
from safetensors.torch import save_file

ROUNDING_OF_FLOATS = 1e-3  # where only the order of sums differs, in logits

CHATS = [
    [{"role": "user", "content": "What is salt?"}],
    [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": "What is salt?"},
     {"role": "assistant", "content": "A mineral."}, {"role": "user", "content": "And sugar?"}],
    [{"role": "user", "content": "  Zucker \u2013 \u7cd6 \U0001f36c?\n\n"}],
    [{"role": "user", "content": "One"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "Two"}],
]

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


class BesideTransformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = {m: transformers.AutoTokenizer.from_pretrained(FOLDER, gguf_file=m.name) for m in MODELS}
        cls.reference = {m: transformers.AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=m.name,
                                                                              dtype=torch.float32) for m in MODELS}

    def prompts(self, model):
        with Server(model) as server:
            return [server.tokenize(text) for text in TEXTS]

    def stops(self, model):
        named = self.reference[model].generation_config.eos_token_id
        return {*(named if isinstance(named, list) else [named]), self.tokenizer[model].eos_token_id}

    def texts(self, model, prompts, *options):
        with Server(model, *options) as server:
            return together(lambda prompt: server.complete(prompt, TOKENS), prompts)

    def compare(self, model, whose, prompts, answers, bound):
        """How many are transformers' texts. Others part where its row prefers another token: by so many logits."""
        gaps = []
        for prompt, answer in zip(prompts, answers, strict=True):
            ends = answer and answer[-1] in self.stops(model)
            self.assertTrue(ends or len(answer) == TOKENS, f"{model.name}, {whose}: {answer} follows {prompt}")
            with torch.no_grad():
                rows = self.reference[model](torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
            place = first_difference(answer, rows.argmax(1).tolist())
            if place is not None:
                gaps.append(float(rows[place].max() - rows[place][answer[place]]))
        print(f"\n  {model.name}, {whose}: {summary(gaps, len(prompts))}")
        self.assertLessEqual(max(gaps, default=0), bound)
        return len(prompts) - len(gaps)

    def test_texts_as_stored(self):
        for model in MODELS:
            prompts = self.prompts(model)
            ours = self.compare(model, "ours", prompts, self.texts(model, prompts), ROUNDING)
            answers = LlamaServer(model, 512).texts(prompts, TOKENS)
            theirs = self.compare(model, "llama.cpp's", prompts, answers, ROUNDING)
            # We round no more than llama.cpp: within three standard deviations of the difference of two such counts.
            share = (ours + theirs) / (2 * len(prompts))
            self.assertGreaterEqual(ours, theirs - 3 * (2 * len(prompts) * share * (1 - share)) ** 0.5)

    def test_texts_of_the_unpacked_weights(self):
        for model in MODELS:
            with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                weights = {name: value for name, value in self.reference[model].state_dict().items()
                           if name != "lm_head.weight"}  # the embedding once more
                save_file(weights, f"{folder}/model.safetensors")
                config = self.reference[model].config.to_dict()
                config.pop("quantization_config", None)
                pathlib.Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
                self.tokenizer[model].save_pretrained(folder)  # which a server needs
                prompts = self.prompts(model)
                answers = self.texts(folder, prompts, "--kv", "f32")
                self.compare(model, "unpacked", prompts, answers, ROUNDING_OF_FLOATS)

    def test_chats_are_laid_out_as_the_template_says(self):
        with Server(SMOL) as server:
            for messages in CHATS:
                laid_out = self.tokenizer[SMOL].apply_chat_template(messages, add_generation_prompt=True,
                                                                    tokenize=False)
                prompt = server.tokenize(laid_out, parse_special=True)
                answer = server.chat(messages)
                self.assertEqual(answer["usage"]["prompt_tokens"], len(prompt), messages)
                expected = server.complete(prompt, 48)
                self.assertEqual(said(answer), self.tokenizer[SMOL].decode(expected, skip_special_tokens=True))


if __name__ == "__main__":
    unittest.main()
