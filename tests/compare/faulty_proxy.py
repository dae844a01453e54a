# SPDX-License-Identifier: MIT
"""A proxy before `draftproof serve` that plants one fault of a speculating engine.

    faulty_proxy.py PORT UPSTREAM FAULT

Only the Python standard library. FAULTS names every fault and the checks of `endpoint check` one of which must find it.
"""

import http.client
import http.server
import json
import sys
import threading
import time
import urllib.parse

BETS = "a bet"  # on sampled texts

# name: (the checks that may find it, what is done to the request, what is done to the answer)
FAULTS = {}


def fault(*checks):
    def register(function):
        FAULTS[function.__name__] = (checks, function)
        return function

    return register


class Exchange:
    """One request and its answer. A fault changes `body` before, or sets `after` or `status`."""

    def __init__(self, body, proxy):
        self.body = body
        self.proxy = proxy
        self.after = None
        self.status = None
        self.hang = False

    @property
    def sampled(self):
        return self.body.get("temperature", 1) > 0

    def is_set(self, *names):
        return all(name in self.body for name in names)


def tokens_of(choice):
    return [token for one in choice.get("rounds", []) for token in one["tokens"]]


def on_choices(change):
    def after(answer):
        for choice in answer.get("choices", []):
            change(choice)

    return after


@fault("greedy_tokens", "option_tokens")
def another_token(exchange):
    def change(choice):
        tokens = tokens_of(choice)
        if len(tokens) > 9:
            tokens[9]["id"] = 100 if tokens[9]["id"] != 100 else 101

    if not exchange.sampled:
        exchange.after = on_choices(change)


@fault("greedy_tokens", "option_tokens")
def doubled_token(exchange):
    def change(choice):
        tokens = tokens_of(choice)
        if len(tokens) > 12:
            tokens[12]["id"] = tokens[11]["id"]

    exchange.after = on_choices(change)


@fault("greedy_tokens")
def answers_exchanged_under_load(exchange):
    if exchange.proxy.running > 3:
        exchange.body["prompt"] = exchange.proxy.last_prompt
    exchange.proxy.last_prompt = exchange.body["prompt"]


@fault("greedy_tokens", "option_tokens", "finish_reason")
def one_token_too_many(exchange):
    if exchange.body.get("max_tokens") == 7:
        exchange.body["max_tokens"] = 8


@fault("option_tokens")
def repetition_penalty_sees_few_tokens(exchange):
    if exchange.is_set("repetition_penalty"):
        exchange.body["repeat_last_n"] = 2


@fault("option_tokens")
def presence_penalty_ignored(exchange):
    exchange.body.pop("presence_penalty", None)


@fault("option_tokens")
def frequency_penalty_ignored(exchange):
    exchange.body.pop("frequency_penalty", None)


@fault("option_tokens")
def logit_bias_ignored(exchange):
    exchange.body.pop("logit_bias", None)


@fault("option_tokens", "finish_reason", "text")
def stop_strings_overlooked(exchange):
    exchange.body.pop("stop", None)


@fault("option_tokens")
def grammar_not_applied(exchange):
    exchange.body.pop("grammar", None)


@fault("option_tokens")
def json_schema_not_applied(exchange):
    exchange.body.pop("response_format", None)


@fault("text")
def blank_lost(exchange):
    exchange.after = on_choices(lambda choice: choice.update(text=choice["text"].lstrip()))


@fault("finish_reason")
def finish_reason_of_drafts(exchange):
    exchange.after = on_choices(lambda choice: choice.update(finish_reason="stop"))


@fault("usage")
def usage_counts_drafts(exchange):
    def after(answer):
        answer["usage"]["completion_tokens"] += answer["usage"].get("accepted_tokens", 0) + 1

    exchange.after = after


@fault("logprobs")
def logprobs_of_accepted_are_zero(exchange):
    def change(choice):
        if choice.get("logprobs"):
            accepted = [token["accepted"] for token in tokens_of(choice)]
            values = choice["logprobs"]["token_logprobs"]
            choice["logprobs"]["token_logprobs"] = [0 if a else v for a, v in zip(accepted, values)]

    exchange.after = on_choices(change)


@fault("logprobs")
def logprobs_a_row_late(exchange):
    def change(choice):
        if choice.get("logprobs"):
            values = choice["logprobs"]["token_logprobs"]
            choice["logprobs"]["token_logprobs"] = values[:1] + values[:-1]

    exchange.after = on_choices(change)


@fault("answers")
def crash_at_top_k_alone(exchange):
    if exchange.is_set("top_k") and not exchange.is_set("top_p") and exchange.sampled and exchange.body["top_k"] > 1:
        exchange.status = 500


@fault("answers")
def hang_at_two_choices(exchange):
    exchange.hang = exchange.body.get("n", 1) > 1


@fault("answers")
def nonsense(exchange):
    if exchange.is_set("logprobs") and exchange.body["logprobs"] == 0:
        exchange.after = lambda answer: answer.pop("choices")


@fault("second_turn")
def kept_cache_lacks_a_token(exchange):
    # A prompt that begins with an earlier one is read without the last token of the answer in between.
    prompt = exchange.body["prompt"]
    for earlier, length in exchange.proxy.answers:
        if len(prompt) > length + 2 and prompt[:length] == earlier:
            exchange.body["prompt"] = prompt[: length - 1] + prompt[length:]
            return

    def after(answer):
        text = [token["id"] for token in tokens_of(answer["choices"][0])]
        if exchange.body.get("max_tokens", 0) < 30:
            exchange.proxy.answers.append((prompt + text, len(prompt) + len(text)))

    exchange.after = after


@fault("after_cancel")
def cancelled_request_leaves_state(exchange):
    if exchange.proxy.cancelled:
        exchange.body["prompt"] = exchange.body["prompt"][1:]


@fault(BETS)
def silent_greedy(exchange):
    if exchange.sampled:
        exchange.body["temperature"] = 0.01


@fault(BETS)
def temperature_too_high(exchange):
    if exchange.sampled:
        exchange.body["temperature"] = 1.3 * exchange.body["temperature"]


@fault(BETS)
def top_p_ignored(exchange):
    exchange.body.pop("top_p", None)


@fault(BETS)
def top_k_ignored(exchange):
    if exchange.body.get("top_k", 0) > 1:
        exchange.body.pop("top_k")


@fault(BETS)
def min_p_ignored(exchange):
    exchange.body.pop("min_p", None)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream = ("127.0.0.1", 0)
    plant = None
    running = 0
    lock = threading.Lock()
    last_prompt = [1]
    answers = []
    cancelled = False

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not kind.startswith("text/event-stream"):
            self.wfile.write(body)
            return
        for event in body.split(b"\n\n")[:-1]:  # one by one, so that a client that goes away is noticed
            self.wfile.write(event + b"\n\n")
            time.sleep(0.01)

    def ask(self, method, body=None):
        connection = http.client.HTTPConnection(*self.upstream, timeout=120)
        connection.request(method, self.path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = reply.status, reply.read(), reply.getheader("Content-Type", "application/json")
        connection.close()
        return answer

    def do_GET(self):
        self.send(*self.ask("GET"))

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/completions":
            return self.send(*self.ask("POST", data))
        with Handler.lock:
            Handler.running += 1
            exchange = Exchange(json.loads(data), Handler)
            type(self).plant(exchange)
        try:
            if exchange.hang:
                time.sleep(30)
                return None
            if exchange.status:
                return self.send(exchange.status, b'{"error":{"message":"max(): Expected reduction dim"}}')
            status, body, kind = self.ask("POST", json.dumps(exchange.body).encode())
            if exchange.after and status == 200 and not exchange.body.get("stream"):
                answer = json.loads(body)
                exchange.after(answer)
                body = json.dumps(answer).encode()
            return self.send(status, body, kind)
        except (BrokenPipeError, ConnectionResetError):
            Handler.cancelled = True
            return None
        finally:
            with Handler.lock:
                Handler.running -= 1


def main():
    port, upstream, name = int(sys.argv[1]), urllib.parse.urlparse(sys.argv[2]), sys.argv[3]
    Handler.upstream = (upstream.hostname, upstream.port)
    Handler.plant = staticmethod(FAULTS[name][1] if name != "none" else lambda exchange: None)
    server = Server(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
