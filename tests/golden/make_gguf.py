#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a folder of Hugging Face as GGUF with the gguf package for Python, its
quantization included: make_gguf.py FOLDER TYPE OUT, TYPE one of F32 F16 BF16 Q8_0 Q4_0
Q4_1 Q5_0 Q5_1 MXFP4. Then `haloctl verify --model OUT --reference
FOLDER/reference.json` tells how far it is (exact for F16 and above, but for the
rounding to float16). Needs numpy and gguf (PyPI)."""
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../ctl"))
import gguf_file as g


def plain(t, name):
    """A tensor as float32, out of compressed-tensors int4 where it is that."""
    if name in t:
        dtype, shape, raw = t[name]
        if dtype == "BF16":
            raw, dtype = g.bf16_to_f32(raw), "F32"
        return np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[dtype]).reshape(
            shape).astype(np.float32)
    base = name[:-len(".weight")]
    _, shape, raw = t[base + ".weight_packed"]
    words = np.frombuffer(raw, "<u4").reshape(shape)
    q = np.stack([words >> (4 * i) & 15 for i in range(8)], 2).reshape(shape[0], -1)
    scale = plain(t, base + ".weight_scale")
    return (q.astype(np.float32) - 8) * np.repeat(scale, q.shape[1] // scale.shape[1], 1)


def tensors(folder, config):
    """Names and arrays, experts together."""
    t = g.load(folder)
    names = sorted({n[:-len("_packed")] if n.endswith("_packed") else n for n in t
                    if n.endswith((".weight", ".bias", ".weight_packed"))})
    stacks = {}
    for name in names:
        a = plain(t, name)
        if ".experts." in name:
            head, _, proj = name.rsplit(".", 3)[0], 0, name.split(".")[-2]
            stacks.setdefault(head + "." + proj + ".weight", {})[
                int(name.split(".")[-3])] = a
            continue
        if config["model_type"] in ("llama", "mistral") and ("q_proj" in name or
                                                             "k_proj" in name):
            dim = config.get("head_dim") or config["hidden_size"] // \
                config["num_attention_heads"]
            a = a.reshape(-1, 2, dim // 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)
        yield g.tensor_name(name), a
    factors = g.rope_factors(config)
    if factors:
        yield "rope_freqs.weight", np.frombuffer(factors, "<f4")
    for name, parts in stacks.items():
        yield g.tensor_name(name), np.stack([parts[e] for e in range(len(parts))])


def main(folder, kind, out):
    config = g.read_json(folder, "config.json")
    kind = GGMLQuantizationType[kind]
    w = GGUFWriter(out, g.ARCHS[config["model_type"]])
    arrays = dict(tensors(folder, config))
    add = {g.U32: w.add_uint32, g.F32: w.add_float32, g.STRING: w.add_string}
    for name, key_kind, value in g.model_keys(config)[1:] + g.tokenizer_keys(
            folder, arrays["token_embd.weight"].shape[0]):
        if isinstance(key_kind, tuple):
            w.add_array(name, value)
        else:
            add[key_kind](name, value)
    for name, a in arrays.items():
        if a.ndim == 1 or "ffn_gate_inp" in name or a.shape[-1] % 32:
            w.add_tensor(name, a)
        else:
            w.add_tensor(name, quantize(a, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main(*sys.argv[1:])
