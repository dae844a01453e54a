# SPDX-License-Identifier: MIT
"""mlx-lm, plain or with a draft model. It runs on Linux too, with `mlx[cpu]`."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from ..engines import Answer, Request
from ._adapter import Adapter, common_prefix, load

__all__ = ["MlxEngine"]

INSTALL = "pip install mlx-lm==0.32.2 'mlx[cpu]==0.32.4'"
WHOLE_TEXT = 1 << 30  # tokens that penalties see


class MlxEngine(Adapter):
    """`model` and `draft_model` are folders, which are loaded in float32. `generate_arguments` go to mlx-lm's
    `stream_generate`, such as `num_draft_tokens=4`. Requests are answered one after another. A session keeps the prompt
    cache as mlx-lm's server does: it holds all tokens of prompt and answer."""

    slack, tie = 1e-4, 1e-3
    supports = frozenset({"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty",
                          "frequency_penalty", "logit_bias", "stop_tokens", "logprobs", "seed", "session"})
    sampler_order = ("penalties", "top_p", "min_p", "top_k", "temperature")

    def __init__(self, model: str | PathLike[str], draft_model: str | PathLike[str] | None = None,
                 **generate_arguments: Any):
        self._mx = load("mlx.core", INSTALL)
        self._lm = load("mlx_lm", INSTALL)
        self._samplers = load("mlx_lm.sample_utils", INSTALL)
        self._caches = load("mlx_lm.models.cache", INSTALL)
        self.model, self.tokenizer = self._loaded(model)
        self.draft_model = None if draft_model is None else self._loaded(draft_model)[0]
        self._arguments = dict(generate_arguments)
        self.name = f"mlx-lm {self._lm.__version__}, " + ("plain" if draft_model is None else "draft model")
        self.vocabulary = self.model.args.vocab_size
        self._kept: dict[str, tuple[list[int], Any]] = {}

    def _loaded(self, folder: str | PathLike[str]) -> tuple[Any, Any]:
        model, tokenizer = self._lm.load(fspath(folder))
        model.set_dtype(self._mx.float32)
        return model, tokenizer

    def _generate(self, requests: list[Request]) -> list[Answer]:
        return [self._answer(request) for request in requests]

    def logits_processors(self, request: Request) -> list[Any]:
        """What changes the logits as a request asks."""
        return list(self._samplers.make_logits_processors(
            logit_bias=dict(request.logit_bias) or None,
            repetition_penalty=None if request.repeat_penalty == 1 else request.repeat_penalty,
            repetition_context_size=WHOLE_TEXT,
            presence_penalty=request.presence_penalty or None,
            presence_context_size=WHOLE_TEXT,
            frequency_penalty=request.frequency_penalty or None,
            frequency_context_size=WHOLE_TEXT,
        ))

    def _answer(self, request: Request) -> Answer:
        mx, prompt = self._mx, list(request.prompt)
        arguments = dict(
            self._arguments,
            max_tokens=request.max_new_tokens,
            sampler=self._samplers.make_sampler(request.temperature, request.top_p, request.min_p,
                                                top_k=request.top_k),
            logits_processors=self.logits_processors(request) or None,
        )
        if self.draft_model is not None:
            arguments["draft_model"] = self.draft_model
        if request.seed is not None:
            mx.random.seed(request.seed)
        unread = prompt
        if request.session:
            before, cache = self._kept.pop(request.session, ([], None))
            cache = self._new_cache() if cache is None else cache
            held = min(common_prefix(before, prompt), len(prompt) - 1)
            self._caches.trim_prompt_cache(cache, len(before) - held)
            arguments["prompt_cache"], unread = cache, prompt[held:]
        self.tokenizer.eos_token_ids = set(request.stop_tokens)
        tokens: list[int] = []
        logprobs: list[float] = []
        top: list[dict[int, float]] = []
        text, reason, accepted = "", None, 0
        for response in self._lm.stream_generate(self.model, self.tokenizer, mx.array(unread), **arguments):
            tokens.append(response.token)
            text += response.text
            reason = response.finish_reason
            accepted += response.from_draft
            if request.logprobs is not None:
                row = response.logprobs.astype(mx.float32)
                logprobs.append(row[response.token].item())
                if request.logprobs:
                    best = mx.argpartition(-row, request.logprobs - 1)[: request.logprobs].tolist()
                    top.append({token: row[token].item() for token in best})
        if request.session:
            self._kept[request.session] = (prompt + tokens, cache)
        return Answer(
            tokens,
            text,
            reason,
            logprobs=None if request.logprobs is None else logprobs,
            top_logprobs=top or None,
            accepted=None if self.draft_model is None else accepted,
        )

    def held(self, session: str) -> int:
        """How many positions the target's cache that a session keeps holds."""
        return int(self._kept[session][1][0].offset)

    def _new_cache(self) -> Any:
        cache = self._caches.make_prompt_cache(self.model)
        return cache if self.draft_model is None else cache + self._caches.make_prompt_cache(self.draft_model)
