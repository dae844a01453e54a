#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server under mixed load for a long time: its memory must not grow, and its answers must stay what they are.

    python3 bench/soak_server.py --seconds 900 build/draftproof serve MODEL --draft ... --port 8085

Starts the server. Clients ask for streamed and whole answers, leave in the middle of them, connect and say nothing, and
send what is no request. Every few seconds one request is asked again, and must get the answer that it got at first. The
server's resident memory is read every second. Memory of the first third is not judged: caches fill up. Ends with 1 when
an answer differs, when the server ends early or fails to end in order, or when the median of the last third exceeds
that of the middle third by more than --growth percent.

Needs only Python's standard library.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time


def ask(port, body, leave_after=None):
    """Returns the answer's choices; None when the client left, or was told to come back."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
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


def client(port, number, end, counts):
    numbers = random.Random(number)
    while time.monotonic() < end:
        try:
            kind = numbers.choice(["stream", "whole", "leave", "disturb"])
            counts[kind] = counts.get(kind, 0) + 1
            if kind == "disturb":
                disturb(port, numbers)
                continue
            prompt = [numbers.randrange(5, 1500) for _ in range(numbers.randrange(1, 200))]
            body = {"prompt": prompt, "max_tokens": numbers.randrange(1, 200), "temperature": numbers.choice([0, 1]),
                    "seed": numbers.randrange(1000), "n": numbers.choice([1, 1, 3]), "stream": kind != "whole",
                    "logprobs": numbers.choice([None, 3])}
            ask(port, body, numbers.randrange(1, 5000) if kind == "leave" else None)
        except (OSError, http.client.HTTPException):
            counts["broken"] = counts.get("broken", 0) + 1


def resident(pid):
    """MiB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--growth", type=float, default=2, help="percent")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="with --port")
    options = parser.parse_args()
    port = int(options.command[options.command.index("--port") + 1])
    server = subprocess.Popen(options.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if not server.stdout.readline().startswith("listening"):
        print("soak_server: the server does not start; run its command by hand", file=sys.stderr)
        return 1
    fixed = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 1, "seed": 1, "logprobs": 2}
    expected, compared, differs, counts = ask(port, fixed), 0, 0, {}
    begin = time.monotonic()
    end = begin + options.seconds
    threads = [threading.Thread(target=client, args=(port, number, end, counts)) for number in range(options.clients)]
    for thread in threads:
        thread.start()
    memory = []
    while time.monotonic() < end and server.poll() is None:
        memory.append(resident(server.pid))
        if len(memory) % 5 == 0 and (found := ask(port, fixed)) is not None:
            compared += 1
            differs += found != expected
        time.sleep(1)
    for thread in threads:
        thread.join()
    alive = server.poll() is None
    server.send_signal(signal.SIGTERM)
    code = server.wait()
    third = len(memory) // 3
    for minute in range(0, len(memory), 60):
        part = memory[minute:minute + 60]
        print(f"minute {minute // 60:>3}: {min(part):.1f} to {max(part):.1f} MiB")
    middle, last = (statistics.median(memory[third * i:third * (i + 1)]) for i in (1, 2))
    growth = 100 * (last - middle) / middle
    print(f"{sum(counts.values())} requests {counts}; {compared} answers compared, {differs} differ; memory in the last "
          f"third {last:.1f} MiB, in the middle third {middle:.1f} MiB: {growth:+.2f} %; exit status {code}")
    return int(differs > 0 or compared == 0 or not alive or code != 0 or growth > options.growth)


if __name__ == "__main__":
    sys.exit(main())
