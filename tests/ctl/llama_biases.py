# SPDX-License-Identifier: Apache-2.0
"""The model llama-biases in other formats with the same numbers: GGUF, and int4."""
import json
import os
import shutil
import struct

import gguf_file as g
from tap import SRC

FOLDER = os.path.join(SRC, "tests/golden/models/llama-biases")
DIM = 32


def numbers(raw):
    return struct.unpack("<%df" % (len(raw) // 2), g.bf16_to_f32(raw))


def step_of(values):
    """The power of two that all are multiples of, -8 to 7 times."""
    step = 2.0 ** -14
    while max(abs(v) for v in values) > 8 * step or any(v == 8 * step for v in values):
        step *= 2
    assert all(v / step == int(v / step) for v in values)
    return step


def as_gguf(kind):
    config = g.read_json(FOLDER, "config.json")
    out = {}
    for name, (_, shape, raw) in g.load(FOLDER).items():
        if "q_proj" in name or "k_proj" in name:
            raw = g.pair_rows(raw, shape[0], DIM)
        if kind == "Q4_0" and name.endswith("_proj.weight"):
            values, blocks = numbers(raw), []
            step = step_of(values)
            for i in range(0, len(values), 32):
                q = [int(v / step) + 8 for v in values[i:i + 32]]
                blocks.append(struct.pack("<e", step) + bytes(
                    q[j] | q[j + 16] << 4 for j in range(16)))
            out[g.tensor_name(name)] = ("Q4_0", shape, b"".join(blocks))
        elif kind == "BF16" and len(shape) == 2:
            out[g.tensor_name(name)] = ("BF16", shape, raw)
        else:
            out[g.tensor_name(name)] = ("F32", shape, g.bf16_to_f32(raw))
    n_vocab = out["token_embd.weight"][1][0]
    return g.model_keys(config) + g.tokenizer_keys(FOLDER, n_vocab), out


def as_int4(folder):
    """compressed-tensors: words of eight integers, with a scale for each 32 of a row."""
    shutil.copytree(FOLDER, folder)
    out = {}
    for name, (dtype, shape, raw) in g.load(FOLDER).items():
        if not name.endswith("_proj.weight"):
            out[name] = (dtype, shape, raw)
            continue
        values, words = numbers(raw), []
        step = step_of(values)
        for i in range(0, len(values), 8):
            words.append(sum(int(v / step) + 8 << 4 * j for j, v in enumerate(values[i:i + 8])))
        scale = struct.pack("<f", step)[2:]
        out[name + "_packed"] = ("I32", [shape[0], shape[1] // 8],
                                 struct.pack("<%dI" % len(words), *words))
        out[name + "_scale"] = ("BF16", [shape[0], shape[1] // 32],
                                scale * (len(values) // 32))
        out[name + "_shape"] = ("I64", [2], struct.pack("<2q", *shape))
    g.write_safetensors(os.path.join(folder, "model.safetensors"), out)
    config = g.read_json(folder, "config.json")
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
            "group_size": 32}}}}
    write_config(folder, config)


def write_config(folder, config):
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
