# SPDX-License-Identifier: MIT
"""The two checkpoints without any other engine: drafts, chats, schemas, long texts, memory."""

import json
import os
import pathlib
import subprocess
import time
import unittest

from real import DRAFTPROOF, GEMMA, MODELS, SMOL, SUBJECTS, Server, generate, run, said, together

# Texts after which every draft is right and wrong some time.
MONTHS = "January has 31 days. February has 28 days. March has 31 days. April has 30 days. " * 2 + "May has"
NUMBERS = ("One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, "
           "sixteen. ") * 3 + "One, two,"
DRAFTS = ["self", "suffix", "ngram-simple", "ngram-map-k", "ngram-mod", "ngram-cache", "suffix+self"]


def measured(*words) -> tuple[int, float]:
    """The peak of resident memory in bytes, and seconds."""
    began = time.monotonic()
    with subprocess.Popen([DRAFTPROOF, *map(str, words)], stdout=subprocess.DEVNULL) as process:
        _, process.returncode, usage = os.wait4(process.pid, 0)
    assert process.returncode == 0, words
    return usage.ru_maxrss * 1024, time.monotonic() - began


class Speculation(unittest.TestCase):
    def verify(self, model, prompt, *words):
        report = json.loads(run("verify", model, "--effort", "quick", "--quiet", "--json", "-", "--prompt", prompt,
                                *words))
        self.assertEqual(report["verdict"], "PASS_EXACT", json.dumps(report["checks"]))
        for draft in report["drafts"]:
            print(f"\n  {model.name}, {draft['name']}: {draft['tokens_per_round']:.2f} tokens per round", end="")
            self.assertGreater(draft["accepted"], 0, draft["name"])
        print()

    def test_every_kind_of_draft(self):
        for model in MODELS:
            self.verify(model, MONTHS, "-n", "48", "--draft", *DRAFTS)
            self.verify(model, NUMBERS, "-n", "32", "--draft", "ngram-map-k4v")

    def test_a_draft_with_another_tokenizer(self):
        self.verify(GEMMA, MONTHS, "-n", "32", "--draft", f"model:{SMOL}?translate=1")

    def test_eight_sequences(self):
        self.verify(SMOL, MONTHS, "-n", "48", "--draft", "suffix", "--sequences", "8")


class Chats(unittest.TestCase):
    def test_a_conversation_is_the_same_with_a_draft(self):
        conversations = []
        for draft in ("none", "suffix", "self"):
            messages = []
            with Server(SMOL, "--draft", draft) as server:
                for question in ("Name three colors.", "Which of them is the sky's?", "Say that again, please."):
                    messages.append({"role": "user", "content": question})
                    messages.append({"role": "assistant", "content": said(server.chat(messages))})
            conversations.append(messages)
        print("\n  " + " / ".join(message["content"] for message in conversations[0]))
        self.assertTrue(all(message["content"] for message in conversations[0]))
        self.assertEqual(conversations[1:], conversations[:1] * 2)

    def test_eight_at_a_time_answer_as_one_alone(self):
        questions = [[{"role": "user", "content": f"Write a sentence about {subject}."}] for subject in SUBJECTS[:8]]
        with Server(SMOL, "--draft", "suffix") as server:
            alone = [said(server.chat(question)) for question in questions]
            self.assertEqual([said(answer) for answer in together(server.chat, questions)], alone)

    def test_answers_follow_a_schema(self):
        kinds = {"city": "string", "people": "integer", "coastal": "boolean"}
        schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in kinds.items()},
                  "required": list(kinds), "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}
        texts = []
        for draft in ("none", "suffix"):
            with Server(SMOL, "--draft", draft) as server:
                question = [{"role": "user", "content": "Describe Lisbon."}]
                texts.append(said(server.chat(question, response_format=form, max_tokens=200)))
        print(f"\n  {texts[0]}")
        self.assertEqual(texts[1], texts[0])
        types = {key: type(value) for key, value in json.loads(texts[0]).items()}
        self.assertEqual(types, {"city": str, "people": int, "coastal": bool})


class Sizes(unittest.TestCase):
    def test_memory_is_what_inspect_counts(self):
        for model in MODELS:
            for positions in (1008, 8000):
                tokens = ",".join(str(100 + i % 900) for i in range(positions - 8))
                peak, _ = measured("generate", model, "--prompt-tokens", tokens, "-n", "8", "-t", "1", "--quiet")
                counted = json.loads(run("inspect", model, "--json", "--context", positions))["memory_bytes"]
                need = counted["total"] + counted["process"]
                print(f"\n  {model.name}, {positions} positions: {need / 1e6:.1f} MB counted, "
                      f"{peak / 1e6:.1f} MB at the peak")
                self.assertLess(abs(peak - need), 0.03 * need)

    def test_loading_takes_seconds(self):
        for model in MODELS:
            brief = ("generate", model, "--prompt-tokens", "1,2,3", "-n", "1", "--quiet")
            seconds = min(measured(*brief)[1] for _ in range(3))
            print(f"\n  {model.name}: {seconds:.2f} s to load and to write a token")
            self.assertLess(seconds, 10)

    def test_a_long_text_is_the_same_with_a_draft(self):
        page = pathlib.Path(__file__).parents[2] / "docs/cli.md"
        for model in MODELS:
            with Server(model) as server:
                tokens = server.tokenize(page.read_text(encoding="utf-8") * 2)[:7900]
            plain = generate(model, tokens, 100)["tokens"]
            drafted = generate(model, tokens, 100, "--draft", "suffix")
            self.assertEqual(drafted["tokens"], plain)
            print(f"\n  {model.name}: {len(plain)} tokens behind {len(tokens)}, "
                  f"{drafted['statistics']['tokens_per_round']:.2f} tokens per round")


if __name__ == "__main__":
    unittest.main()
