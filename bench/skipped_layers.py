# SPDX-License-Identifier: MIT
"""What a target drafts for itself when it leaves layers out: a bound on what a choice of layers could gain.

    python3 bench/skipped_layers.py MODEL.gguf TEXT [--tokens N] [--most N]

reads the first N tokens of a text with transformers, whole and with layers left out, and counts how often both would say
the same next token greedily: what a draft is accepted at. First the first layers alone (as `self?layers=N`), then layers
left out one after another, each time the one without which most tokens agree. Beside it what a pass of the rest costs of
a whole pass, by the bytes of its matrices, and how many times faster than plain decoding the best number of draft tokens
would be if rows of a verification cost nothing: (1 - a^(k + 1)) / (1 - a) tokens for 1 + k c passes.

Needs torch, transformers and gguf.
"""

import argparse
import pathlib

import torch
import transformers


def gain(accepted: float, cost: float) -> tuple[float, int]:
    """Times faster than plain decoding, and the number of draft tokens."""
    expected = lambda k: sum(accepted ** i for i in range(k + 1))
    return max((expected(k) / (1 + k * cost), k) for k in range(17))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=384)
    parser.add_argument("--most", type=int, default=8, help="layers left out")
    options = parser.parse_args()
    where = {"gguf_file": options.model.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model.parent, **where, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model.parent, **where)
    tokens = tokenizer(options.text.read_text(encoding="utf-8"), return_tensors="pt")["input_ids"][:, : options.tokens]
    layers = list(model.model.layers)
    numbers = sum(each.numel() for each in layers[0].parameters())
    head = model.get_output_embeddings().weight.numel()

    @torch.inference_mode()
    def said(kept: list[int]) -> torch.Tensor:
        model.model.layers = torch.nn.ModuleList([layers[i] for i in kept])
        model.config.num_hidden_layers = len(kept)
        return model(tokens, use_cache=False).logits[0].argmax(-1)

    everything = list(range(len(layers)))
    whole = said(everything)

    def agreement(kept: list[int]) -> float:
        return (said(kept) == whole).float().mean().item()

    def show(name: str, kept: list[int], accepted: float) -> None:
        cost = (len(kept) * numbers + head) / (len(layers) * numbers + head)
        times, drafted = gain(accepted, cost)
        print(f"| {name} | {accepted:.3f} | {cost:.2f} | {times:.2f} ({drafted}) |", flush=True)

    print(f"{options.model.name}: {len(layers)} layers, {tokens.shape[1]} tokens\n")
    print("| layers | accepted | a pass | times plain decoding, at best |\n|---|---|---|---|")
    for share in (0.5, 0.75, 0.9):
        first = everything[: round(share * len(layers))]
        show(f"the first {len(first)}", first, agreement(first))
    kept = everything
    for _ in range(min(options.most, len(layers) - 1)):
        accepted, without = max((agreement([i for i in kept if i != out]), out) for out in kept)
        kept = [i for i in kept if i != without]
        show("without " + ", ".join(str(i) for i in everything if i not in kept), kept, accepted)


if __name__ == "__main__":
    main()
