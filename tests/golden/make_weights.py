#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode some rows of the checkpoints in this tree with numpy, straight from the
description of the formats, and write tests/golden/weights.tsv, which
tests/unit/model/test_model.c compares with weight_decode. Needs numpy; run from
the top of the tree when a checkpoint or this script changes.

One line: model, weight, N, K, row, then the sum of the row, the sum of value times
column, and the values of the columns 0, 7, 8, K/2+1, K-1."""
import glob
import json
import os
import struct
import numpy as np

TYPES = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32,
         "I32": np.int32, "I64": np.int64, "U8": np.uint8, "F8_E4M3": np.uint8}


def bf16(a):
    return (a.astype(np.uint32) << 16).view(np.float32)


def load(folder):
    out = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        raw = open(path, "rb").read()
        (n,) = struct.unpack("<Q", raw[:8])
        for name, e in json.loads(raw[8:8 + n]).items():
            if name == "__metadata__":
                continue
            begin, end = e["data_offsets"]
            a = np.frombuffer(raw[8 + n + begin:8 + n + end], TYPES[e["dtype"]])
            a = a.reshape(e["shape"])
            out[name] = bf16(a) if e["dtype"] == "BF16" else a
    return out


def unpack(words, axis):
    """int32 words to nibbles, lowest first, along axis."""
    w = words.view(np.uint32)
    n = np.stack([(w >> (4 * i)) & 15 for i in range(8)], axis=axis + 1)
    shape = list(words.shape)
    shape[axis] *= 8
    return n.reshape(shape).astype(np.int32)


def decode_awq(t, name):
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    q, z = (w.reshape(-1, w.shape[1] // 8, 8)[:, :, order].reshape(w.shape)
            for w in (unpack(t[name + ".qweight"], 1), unpack(t[name + ".qzeros"], 1)))
    s = t[name + ".scales"].astype(np.float32)
    group = q.shape[0] // z.shape[0]
    return ((q - np.repeat(z, group, 0)) * np.repeat(s, group, 0)).T


def decode_gptq(t, name):
    q = unpack(t[name + ".qweight"], 0)
    z = (unpack(t[name + ".qzeros"], 1) + 1) % 16
    g = t[name + ".g_idx"]
    return ((q - z[g]) * t[name + ".scales"].astype(np.float32)[g]).T


def decode_nvfp4(t, name):
    packed = t[name + ".weight_packed"]
    b = t[name + ".weight_scale"].astype(int)
    s = np.where(b >> 3 == 0, b * 2.0 ** -9, (8 + b % 8) * 2.0 ** ((b >> 3) - 10.0))
    s = (s / t[name + ".weight_global_scale"][0]).astype(np.float32)
    magnitude = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
    q = np.stack([packed & 15, packed >> 4], 2).reshape(packed.shape[0], -1)
    return magnitude[q & 7] * np.where(q & 8, np.float32(-1), 1) * np.repeat(s, 16, 1)


def decode(t, name):
    if name + ".g_idx" in t:
        return decode_gptq(t, name)
    if name + ".qweight" in t:
        return decode_awq(t, name)
    if name + ".weight_global_scale" in t:
        return decode_nvfp4(t, name)
    if name + ".weight" in t:
        return t[name + ".weight"].astype(np.float32)
    q = unpack(t[name + ".weight_packed"], 1)
    scale = t[name + ".weight_scale"].astype(np.float32)
    group = q.shape[1] // scale.shape[1]
    zero = np.full(scale.shape, 8)
    if name + ".weight_zero_point" in t:
        zero = unpack(t[name + ".weight_zero_point"], 0)[:q.shape[0]]
    q = q - np.repeat(zero, group, axis=1)
    return q.astype(np.float32) * np.repeat(scale, group, axis=1)


WEIGHTS = {
    "models/halo-tiny": [
        "model.embed_tokens", "model.layers.0.self_attn.q_proj",
        "model.layers.3.self_attn.o_proj", "model.layers.5.mlp.gate",
        "model.layers.7.mlp.experts.15.down_proj",
        "model.layers.2.mlp.experts.0.up_proj"],
    "tests/golden/models/qwen3-bf16": [
        "model.layers.1.mlp.gate_proj", "model.layers.0.self_attn.k_proj"],
    "tests/golden/models/qwen3moe-ct-asym": [
        "lm_head", "model.layers.0.self_attn.v_proj",
        "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.experts.3.gate_proj",
        "model.layers.0.mlp.experts.7.down_proj"],
    "tests/golden/models/qwen3-awq": [
        "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"],
    "tests/golden/models/qwen3-gptq": [
        "model.layers.0.self_attn.o_proj", "model.layers.1.mlp.up_proj"],
    "tests/golden/models/qwen3-nvfp4": [
        "model.layers.0.self_attn.v_proj", "model.layers.1.mlp.down_proj"],
}


def main():
    with open("tests/golden/weights.tsv", "w") as f:
        for folder, names in WEIGHTS.items():
            tensors = load(folder)
            for name in names:
                w = decode(tensors, name)
                n, k = w.shape
                for row in sorted({0, 1, n // 2 + 3, n - 1}):
                    v = w[row].astype(np.float64)
                    cols = [0, 7, 8, k // 2 + 1, k - 1]
                    values = [v.sum(), (v * np.arange(k)).sum(), *v[cols]]
                    f.write("\t".join([folder, name, str(n), str(k), str(row)]
                                      + ["%.9g" % x for x in values]) + "\n")


main()
