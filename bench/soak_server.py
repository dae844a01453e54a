#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server under mixed load for a long time: its memory must not grow, and its answers must stay what they are.

    python3 bench/soak_server.py build/draftproof serve MODEL --draft ... --kv-budget 16MiB --port 8085

Starts the server. Clients ask for streamed and whole texts, calls of tools and answers by schemas, hold chats of
several turns that come and go, leave in the middle of streams, connect and say nothing, and send what is no request.
Calls and answers must follow their schemas. Every few seconds one of four requests is asked again, and must get the
answer that it got at first. The server's resident memory is read every second. Memory of the first third is not judged:
caches fill up. Between two requests a client thinks, so long that all of them together keep --cores of a core busy.

Ends with 1 when an answer differs or breaks its schema, when the server ends early or fails to end in order, when
something that belongs to the load did not happen (a call, an answer by a schema, a preemption, an accepted draft
token), or when the median of the last third exceeds that of the middle third by more than --growth percent.

Needs only Python's standard library.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
BY_TOOL = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
BY_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}}
METRICS = {
    "preemptions": "draftproof_preemptions_total",
    "passes": "draftproof_passes_total",
    "shared passes": "draftproof_passes_shared_total",
    "rounds with an accepted draft token": "draftproof_draft_rounds_accepted_total",
    "prompt tokens": "draftproof_prompt_tokens_total",
    "of them reused": "draftproof_prompt_tokens_reused_total",
    "output tokens": "draftproof_output_tokens_total",
}


def ask(port, path, body, leave_after=None):
    """Returns the answer's choices; None of a stream, when the client left, or when it was told to come back."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)  # the machine may have other work
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if leave_after is not None:
            response.read(leave_after)
            return None
        data = response.read()
        return json.loads(data)["choices"] if response.status == 200 and not body.get("stream") else None
    finally:
        connection.close()


def disturb(port, numbers):
    """A connection that is of no use to anyone."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        what = numbers.randrange(4)
        if what == 0:
            connection.send(bytes(numbers.randrange(256) for _ in range(numbers.randrange(1, 400))))
        elif what == 1:
            connection.send(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{\"prompt\":")
            time.sleep(numbers.random())
        elif what == 2:
            time.sleep(numbers.random())
        else:
            body = b'{"prompt": [1, 2, "x"], "max_tokens": -3}'
            connection.send(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            connection.recv(4096)


def is_city(text):
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return set(value) == {"city", "days"} and len(value["city"]) <= 12 and 1 <= value["days"] <= 9


def follows(choice):
    """Whether a call, or an answer by a schema, is what was demanded; one that was cut off may be anything."""
    if choice["finish_reason"] == "length":
        return True
    calls = choice["message"].get("tool_calls")
    if calls:
        return len(calls) == 1 and calls[0]["function"]["name"] == "get_weather" and \
            is_city(calls[0]["function"]["arguments"])
    return choice["finish_reason"] == "stop" and is_city(choice["message"]["content"])


def without_ids(choices):
    """Ids of calls are the only part of an answer that its seed does not decide."""
    for choice in choices or []:
        for call in choice.get("message", {}).get("tool_calls") or []:
            del call["id"]
    return choices


def sampled(numbers):
    return {"max_tokens": numbers.randrange(1, 200), "temperature": numbers.choice([0, 1]),
            "seed": numbers.randrange(1000), "n": numbers.choice([1, 1, 3])}


class Load:
    """What the clients have in common."""

    def __init__(self, port, end):
        self.port, self.end, self.think = port, end, 1.0
        self.counts, self.broken_rules, self.lock = {}, [], threading.Lock()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def pause(self, numbers):
        time.sleep(min(numbers.expovariate(1 / self.think), max(0, self.end - time.monotonic())))

    def completion(self, kind, numbers):
        prompt = [numbers.randrange(5, 1500) for _ in range(numbers.randrange(1, 200))]
        body = {"prompt": prompt, "stream": kind != "whole", "logprobs": numbers.choice([None, 3])} | sampled(numbers)
        ask(self.port, "/v1/completions", body, numbers.randrange(1, 5000) if kind == "leave" else None)

    def demanded(self, kind, numbers):
        question = "How warm is it in city %d?" % numbers.randrange(100)
        body = {"messages": [{"role": "user", "content": question}], "stream": numbers.random() < 0.3}
        body |= (BY_TOOL if kind == "tool" else BY_SCHEMA) | sampled(numbers)
        for choice in ask(self.port, "/v1/chat/completions", body) or []:
            self.count(kind + (" cut off" if choice["finish_reason"] == "length" else " whole"))
            if not follows(choice):
                self.broken_rules.append(choice)

    def chat(self, numbers):
        """Turns until somebody has enough, or until the context is full, which is refused."""
        messages = [{"role": "system", "content": "Tell tale %d." % numbers.randrange(8)}]
        for _ in range(numbers.randrange(1, 8)):
            messages.append({"role": "user", "content": "Once upon a time there was %d" % numbers.randrange(100)})
            body = {"messages": messages} | sampled(numbers) | {"n": 1}
            choices = ask(self.port, "/v1/chat/completions", body)
            self.count("turn")
            if choices is None or time.monotonic() > self.end:
                return
            messages.append({"role": "assistant", "content": choices[0]["message"]["content"]})
            self.pause(numbers)


def client(load, number):
    numbers = random.Random(number)
    while time.monotonic() < load.end:
        try:
            kind = numbers.choice(["stream", "whole", "leave", "disturb", "tool", "schema", "chat"])
            load.count(kind)
            if kind == "disturb":
                disturb(load.port, numbers)
            elif kind == "chat":
                load.chat(numbers)
            elif kind in ("tool", "schema"):
                load.demanded(kind, numbers)
            else:
                load.completion(kind, numbers)
        except (OSError, http.client.HTTPException):
            load.count("broken")
        load.pause(numbers)


FIXED = [
    ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 1, "seed": 1, "logprobs": 2}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "How warm is it?"}], "max_tokens": 120,
                              "seed": 2} | BY_TOOL),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Which city?"}], "max_tokens": 120,
                              "seed": 3} | BY_SCHEMA),
    ("/v1/completions", {"prompt": list(range(5, 305)), "max_tokens": 40, "temperature": 0, "logprobs": 1}),
]


def ask_fixed(port, which):
    return without_ids(ask(port, *FIXED[which]))


def metrics_of(port):
    """The sums of METRICS over their labels."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {what: int(sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))
            for what, name in METRICS.items()}


def core_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    """MiB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--cores", type=float, default=0.35, help="that the server uses on the average")
    parser.add_argument("--growth", type=float, default=2, help="percent")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="with --port")
    options = parser.parse_args()
    port = int(options.command[options.command.index("--port") + 1])
    server = subprocess.Popen(options.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if not server.stdout.readline().startswith("listening"):
        print("soak_server: the server does not start; run its command by hand", file=sys.stderr)
        return 1
    expected, compared, differs = [ask_fixed(port, which) for which in range(len(FIXED))], 0, 0
    begin, used_before = time.monotonic(), core_seconds(server.pid)
    load = Load(port, begin + options.seconds)
    threads = [threading.Thread(target=client, args=(load, number)) for number in range(options.clients)]
    for thread in threads:
        thread.start()
    memory, used = [], [(begin, used_before)]
    while time.monotonic() < load.end and server.poll() is None:
        memory.append(resident(server.pid))
        used.append((time.monotonic(), core_seconds(server.pid)))
        which = len(memory) // 5 % len(FIXED)
        try:
            if len(memory) % 5 == 0 and (found := ask_fixed(port, which)) is not None:
                compared += 1
                differs += found != expected[which]
        except (OSError, http.client.HTTPException):
            load.count("broken")
        if len(memory) % 10 == 0:
            earlier, used_then = used[max(0, len(used) - 31)]
            recent = (used[-1][1] - used_then) / (used[-1][0] - earlier)
            load.think *= min(2.0, max(0.5, recent / options.cores))
        time.sleep(1)
    for thread in threads:
        thread.join()
    alive = server.poll() is None
    told = metrics_of(port) if alive else dict.fromkeys(METRICS, 0)
    cores = (used[-1][1] - used_before) / (used[-1][0] - begin)
    server.send_signal(signal.SIGTERM)
    code = server.wait()
    third = len(memory) // 3
    for minute in range(0, len(memory), 60):
        part = memory[minute:minute + 60]
        print(f"minute {minute // 60:>3}: {min(part):.1f} to {max(part):.1f} MiB")
    first, middle, last = (statistics.median(memory[third * i:third * (i + 1)]) for i in range(3))
    growth = 100 * (last - middle) / middle
    counts = load.counts
    print(f"clients: {dict(sorted(counts.items()))}; {len(load.broken_rules)} answers break their schema")
    print(f"as the server counts: {told}; {cores:.2f} cores")
    print(f"{compared} answers compared, {differs} differ; memory in the first third {first:.1f} MiB, in the middle "
          f"one {middle:.1f} MiB, in the last {last:.1f} MiB: {growth:+.2f} %; exit status {code}")
    for choice in load.broken_rules[:3]:
        print(f"breaks its schema: {choice}")
    idle = [what for what in ("tool whole", "schema whole", "turn") if not counts.get(what)]
    idle += [what for what, count in told.items() if count == 0]
    if idle:
        print(f"did not happen: {', '.join(idle)}")
    failed = differs > 0 or compared == 0 or load.broken_rules or idle or not alive or code != 0
    return int(bool(failed) or growth > options.growth)


if __name__ == "__main__":
    sys.exit(main())
