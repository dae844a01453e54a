# SPDX-License-Identifier: MIT
"""TensorRT-LLM's LLM API. Written for its public interface and tested with recorded answers: it needs a GPU."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from ..engines import Answer, Request
from ._adapter import Adapter, load

__all__ = ["TensorRtEngine"]

INSTALL = "pip install tensorrt_llm, on a machine with a GPU"


class TensorRtEngine(Adapter):
    """`engine_arguments` go to `tensorrt_llm.LLM`, such as a `speculative_config`. Requests are answered in one
    batch."""

    supports = frozenset({"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty",
                          "frequency_penalty", "min_tokens", "stop_tokens", "stop", "logprobs", "seed"})

    def __init__(self, model: str | PathLike[str], *, vocabulary: int, **engine_arguments: Any):
        self._module = load("tensorrt_llm", INSTALL)
        self._llm = self._module.LLM(fspath(model), **engine_arguments)
        how = type(engine_arguments["speculative_config"]).__name__ if "speculative_config" in engine_arguments else ""
        self.name = f"tensorrt-llm {self._module.__version__}, {how or 'plain'}"
        self.vocabulary = vocabulary

    def _generate(self, requests: list[Request]) -> list[Answer]:
        outputs = self._llm.generate([list(request.prompt) for request in requests],
                                     [self._sampling(request) for request in requests])
        return [self._answer(request, output.outputs[0]) for request, output in zip(requests, outputs)]

    def _answer(self, request: Request, completion: Any) -> Answer:
        tokens = list(completion.token_ids)
        answer = Answer(tokens, completion.text, completion.finish_reason)
        if request.logprobs is not None:
            answer.logprobs = [row[token].logprob for token, row in zip(tokens, completion.logprobs)]
            if request.logprobs:
                answer.top_logprobs = [{token: entry.logprob for token, entry in row.items()}
                                       for row in completion.logprobs]
        return answer

    def _sampling(self, request: Request) -> Any:
        return self._module.SamplingParams(
            end_id=-1,  # stop_tokens say what ends the text
            max_tokens=request.max_new_tokens,
            min_tokens=request.min_tokens or None,
            temperature=request.temperature,
            top_k=1 if request.temperature == 0 else request.top_k or None,
            top_p=request.top_p,
            min_p=request.min_p or None,
            repetition_penalty=request.repeat_penalty,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            stop_token_ids=list(request.stop_tokens) or None,
            stop=list(request.stop) or None,
            logprobs=None if request.logprobs is None else max(request.logprobs, 1),
            seed=request.seed,
        )
