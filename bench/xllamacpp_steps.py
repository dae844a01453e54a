# SPDX-License-Identifier: MIT
"""Milliseconds of one step of sequences that llama.cpp decodes together, by the server that the package xllamacpp has:

    python3 bench/xllamacpp_steps.py MODEL.gguf --sequences 1,16 --context 64 --steps 32 --threads 2

prints JSON, by the number of sequences. Each has a prompt of its own; all are asked for at once, and all are read before
a second token is decoded: the batch has room for all prompts. The figure is the lower median of the sequences. What a
server does beside the pass, as choosing a token, is in. Weights lie in memory of the process, not in a mapped file.
"""

import argparse
import concurrent.futures
import json
import statistics
import urllib.request

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sequences", required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.sequences.split(",")]

    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.verbosity = arguments.model, 0, -1
    params.n_parallel = max(counts)
    params.n_ctx = max(counts) * (arguments.context + arguments.steps + 8)
    params.n_batch = params.n_ctx
    params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    server = xllamacpp.Server(params)

    def ask(number: int) -> float:
        prompt = [100 + (number * 37 + place * 11) % 900 for place in range(arguments.context)]
        body = {"prompt": prompt, "n_predict": arguments.steps, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=1200) as answer:
            return json.load(answer)["timings"]["predicted_per_token_ms"]

    with concurrent.futures.ThreadPoolExecutor(max(counts)) as pool:
        list(pool.map(ask, range(max(counts))))  # the first of a process
        print(json.dumps({count: statistics.median_low(pool.map(ask, range(count))) for count in counts}))


if __name__ == "__main__":
    main()
