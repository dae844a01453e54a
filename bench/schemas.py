# SPDX-License-Identifier: MIT
"""JSON schemas as grammars here and in other programs, on the documents of MaskBench.

    python3 bench/schemas.py --masks schema_masks --vocabulary FILE --data FOLDER [--schemas N] [--peers NAMES]

FOLDER is maskbench/data of github.com/guidance-ai/jsonschemabench; bench/schema_masks.cpp says how `schema_masks` is
built. N schemas are drawn by a fixed seed (0: all). Peers are llguidance, xgrammar and outlines, from PyPI, each as it
is without options; they get our tokens of every document. Times are of the processor: a compilation, and each mask.
`passing` are schemas whose documents are all judged rightly. A peer gets `--limit` seconds for a schema.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import time


def percentile(values, part):
    return values[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


def report(name, rows):
    accepted = [row for row in rows if "compile_us" in row]
    tests = [test for row in accepted for test in row["tests"]]
    masks = sorted(time for test in tests for time in test["masks_us"])
    compiled = sorted(row["compile_us"] / 1e3 for row in accepted)
    right = [row for row in accepted if all(test["valid"] == test["accepted"] for test in row["tests"])]
    refused = sum(test["valid"] and not test["accepted"] for test in tests)
    wrong = sum(test["accepted"] and not test["valid"] for test in tests)
    times = [percentile(masks, part) for part in (0.5, 0.9, 0.99)]
    print(
        f"| {name} | {len(rows)} | {len(accepted)} | {len(right)} | {refused} of {sum(test['valid'] for test in tests)} | "
        f"{wrong} of {sum(not test['valid'] for test in tests)} | {percentile(compiled, 0.5):.2f} | "
        f"{percentile(compiled, 0.99):.0f} | {sum(masks) / max(1, len(masks)):.0f} | "
        + " | ".join(f"{value:.0f}" for value in times)
        + " |",
        flush=True,
    )


def ours(options, files):
    lines = subprocess.run([options.masks, options.vocabulary, *files], check=True, capture_output=True).stdout
    head, *rows = [json.loads(line) for line in lines.splitlines()]
    return [bytes.fromhex(token) for token in head["vocabulary"]], head["stop"], rows


LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer_json(vocabulary):
    """tokenizer.json of a GGUF file of Llama 3: llguidance asks how forced text is tokenized."""
    import gguf
    import tokenizers

    fields = gguf.GGUFReader(vocabulary).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    normal = {token: i for i, token in enumerate(tokens) if types[i] == gguf.TokenType.NORMAL}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(normal, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(LLAMA_3), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([token for i, token in enumerate(tokens) if types[i] != gguf.TokenType.NORMAL])
    return tokenizer.to_str()


class Llguidance:
    def __init__(self, tokens, stop, vocabulary):
        import llguidance
        import llguidance.numpy

        self.package = llguidance
        self.tokenizer = llguidance.LLTokenizer(tokenizer_json(vocabulary), n_vocab=len(tokens), eos_token=stop)
        self.mask = llguidance.numpy.allocate_token_bitmask(1, len(tokens))

    def compile(self, schema):
        self.grammar = self.package.LLMatcher.grammar_from_json_schema(schema)
        matcher = self.package.LLMatcher(self.tokenizer, self.grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())

    def begin(self):
        self.matcher = self.package.LLMatcher(self.tokenizer, self.grammar)

    def fill(self):
        self.package.numpy.fill_next_token_bitmask(self.matcher, self.mask)

    def allows(self, token):
        return self.mask[0, token // 32] >> (token % 32) & 1

    def consume(self, token):
        self.matcher.consume_token(token)


class Xgrammar:
    def __init__(self, tokens, stop, _):
        import xgrammar

        self.package = xgrammar
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[stop])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.mask = xgrammar.allocate_token_bitmask(1, len(tokens))

    def compile(self, schema):
        self.grammar = self.compiler.compile_json_schema(schema)

    def begin(self):
        self.matcher = self.package.GrammarMatcher(self.grammar)

    def fill(self):
        self.matcher.fill_next_token_bitmask(self.mask)

    def allows(self, token):
        return int(self.mask[0, token // 32]) >> (token % 32) & 1

    def consume(self, token):
        self.matcher.accept_token(token)


class Outlines:
    def __init__(self, tokens, stop, _):
        import outlines_core

        self.package = outlines_core
        ids = {}
        for i, token in enumerate(tokens):
            if token and i != stop:
                ids.setdefault(token, []).append(i)
        self.vocabulary = outlines_core.Vocabulary(stop, ids)

    def compile(self, schema):
        from outlines_core.json_schema import build_regex_from_schema

        self.index = self.package.Index(build_regex_from_schema(schema), self.vocabulary)

    def begin(self):
        self.guide = self.package.Guide(self.index)

    def fill(self):
        self.allowed = self.guide.get_tokens()

    def allows(self, token):
        return token in self.allowed

    def consume(self, token):
        self.guide.advance(token, return_tokens=False)


PEERS = {"llguidance": Llguidance, "xgrammar": Xgrammar, "outlines": Outlines}


def answer(peer, row, stop):
    schema = json.dumps(json.loads(pathlib.Path(row["file"]).read_text(encoding="utf-8"))["schema"])
    result = {"tests": []}
    begin = time.thread_time()
    try:
        peer.compile(schema)
    except Exception as error:  # noqa: BLE001
        return {"error": str(error)[:200], "tests": []}
    result["compile_us"] = (time.thread_time() - begin) * 1e6
    for test in row["tests"]:
        peer.begin()
        times = []
        accepted = True
        for token in [*test["tokens"], stop]:
            begin = time.thread_time()
            peer.fill()
            times.append((time.thread_time() - begin) * 1e6)
            accepted = bool(peer.allows(token))
            if not accepted or token == stop:
                break
            peer.consume(token)
        result["tests"].append({"valid": test["valid"], "accepted": accepted, "masks_us": times})
    return result


def in_child(peer, row, stop, limit):
    """One schema in a process of its own, which may crash, hang or grow."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        try:
            text = json.dumps(answer(peer, row, stop))
        except BaseException as error:  # noqa: BLE001
            text = json.dumps({"error": repr(error)[:200], "tests": []})
        with os.fdopen(write, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer_of_child:
        text = answer_of_child.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "it ended before its answer", "tests": []}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--masks", required=True)
    parser.add_argument("--vocabulary", required=True, help="a GGUF file with the vocabulary of Llama 3")
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--schemas", type=int, default=400)
    parser.add_argument("--peers", default="llguidance,xgrammar,outlines")
    parser.add_argument("--limit", type=int, default=30)
    options = parser.parse_args()
    files = sorted(map(str, options.data.glob("*.json")))
    if options.schemas:
        files = random.Random(1).sample(files, min(options.schemas, len(files)))
    tokens, stop, rows = ours(options, files)
    print("| | schemas | accepted | passing | valid refused | invalid accepted | compile ms | p99 | mask us | p50 | p90 | p99 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    report("draftproof", rows)
    for name in options.peers.split(","):
        if name:
            peer = PEERS[name](tokens, stop, options.vocabulary)
            report(name, [in_child(peer, row, stop, options.limit) for row in rows if "failure" not in row])


if __name__ == "__main__":
    main()
