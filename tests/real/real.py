# SPDX-License-Identifier: MIT
"""The two checkpoints, what they are asked, and the command and the server that answer."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import urllib.request
from collections.abc import Callable, Sequence

DRAFTPROOF = os.environ["DRAFTPROOF"]
FOLDER = pathlib.Path(os.environ["REAL_MODELS"])
SMOL = FOLDER / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = FOLDER / "gemma-3-270m-q4_k_m.gguf"
MODELS = (SMOL, GEMMA)

OPENINGS = ["The history of {} begins with", "My grandmother always said that {}", "A short guide to {}:\n\n1.",
            "Question: What is {}?\nAnswer:", "def about(x):\n    \"\"\"What {} is.\"\"\"", "{}, {} and",
            "In 1987, {} was", "Dear Sir or Madam, I write about {} because", "Zutaten für {}: 2 Eier,", "{} is not"]
SUBJECTS = ["the steam engine", "bread", "Paris", "rain", "chess", "a violin", "the moon", "winter", "salt", "tea",
            "mathematics", "the sea", "a garden", "friendship", "iron", "maps", "silk", "owls", "bridges", "time"]
TEXTS = [opening.replace("{}", subject) for subject in SUBJECTS for opening in OPENINGS]
TOGETHER = 8
TOKENS = 24  # of each answer
# What rounding may decide where weights are multiplied as they are stored, in logits of two tokens: activations have 8
# bits then, and the cache 16.
ROUNDING = 1.0


def run(*words) -> str:
    done = subprocess.run([DRAFTPROOF, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: exit {done.returncode}: {done.stderr}{done.stdout[-2000:]}"
    return done.stdout


def generate(model, tokens: Sequence[int], count: int, *words) -> dict:
    listed = ",".join(map(str, tokens))
    return json.loads(run("generate", model, "--quiet", "--json", "-", "--prompt-tokens", listed, "-n", count, *words))


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=1200) as answer:
        return json.load(answer)


def tokens_of(url: str, text: str, **more) -> list[int]:
    """By our server, or llama.cpp's."""
    return post(url + "/tokenize", {"content": text, "add_special": True, "parse_special": False, **more})["tokens"]


def together(ask: Callable, questions: Sequence) -> list:
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(ask, questions))


class Server:
    """`draftproof serve`. An answer does not depend on those beside it, so several are asked for at a time."""

    def __init__(self, model, *words):
        self.process = subprocess.Popen([DRAFTPROOF, "serve", str(model), "--port", "0", "--log-format", "none",
                                         "--parallel", str(TOGETHER), *words], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().removeprefix("listening on ").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def tokenize(self, text: str, **more) -> list[int]:
        return tokens_of(self.url, text, **more)

    def complete(self, tokens: Sequence[int], count: int) -> list[int]:
        """The tokens of a greedy text, with the stop token that ends it."""
        body = {"prompt": tokens, "max_tokens": count, "temperature": 0, "return_tokens": True}
        rounds = post(self.url + "/v1/completions", body)["choices"][0]["rounds"]
        return [token["id"] for each in rounds for token in each["tokens"]]

    def chat(self, messages: list[dict], **more) -> dict:
        body = {"messages": messages, "temperature": 0, "max_tokens": 48, **more}
        return post(self.url + "/v1/chat/completions", body)


def said(answer: dict) -> str:
    return answer["choices"][0]["message"]["content"]


def first_difference(some: Sequence[int], others: Sequence[int]) -> int | None:
    """Where two texts part, as far as both go; None where they do not."""
    return next((place for place, pair in enumerate(zip(some, others)) if pair[0] != pair[1]), None)


def summary(gaps: Sequence[float], texts: int) -> str:
    """Of texts that part at gaps of so many logits."""
    shown = ", ".join(f"{gap:.2g}" for gap in sorted(gaps, reverse=True)[:5])
    others = f"; the largest gaps where others part: {shown}" if gaps else ""
    return f"{texts - len(gaps)} of {texts} texts are equal{others}"
