# SPDX-License-Identifier: MIT
"""llama.cpp's server inside this process."""

import xllamacpp
from real import post


class LlamaServer:
    def __init__(self, model, context):
        params = xllamacpp.CommonParams()
        params.model.path, params.port, params.verbosity = str(model), 0, -1
        params.n_ctx, params.n_parallel = context, 1
        # Its threads wait by turning in circles: on a busy machine two of them are slower than one.
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        self.server = xllamacpp.Server(params)
        self.url = self.server.listening_address

    def texts(self, prompts, count):
        """The tokens of greedy texts, one after the other."""
        body = {"n_predict": count, "temperature": 0, "return_tokens": True, "cache_prompt": False}
        return [post(self.url + "/completion", {**body, "prompt": prompt})["tokens"] for prompt in prompts]
