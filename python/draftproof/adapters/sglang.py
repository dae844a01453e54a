# SPDX-License-Identifier: MIT
"""SGLang in the process (`sglang.Engine`). Written for its public interface and tested with recorded answers: it needs
a GPU."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from ..engines import Answer, Request
from ._adapter import Adapter, load

__all__ = ["SglangEngine"]

INSTALL = "pip install sglang, on a machine with a GPU"


class SglangEngine(Adapter):
    """`server_arguments` go to `sglang.Engine`, such as `speculative_algorithm="EAGLE3"`,
    `speculative_draft_model_path=...`. Requests are answered in one batch."""

    supports = frozenset({"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty",
                          "frequency_penalty", "min_tokens", "stop_tokens", "stop", "logprobs", "json_schema",
                          "grammar"})

    def __init__(self, model: str | PathLike[str], *, vocabulary: int, **server_arguments: Any):
        module = load("sglang", INSTALL)
        self._engine = module.Engine(model_path=fspath(model), **server_arguments)
        self.name = f"sglang {module.__version__}, {server_arguments.get('speculative_algorithm') or 'plain'}"
        self.vocabulary = vocabulary

    def _generate(self, requests: list[Request]) -> list[Answer]:
        outputs = self._engine.generate(
            input_ids=[list(request.prompt) for request in requests],
            sampling_params=[self._sampling(request) for request in requests],
            return_logprob=[request.logprobs is not None for request in requests],
            top_logprobs_num=[request.logprobs or 0 for request in requests],
        )
        return [self._answer(request, output) for request, output in zip(requests, outputs)]

    def _answer(self, request: Request, output: dict[str, Any]) -> Answer:
        meta = output["meta_info"]
        answer = Answer(
            list(output["output_ids"]),
            output.get("text"),
            (meta.get("finish_reason") or {}).get("type"),
            drafted=meta.get("spec_draft_token_num"),
            accepted=meta.get("spec_accept_token_num"),
        )
        if request.logprobs is not None:
            answer.logprobs = [entry[0] for entry in meta["output_token_logprobs"]]
            if request.logprobs:
                answer.top_logprobs = [{entry[1]: entry[0] for entry in row} for row in meta["output_top_logprobs"]]
        return answer

    def _sampling(self, request: Request) -> dict[str, Any]:
        sampling: dict[str, Any] = {
            "max_new_tokens": request.max_new_tokens,
            "min_new_tokens": request.min_tokens,
            "temperature": request.temperature,
            "top_k": request.top_k or -1,
            "top_p": request.top_p,
            "min_p": request.min_p,
            "repetition_penalty": request.repeat_penalty,
            "presence_penalty": request.presence_penalty,
            "frequency_penalty": request.frequency_penalty,
            "stop_token_ids": list(request.stop_tokens),
            "stop": list(request.stop) or None,
            "ignore_eos": not request.stop_tokens,
        }
        if request.json_schema:
            sampling["json_schema"] = request.json_schema
        if request.grammar:
            sampling["ebnf"] = request.grammar
        return sampling
