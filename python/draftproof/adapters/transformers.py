# SPDX-License-Identifier: MIT
"""Hugging Face transformers: assisted generation, prompt lookup, early exit, and universal speculative decoding."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any

from .._core import Error
from ..engines import Answer, Request
from ..trace import TraceWriter
from ._adapter import Adapter, common_prefix, finish_reason, load
from ._trace import asked

__all__ = ["TransformersEngine", "record"]

INSTALL = "pip install transformers==5.24.0 torch"


class TransformersEngine(Adapter):
    """`model` and `assistant_model` are loaded models, or folders, which are loaded in float32. Without an assistant
    and without `generate_arguments` such as `prompt_lookup_num_tokens=4` or `assistant_early_exit=3` this is plain
    decoding. Universal speculative decoding needs `tokenizer` and `assistant_tokenizer`. Requests are answered one
    after another, as assisted generation takes one at a time."""

    slack, tie = 1e-5, 1e-4

    def __init__(self, model: Any, assistant_model: Any = None, tokenizer: Any = None, **generate_arguments: Any):
        self._torch = load("torch", INSTALL)
        self._transformers = load("transformers", INSTALL)
        self.model = self._loaded(model)
        known = self._transformers.GenerationConfig()
        self._config = {name: value for name, value in generate_arguments.items() if hasattr(known, name)}
        self._arguments = {name: value for name, value in generate_arguments.items() if name not in self._config}
        if assistant_model is not None:
            self._arguments["assistant_model"] = self._loaded(assistant_model)
        if isinstance(tokenizer, (str, PathLike)):
            tokenizer = self._transformers.AutoTokenizer.from_pretrained(fspath(tokenizer))
        self._tokenizer = tokenizer
        how = ", ".join(sorted({**self._config, **self._arguments})) or "plain"
        self.name = f"transformers {self._transformers.__version__}, {how}"
        self.vocabulary = self.model.config.get_text_config().vocab_size
        supports = {"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "logit_bias", "banned_tokens",
                    "min_tokens", "stop_tokens", "logprobs", "seed", "session"}
        self.supports = frozenset(supports | ({"stop"} if tokenizer is not None else set()))
        self._kept: dict[str, tuple[list[int], Any]] = {}

    def _loaded(self, model: Any) -> Any:
        if not isinstance(model, (str, PathLike)):
            return model
        loader = self._transformers.AutoModelForCausalLM
        return loader.from_pretrained(fspath(model), dtype=self._torch.float32).eval()

    def _generate(self, requests: list[Request]) -> list[Answer]:
        own = self.model.generation_config
        self.model.generation_config = self._transformers.GenerationConfig()  # nothing but what a request says
        try:
            return [self._answer(request) for request in requests]
        finally:
            self.model.generation_config = own

    def _answer(self, request: Request) -> Answer:
        torch, prompt = self._torch, list(request.prompt)
        arguments = dict(
            self._arguments,
            generation_config=self._configured(request),
            attention_mask=torch.ones((1, len(prompt)), dtype=torch.long),
        )
        if self._tokenizer is not None:
            arguments["tokenizer"] = self._tokenizer
        if request.session:
            text, cache = self._kept.pop(request.session, ([], None))
            cache = self._transformers.DynamicCache() if cache is None else cache
            held = min(common_prefix(text, prompt), len(prompt) - 1, cache.get_seq_length())
            cache.crop(held - cache.get_seq_length())
            arguments["cache"] = cache
        if request.seed is not None:
            torch.manual_seed(request.seed)
        counts = _Counts()
        with torch.no_grad(), _observed(self.model, lambda *_: counts):
            result = self.model.generate(torch.tensor([prompt]), **arguments)
        text = result.sequences[0].tolist()
        tokens = text[len(prompt):]
        if request.session:
            self._kept[request.session] = (text, arguments["cache"])
        answer = Answer(tokens, finish_reason=finish_reason(request, tokens) or ("stop" if request.stop else None))
        if self._tokenizer is not None:
            answer.text = self._tokenizer.decode(tokens)
        if counts.rounds:
            answer.drafted, answer.accepted = counts.drafted, counts.accepted
        if request.logprobs is not None:
            rows = torch.log_softmax(torch.cat(result.logits).double(), dim=-1)
            answer.logprobs = [rows[i, token].item() for i, token in enumerate(tokens)]
            top = rows.topk(request.logprobs)
            answer.top_logprobs = [dict(zip(*pair)) for pair in zip(top.indices.tolist(), top.values.tolist())]
        return answer

    def _configured(self, request: Request) -> Any:
        sampled: dict[str, Any] = {"do_sample": False}
        if request.temperature > 0:
            sampled = {"do_sample": True, "temperature": request.temperature, "top_k": request.top_k,
                       "top_p": request.top_p, "min_p": request.min_p or None}
        return self._transformers.GenerationConfig(
            **self._config,
            **sampled,
            max_new_tokens=request.max_new_tokens,
            repetition_penalty=request.repeat_penalty,
            sequence_bias={(token,): float(bias) for token, bias in request.logit_bias.items()} or None,
            suppress_tokens=list(request.banned_tokens) or None,
            min_new_tokens=request.min_tokens or None,
            eos_token_id=list(request.stop_tokens) or None,
            pad_token_id=0,
            stop_strings=list(request.stop) or None,
            output_logits=request.logprobs is not None,
            return_dict_in_generate=True,
        )


class _Counts:
    """The draft tokens of one text."""

    rounds = drafted = accepted = 0

    def proposed(self, text: Any, candidates: Any, logits: Any) -> None:
        self.rounds += 1
        self.drafted += candidates.shape[1] - text.shape[1]

    def verified(self, text: Any, scores: Any, matches: int) -> None:
        self.accepted += int(matches)


@contextlib.contextmanager
def _observed(model: Any, begin: Any) -> Iterator[None]:
    """Shows every round of assisted generation to what begin(prompt, generation_config) returns."""
    make = model._get_candidate_generator

    def observed(**arguments: Any) -> Any:
        generator = make(**arguments)
        observer = begin(arguments["input_ids"], arguments["generation_config"])
        propose, update = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(text: Any, **more: Any) -> Any:
            candidates, logits = propose(text, **more)
            observer.proposed(text, candidates, logits)
            return candidates, logits

        def update_candidate_strategy(text: Any, scores: Any, matches: int) -> Any:
            observer.verified(text, scores, matches)
            return update(text, scores, matches)

        generator.get_candidates, generator.update_candidate_strategy = get_candidates, update_candidate_strategy
        return generator

    model._get_candidate_generator = observed
    try:
        yield
    finally:
        model._get_candidate_generator = make  # beside an outer observer, this is its


@contextlib.contextmanager
def record(path: str | PathLike[str], model: Any, *, rows: bool = False) -> Iterator[None]:
    """Writes a trace of every assisted generation of `model`, a loaded model or a TransformersEngine: draft tokens, and
    under rejection p, q and u of each (level T2 of docs/spectrace.md). With `rows` also whole rows of p and q, which
    take 30 bytes for each token of the vocabulary. Its last line is written when the block ends."""
    transformers = load("transformers", INSTALL)
    utils: Any = load("transformers.generation.utils", INSTALL)
    torch: Any = load("torch", INSTALL)
    model = getattr(model, "model", model) if isinstance(model, TransformersEngine) else model
    recorder = _Recorder(path, f"transformers {transformers.__version__}", model.config.get_text_config().vocab_size,
                         rows)
    generate, sample, uniform = model.generate, utils._speculative_sampling, torch.rand_like

    def observed_sample(*arguments: Any, **more: Any) -> Any:
        def rand_like(*shape: Any, **options: Any) -> Any:
            recorder.coins = uniform(*shape, **options)
            return recorder.coins

        torch.rand_like = rand_like
        try:
            tokens, recorder.matches = sample(*arguments, **more)
        finally:
            torch.rand_like = uniform
        return tokens, recorder.matches

    def observed_generate(*arguments: Any, **more: Any) -> Any:
        if recorder.generating:  # the draft of an early exit
            return generate(*arguments, **more)
        recorder.generating = True
        try:
            result = generate(*arguments, **more)
        finally:
            recorder.generating = False
        recorder.end()
        return result

    utils._speculative_sampling, model.generate = observed_sample, observed_generate
    try:
        with _observed(model, recorder.begin):
            yield
    finally:
        utils._speculative_sampling, model.generate = sample, generate
        recorder.close()


class _Recorder:
    """A trace of rounds, one sequence after another."""

    def __init__(self, path: str | PathLike[str], engine: str, vocabulary: int, rows: bool) -> None:
        self._writer = TraceWriter(path, vocabulary=vocabulary, rule="rejection", engine=engine, dtype="f32")
        self._rows = rows
        self._rule: str | None = None  # of the open sequence, known in its first round
        self.generating = False
        self.coins: Any = None
        self.matches: Any = None

    def begin(self, prompt: Any, config: Any) -> _Recorder:
        self._rule = None
        self._greedy = not config.do_sample
        self._prompt = prompt[0].tolist()
        stops = config._eos_token_tensor
        self._request = Request(
            prompt=self._prompt,
            max_new_tokens=config.max_length - len(self._prompt),
            temperature=0.0 if self._greedy else config.temperature or 1.0,
            top_k=config.top_k or 0,
            top_p=1.0 if config.top_p is None else config.top_p,
            min_p=config.min_p or 0.0,
            repeat_penalty=config.repetition_penalty or 1.0,
            logit_bias={ids[0]: bias for ids, bias in dict(config.sequence_bias or {}).items()},
            banned_tokens=config.suppress_tokens or (),
            min_tokens=config.min_new_tokens or 0,
            stop_tokens=[] if stops is None else stops.tolist(),
            stop=config.stop_strings or (),
        )
        self._text = list(self._prompt)
        return self

    def proposed(self, text: Any, candidates: Any, logits: Any) -> None:
        self._draft = candidates[0, text.shape[1]:].tolist()
        self._q = logits
        if self._rule is None:
            self._rule = "greedy" if self._greedy else "matching" if logits is None else "rejection"
            self._writer.sequence(prompt=self._prompt, rule=self._rule, **asked(self._request))

    def verified(self, text: Any, scores: Any, matches: int) -> None:
        position, draft = len(self._text), self._draft
        self._text = text[0].tolist()
        emitted = self._text[position:]
        fields: dict[str, Any] = {}
        if self._rule == "rejection" and draft and self._q is not None:
            accepted = int(self.matches)
            p, q = scores[0].softmax(dim=-1), self._q[0].softmax(dim=-1)
            verified = min(accepted + 1, len(draft))
            fields = {
                "p_draft": [p[i, draft[i]].item() for i in range(verified)],
                "q_draft": [q[i, draft[i]].item() for i in range(verified)],
                "accept_u": self.coins.reshape(-1)[:verified],
            }
            if self._rows:
                fields.update(p_rows=list(p[: accepted + 1]), q_rows=list(q[:verified]))
        else:
            accepted = next((i for i, pair in enumerate(zip(draft, emitted)) if pair[0] != pair[1]),
                            min(len(draft), len(emitted)))
            if accepted == len(emitted):  # the text ended with a draft token
                draft = draft[:accepted]
        others = {"greedy": "greedy", "matching": "target", "rejection": "residual"}
        next_from = "bonus" if accepted == len(draft) and self._rule != "greedy" else others[str(self._rule)]
        self._writer.round(emitted=emitted, draft_tokens=draft, accepted=accepted, next_from=next_from, **fields)

    def end(self) -> None:
        if self._rule is None:
            raise Error("a plain generation has no draft tokens to record; give it an assistant_model or another "
                        "draft, or check its tokens with draftproof.adapters.check")
        tokens = self._text[len(self._prompt):]
        self._writer.end(finish_reason(self._request, tokens) or "other:stopping_criteria")
        self._rule = None

    def close(self) -> None:
        self._writer.close()
