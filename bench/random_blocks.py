# SPDX-License-Identifier: MIT
"""A file of `draftproof synth` again, with random blocks of a type that synth does not write: for speed alone.

    draftproof synth --shape qwen3-0.6b --type q2_k like.gguf
    python bench/random_blocks.py like.gguf --type IQ2_XXS --out iq2_xxs.gguf

The matrices of the layers have the type; embeddings, LM head and norms stay. Python with gguf and numpy.
"""

import argparse
import sys
from pathlib import Path

import gguf
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fixtures/make/external"))
from gguf_mixed import SAMPLE, power_of_scale, random_blocks, with_scale, write, writer_like  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("like", type=Path)
    parser.add_argument("--type", choices=[kind.name for kind in gguf.GGMLQuantizationType], required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kind = gguf.GGMLQuantizationType[options.type]
    random = np.random.default_rng(1)
    inputs = gguf.GGML_QUANT_SIZES[kind][0]
    power = power_of_scale(random_blocks(kind, SAMPLE * inputs, random), kind)
    source = gguf.GGUFReader(options.like)
    writer = writer_like(source, options.out)
    for tensor in source.tensors:
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            width, rows = (int(extent) for extent in tensor.shape)
            blocks = with_scale(random_blocks(kind, rows * width, random), kind, power)
            writer.add_tensor(tensor.name, blocks.reshape(rows, -1), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    write(writer)


if __name__ == "__main__":
    main()
