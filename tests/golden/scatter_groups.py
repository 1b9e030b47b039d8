#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives the groups of inputs of a GPTQ model another order, as its quantizer does with desc_act:
scatter_groups.py MODEL, which it writes in place. Needs numpy.

The elements of the residual stream change places, and those between gate, up and down in the last
layer. A matrix moves its outputs, and what reads them its inputs, each with its group. So the
model's numbers, and reference.json, stay."""
import json
import os
import re
import sys

import numpy as np

TYPES = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32, "I32": np.uint32}


def move_columns(words, order):
    """Eight numbers in a word side by side."""
    numbers = np.stack([words >> 4 * i & 15 for i in range(8)], -1).reshape(len(words), -1)
    numbers = numbers[:, order].reshape(*words.shape, 8)
    words[:] = sum(numbers[..., i] << np.uint32(4 * i) for i in range(8))


def move(t, kind, inputs, outputs):
    """A tensor of a matrix, whose inputs and outputs come from these places."""
    if kind == "g_idx":
        t[:] = t[inputs]
    elif kind == "scales":
        t[:] = t[:, outputs]
    elif kind == "qzeros":
        move_columns(t, outputs)
    else:
        t[:] = t[:, outputs]
        move_columns(t.T, inputs)


def main(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    rng = np.random.default_rng(7)
    stream = rng.permutation(config["hidden_size"])
    between = rng.permutation(config["intermediate_size"])
    heads = np.arange(config["num_attention_heads"] * config["head_dim"])
    keys = np.arange(config["num_key_value_heads"] * config["head_dim"])
    last = "layers.%d." % (config["num_hidden_layers"] - 1)
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".safetensors"):
            continue
        data = np.memmap(os.path.join(folder, file), np.uint8, "r+")
        begin = 8 + int(data[:8].view(np.uint64)[0])
        for name, e in json.loads(bytes(data[8:begin])).items():
            if name == "__metadata__":
                continue
            at, end = (begin + x for x in e["data_offsets"])
            t = data[at:end].copy().view(TYPES[e["dtype"]]).reshape(e["shape"])
            part = re.search(r"\.(\w+)_proj\.(\w+)$", name)
            wide = between if last in name else np.arange(len(between))
            places = {"q": (stream, heads), "k": (stream, keys), "v": (stream, keys),
                      "o": (heads, stream), "gate": (stream, wide), "up": (stream, wide),
                      "down": (wide, stream)}
            if part:
                move(t, part[2], *places[part[1]])
            elif len(t.shape) == 2:
                t[:] = t[:, stream]
            elif len(t) == len(stream):
                t[:] = t[stream]
            data[at:end] = t.view(np.uint8).reshape(-1)


if __name__ == "__main__":
    main(sys.argv[1])
