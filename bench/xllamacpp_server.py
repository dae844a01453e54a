# SPDX-License-Identifier: MIT
"""llama.cpp's server, of the Python package xllamacpp, until it is killed.

    xllamacpp_server.py MODEL PORT CLIENTS THREADS [TEMPLATE]

TEMPLATE: a file with a chat template, in place of the model's. For bench/compare_servers.py, where no llama-server was
built.
"""

import pathlib
import sys
import time

import xllamacpp

model, port, clients, threads, *template = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path, params.port, params.verbosity = model, int(port), -1
params.n_parallel, params.n_ctx, params.use_jinja = int(clients), 1024 * int(clients), True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
for file in template:
    params.chat_template = pathlib.Path(file).read_text(encoding="utf-8")
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(60)
