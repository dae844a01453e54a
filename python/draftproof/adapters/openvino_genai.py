# SPDX-License-Identifier: MIT
"""openvino-genai on a CPU: plain, with a draft model, or with prompt lookup."""

from __future__ import annotations

import pathlib
from os import PathLike
from typing import Any

from .._core import Error
from ..engines import Answer, Request
from ._adapter import Adapter, load

__all__ = ["OpenVinoEngine"]

INSTALL = "pip install openvino-genai==2026.4.1"
FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


class OpenVinoEngine(Adapter):
    """`model` and `draft_model` are folders with openvino_model.xml, or .gguf files (f16, each in a folder of its own,
    where openvino-genai then writes such a model). `generation_arguments` are fields of its GenerationConfig:
    `num_assistant_tokens` of a draft model (4 when left out), and `max_ngram_size` where `prompt_lookup` is True (then
    2). Requests are answered in one batch. `scores` has the engine's own score of each text of the last call."""

    slack, tie = 1e-3, 1e-2
    supports = frozenset({"temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty",
                          "frequency_penalty", "min_tokens", "stop_tokens", "stop", "logprobs", "json_schema", "seed"})

    def __init__(self, model: str | PathLike[str], draft_model: str | PathLike[str] | None = None, *,
                 prompt_lookup: bool = False, prefix_caching: bool = False, **generation_arguments: Any):
        self._genai = load("openvino_genai", INSTALL)
        self._openvino = load("openvino", INSTALL)
        self._numpy = load("numpy", "pip install numpy")
        properties: dict[str, Any] = dict(FLOAT32)
        self._arguments: dict[str, Any] = {}
        how = "plain"
        if draft_model is not None:
            properties["draft_model"] = self._genai.draft_model(self._folder(draft_model), "CPU", **FLOAT32)
            self._arguments["num_assistant_tokens"] = 4
            how = "draft model"
        elif prompt_lookup:
            properties["prompt_lookup"] = True
            self._arguments.update(num_assistant_tokens=4, max_ngram_size=2)
            how = "prompt lookup"
        self._arguments.update(generation_arguments)
        scheduler = self._genai.SchedulerConfig()
        scheduler.enable_prefix_caching = prefix_caching
        scheduler.cache_size = 1  # GB
        self._pipeline = self._genai.ContinuousBatchingPipeline(self._folder(model), scheduler, "CPU", properties)
        self.vocabulary = len(self._pipeline.get_tokenizer().get_vocab())
        self.name = f"openvino-genai {self._genai.__version__}, {how}"
        self.scores: list[float] = []

    def _folder(self, model: str | PathLike[str]) -> str:
        path = pathlib.Path(model)
        if path.suffix == ".gguf":
            if not (path.parent / "openvino_model.xml").exists():
                self._genai.LLMPipeline(str(path), "CPU", enable_save_ov_model=True)
            path = path.parent
        if not (path / "openvino_model.xml").exists():
            raise Error(f"{path} has no openvino_model.xml; name a .gguf file, or a folder that optimum-cli exported")
        return str(path)

    def _generate(self, requests: list[Request]) -> list[Answer]:
        handles = []
        for number, request in enumerate(requests):
            ids = self._openvino.Tensor(self._numpy.array([request.prompt], dtype=self._numpy.int64))
            handles.append(self._pipeline.add_request(number, ids, self._configured(request)))
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        self.scores = []
        reasons = self._genai.GenerationFinishReason
        words = {reasons.STOP: "stop", reasons.LENGTH: "length"}
        answers = []
        for request, handle in zip(requests, handles):
            output = handle.read_all()[0]
            self.scores.append(output.score)
            tokens = list(output.generated_ids)
            answers.append(Answer(
                tokens,
                self._pipeline.get_tokenizer().decode(tokens),
                words.get(output.finish_reason),
                None if request.logprobs is None else list(output.generated_log_probs),
            ))
        return answers

    def _configured(self, request: Request) -> Any:
        config = self._genai.GenerationConfig(
            max_new_tokens=request.max_new_tokens,
            min_new_tokens=request.min_tokens,
            repetition_penalty=request.repeat_penalty,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            logprobs=1,  # also what makes it compute scores
            ignore_eos=not request.stop_tokens,
            stop_token_ids=set(request.stop_tokens),
            stop_strings=set(request.stop),
            **self._arguments,
        )
        if request.stop_tokens:
            config.set_eos_token_id(request.stop_tokens[0])
        if request.temperature > 0:
            config.do_sample = True
            config.temperature, config.top_p, config.min_p = request.temperature, request.top_p, request.min_p
            if request.top_k:
                config.top_k = request.top_k
        if request.seed is not None:
            config.rng_seed = request.seed
        if request.json_schema:
            config.structured_output_config = self._genai.StructuredOutputConfig(json_schema=request.json_schema)
        return config
