#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a model over ranks exchanges and takes per token, on paper, from its config.json (docs/scale.md).

    bench/scale.py tests/models/configs/Qwen--Qwen3-32B-FP8.json --ranks 2 4 8

Of the architectures of Llama and Qwen3, dense or with experts in every layer."""
import argparse
import json
import math
import pathlib

BROADCAST = 1024  # bytes: what rank 0 tells the others of a pass


def exchanged(config, ranks):
    """Messages of a token, and the bytes that a rank receives in them."""
    text = config.get("text_config", config)
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    attended = heads * text.get("head_dim", hidden // heads)
    experts = text.get("num_experts_per_tok", 0)
    gated = experts * (text["moe_intermediate_size"] + hidden) if experts else text["intermediate_size"] + hidden
    layers = text["num_hidden_layers"]
    # Of a layer what attention gives and its projection, gates and what comes of them; the embedding; the logits.
    floats = layers * (attended + hidden + gated) + hidden + text["vocab_size"]
    return 4 * layers + 3, 4 * floats * (ranks - 1) / ranks + BROADCAST


def weights_read(config):
    """Weights that a token is multiplied with."""
    text = config.get("text_config", config)
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    width = text.get("head_dim", hidden // heads)
    attention = hidden * width * (2 * heads + 2 * text["num_key_value_heads"])
    experts = text.get("num_experts_per_tok", 0)
    mlp = 3 * hidden * (experts * text["moe_intermediate_size"] if experts else text["intermediate_size"])
    return text["num_hidden_layers"] * (attention + mlp) + hidden * text["vocab_size"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", type=pathlib.Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--gbits", nargs="+", type=float, default=[1, 10, 100], help="of the network, per second")
    parser.add_argument("--step", type=float, default=20, help="microseconds of one step of an exchange")
    parser.add_argument("--memory", type=float, default=50, help="gigabytes per second that a machine reads")
    parser.add_argument("--weight", type=float, default=1.0625, help="bytes of a weight; 1.0625: q8_0")
    options = parser.parse_args()
    networks = " | ".join(f"ms, {gbits:g} Gbit/s" for gbits in options.gbits)
    print(f"| model | ranks | messages | bytes received | {networks} |")
    print("|---" * (4 + len(options.gbits)) + "|")
    for path in options.configs:
        config = json.loads(path.read_text(encoding="utf-8"))
        read = weights_read(config) * options.weight / options.memory / 1e6  # milliseconds of one machine
        for ranks in options.ranks:
            messages, received = exchanged(config, ranks) if ranks > 1 else (0, 0)
            steps = messages * math.ceil(math.log2(ranks)) * options.step / 1e3
            times = [read / ranks + steps + received * 8 / gbits / 1e6 for gbits in options.gbits]
            shown = " | ".join(f"{time:.0f}" for time in times)
            print(f"| {path.stem} | {ranks} | {messages} | {received / 1e6:.2f} MB | {shown} |")


if __name__ == "__main__":
    main()
