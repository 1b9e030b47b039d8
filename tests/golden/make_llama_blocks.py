#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small llama in blocks of every kind, as GGUF with its rows of q and k in llama's order:
tests/golden/formats/llama.gguf; and tests/golden/formats/llama.json, what the evaluation in
float64 of make_dense_models.py says of the numbers that the gguf package for Python decodes
its blocks to. The blocks are random, each of about the same size of numbers; their norms
tame what a layer of them gives. Needs numpy and gguf (PyPI); run from the top of the tree."""
import json
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../ctl"))
import gguf_file as g
import make_dense_models as dense
from make_blocks import HALVES

OUT = "tests/golden/formats/llama"
CONFIG = {**dense.BASE, "model_type": "llama", "architectures": ["LlamaForCausalLM"],
          "rope_theta": 1e4, "hidden_size": 256, "head_dim": 64, "intermediate_size": 256,
          "num_hidden_layers": 2}
KINDS = [
    {"self_attn.q": T.Q4_K, "self_attn.k": T.Q6_K, "self_attn.v": T.Q5_K,
     "self_attn.o": T.Q3_K, "mlp.gate": T.Q2_K, "mlp.up": T.IQ4_XS, "mlp.down": T.IQ2_XXS},
    {"self_attn.q": T.Q4_0, "self_attn.k": T.Q8_0, "self_attn.v": T.Q4_1,
     "self_attn.o": T.Q5_0, "mlp.gate": T.Q5_1, "mlp.up": T.IQ4_NL, "mlp.down": T.MXFP4},
]


def blocks(rng, kind, rows, cols, size):
    """Random blocks whose numbers are about +-size: raw rows, and the numbers."""
    elements, n_bytes = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows * cols // elements, n_bytes), dtype=np.uint8)
    for at in HALVES[kind]:
        raw[:, at:at + 2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    if kind == T.MXFP4:
        raw[:, 0] = 127
    values = dequantize(raw.reshape(rows, -1), kind)
    factor = size / np.sqrt((values.astype(np.float64) ** 2).mean())
    for at in HALVES[kind]:
        raw[:, at:at + 2] = np.frombuffer(np.float16(factor).tobytes(), np.uint8)
    if kind == T.MXFP4:
        raw[:, 0] = round(127 + np.log2(factor))
    raw = raw.reshape(rows, -1)
    return raw, dequantize(raw, kind)


def make(rng):
    """Numbers by their names in Hugging Face, and what GGUF has by its own."""
    c, d = CONFIG, CONFIG["hidden_size"]
    w, out = {}, {}

    def add(name, kind, rows, size):
        raw, values = blocks(rng, kind, rows, d, size)
        w[name] = values.astype(np.float64)
        if ".q_proj" in name or ".k_proj" in name:
            raw = np.frombuffer(g.pair_rows(raw.tobytes(), rows, c["head_dim"]),
                                np.uint8).reshape(raw.shape)
        out[g.tensor_name(name)] = (raw, kind)

    def norm(name):
        a = (1 + 0.1 * rng.standard_normal(d)).astype(np.float32)
        w[name] = a.astype(np.float64)
        out[g.tensor_name(name)] = (a, None)

    add("model.embed_tokens.weight", T.Q8_0, c["vocab_size"], 0.5)
    norm("model.norm.weight")
    for i, kinds in enumerate(KINDS):
        p = "model.layers.%d." % i
        for name, kind in kinds.items():
            rows = 128 if name[-1] in "kv" else 256
            add(p + name + "_proj.weight", kind, rows,
                (2 if name[-1] in "qk" else 1) / d ** 0.5)
        norm(p + "input_layernorm.weight")
        norm(p + "post_attention_layernorm.weight")
    return w, out


def main():
    rng = np.random.default_rng(11)
    w, tensors = make(rng)
    writer = GGUFWriter(OUT + ".gguf", "llama")
    add = {g.U32: writer.add_uint32, g.F32: writer.add_float32,
           g.STRING: writer.add_string}
    for name, kind, value in g.model_keys(CONFIG)[1:] + g.tokenizer_keys(
            os.path.join(dense.GOLDEN, "qwen3-bf16"), CONFIG["vocab_size"]):
        if isinstance(kind, tuple):
            writer.add_array(name, value)
        else:
            add[kind](name, value)
    for name, (a, kind) in tensors.items():
        writer.add_tensor(name, a, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    cases = [dense.case(CONFIG, w, rng.integers(0, 500, n), 8) for n in (1, 40)]
    with open(OUT + ".json", "w") as f:
        json.dump({"model": "llama in blocks",
                   "reference": "tests/golden/make_llama_blocks.py", "cases": cases}, f)
        f.write("\n")


main()
