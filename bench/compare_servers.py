#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Servers of OpenAI's API under load, side by side on this machine, on the same model with the same threads.

    python3 bench/compare_servers.py \\
        --server draftproof 8081 'build/draftproof serve MODEL --port 8081 --parallel 64 --log-format none' \\
        --server llama.cpp 8082 'DIR/llama-server -m MODEL --port 8082 -np 64 -c 16384 -t 2 --no-webui'

Starts the servers, and for each number of clients runs one server after the other (--rounds times) while the others are
idle. A client asks for one streamed completion after another: its own prompt of random token ids, --prompt of them on
average, and --tokens new tokens on average (each from half to one and a half times as many), greedy, stop tokens
ignored. So each request reads its prompt, and no cache helps. With --prompts FILE the prompts are lines of a file, with
--chat messages of a user. --fields JSON adds fields to every request, or replaces them: schemas, tools, samplers.
What happens in the first --warm-up seconds is not counted, and an answer that is not ended when the time is over is
waited for, so that it is known how many tokens its parts have.

    requests/s   answers that ended
    tokens/s     tokens of all answers, as the usage of the server counts them
    first        time from the request to the first token
    between      time from one part of an answer to the next; a part is one token, unless the server drafts

The last table has the ratios of the first server to each other one: median of the rounds, least and most.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request


grace = 90  # seconds for answers to end when the time is over


class Problem(Exception):
    """Ends the program with one sentence."""


class Window:
    """What one server did in one run."""

    def __init__(self, begin, end):
        self.begin, self.end = begin, end
        self.first, self.between, self.tokens, self.answers, self.failed = [], [], 0.0, 0, []

    def holds(self, moment):
        return self.begin <= moment < self.end

    def add(self, asked, parts, tokens):
        """An answer: when it was asked for, when its parts came, and how many tokens it had (None: it was cut off)."""
        if not parts:
            return
        each = 1 if tokens is None else tokens / len(parts)
        self.tokens += each * sum(self.holds(moment) for moment in parts)
        if self.holds(parts[0]):
            self.first.append(parts[0] - asked)
        self.between += [b - a for a, b in zip(parts, parts[1:]) if self.holds(b)]
        self.answers += tokens is not None and self.holds(parts[-1])

    def figures(self):
        seconds = self.end - self.begin

        def at(values, share):
            return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")

        return {
            "requests/s": self.answers / seconds,
            "tokens/s": self.tokens / seconds,
            "first p50": at(self.first, 0.5), "first p99": at(self.first, 0.99),
            "between p50": at(self.between, 0.5), "between p99": at(self.between, 0.99),
        }


async def ask(port, prompt, tokens, options, window):
    """Asks for one answer and notes when its parts come."""
    asks = {"messages": [{"role": "user", "content": prompt}]} if options.chat else {"prompt": prompt}
    path = b"chat/completions" if options.chat else b"completions"
    body = json.dumps({
        **asks, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
        "cache_prompt": False, "stream_options": {"include_usage": True}, **options.fields,
    }).encode()
    asked, parts, used = time.monotonic(), [], None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/" + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        status = await reader.readline()
        if b" 200 " not in status:
            window.failed.append(status.decode(errors="replace").strip())
            await asyncio.sleep(0.5)
            return
        while line := await reader.readline():
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("usage"):
                used = chunk["usage"]["completion_tokens"]
            if any(choice.get("finish_reason") is None for choice in chunk.get("choices", [])):
                parts.append(time.monotonic())
        if used is None:
            window.failed.append("a stream without an end")
    finally:
        writer.close()
        window.add(asked, parts, used)


async def run(port, clients, options, round_number):
    """Lets so many clients ask for as long as it takes."""
    now = time.monotonic()
    window = Window(now + options.warm_up, now + options.warm_up + options.seconds)

    lines = []
    if options.prompts:
        with open(options.prompts, encoding="utf-8") as file:
            lines = file.read().splitlines()

    async def client(number):
        numbers = random.Random(f"{round_number} {clients} {number}")
        while time.monotonic() < window.end:
            if lines:
                prompt = numbers.choice(lines)
            else:
                length = numbers.randint(options.prompt // 2, options.prompt * 3 // 2)
                prompt = [numbers.randrange(1000, options.vocabulary) for _ in range(length)]
            await ask(port, prompt, numbers.randint(options.tokens // 2, options.tokens * 3 // 2), options, window)

    tasks = [asyncio.create_task(client(number)) for number in range(clients)]
    await asyncio.wait(tasks, timeout=window.end - time.monotonic() + grace)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for wrong in results:
        if isinstance(wrong, OSError):
            raise Problem(f"port {port}: {wrong}")
        if isinstance(wrong, Exception):
            raise wrong
    return window


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def wait_until_ready(name, port, process):
    for _ in range(600):
        if process.poll() is not None:
            raise Problem(f"{name} has ended with {process.returncode}; run its command by hand")
        if answers(port):
            return
        time.sleep(0.5)
    raise Problem(f"{name} does not answer at port {port}")


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", nargs=3, action="append", required=True, metavar=("NAME", "PORT", "COMMAND"))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--prompts", metavar="FILE", help="lines of text")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--fields", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=100000, help="ids of prompts are from 1000 to below this")
    parser.add_argument("--json", help="write the figures of every run to this file")
    options = parser.parse_args()
    if options.chat and not options.prompts:
        parser.error("--chat asks with texts; give --prompts FILE")
    started, figures = [], []
    try:
        for name, port, command in options.server:
            if answers(int(port)):
                raise Problem(f"port {port} is taken already, so {name} would not be what is measured")
            process = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
            started.append((name, process))
            wait_until_ready(name, int(port), process)
        print(f"{'clients':>7} {'round':>5} {'server':<12} {'requests/s':>10} {'tokens/s':>9} {'first p50':>10} "
              f"{'p99':>7} {'between p50':>12} {'p99':>7}  failed")
        for clients in options.clients:
            for round_number in range(options.rounds):
                for name, port, _ in options.server:
                    window = asyncio.run(run(int(port), clients, options, round_number))
                    f = window.figures()
                    figures.append({"clients": clients, "round": round_number, "server": name, **f,
                                    "failed": len(window.failed)})
                    print(f"{clients:>7} {round_number:>5} {name:<12} {f['requests/s']:>10.2f} {f['tokens/s']:>9.1f} "
                          f"{f['first p50']:>9.2f}s {f['first p99']:>6.2f}s {f['between p50'] * 1000:>10.1f}ms "
                          f"{f['between p99'] * 1000:>5.0f}ms  {len(window.failed)} {window.failed[:1] or ''}", flush=True)
                    time.sleep(2)  # what was cut off ends
        print("\nratios of", options.server[0][0])
        for clients in options.clients:
            for name, _, _ in options.server[1:]:
                def ratios(figure):
                    of = {(f["server"], f["round"]): f[figure] for f in figures if f["clients"] == clients}
                    return spread([of[(options.server[0][0], r)] / of[(name, r)] for r in range(options.rounds)])
                print(f"{clients:>7} clients to {name}: tokens/s {ratios('tokens/s')}, first p50 {ratios('first p50')}, "
                      f"between p50 {ratios('between p50')}, p99 {ratios('between p99')}")
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(figures, file, indent=1)
    except Problem as problem:
        print(f"compare_servers: {problem}", file=sys.stderr)
        return 1
    finally:
        for _, process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
