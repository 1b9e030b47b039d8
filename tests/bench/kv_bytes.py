#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a KV cache in 8 bits costs, with keys as they are and with keys after a Hadamard turn.

    tests/bench/kv_bytes.py [--models halo-tiny,dense,experts] [--work DIR]    (prints CSV)

The models run in numpy, float64: halo-tiny, which is trained, and those of accuracy.py,
whose files of random weights lie in --work (made if need be, with its environment).
Nothing else is rounded than what the cache keeps, and experts are those of the exact run.
So the figures are of the cache alone.

A row of a head gets a scale and integers up to 127 (kernels/ops/kv_bytes.h). "keys turned"
multiplies a row of keys by a Hadamard matrix before that, and queries by the same. Here the
row is turned back instead, which gives the same products. "both turned" does so with values,
too. "f16" keeps halves.

KIVI and KVQuant (papers of 2024) found a few channels of keys far above the rest in trained
models. A row "N times" has such channels: of each head
two pairs of keys' channels N times as large, and queries' 1/N. A pair rotates together, so
the model computes the same as before. Which channels, and the N, are ours.

The figures: the mean |difference of the log-probability| from float64 over the exact run's
five best tokens of each position, and the share of positions with the same best token."""
import argparse
import json
import os
import struct

import numpy

import accuracy

PAIRS = (1, 5)
SIZES = (1, 4, 16)
N_SEQ, N_TOK = 8, 64
HALO = os.path.join(accuracy.TOP, "models/halo-tiny")


def half(x):
    return x.astype(numpy.float16).astype(numpy.float64)


def as_bytes(x):
    scale = half(numpy.abs(x).max(-1, keepdims=True) / 127)
    return numpy.clip(numpy.rint(x / scale), -127, 127) * scale


def turn(x):
    """By blocks, each the largest power of two that divides the row. Its own inverse."""
    n = x.shape[-1] & -x.shape[-1]
    matrix = numpy.ones((1, 1))
    while len(matrix) < n:
        matrix = numpy.block([[matrix, matrix], [matrix, -matrix]])
    blocks = x.reshape(*x.shape[:-1], -1, n)
    return (blocks @ (matrix / n ** 0.5)).reshape(x.shape)


def turned(x):
    return turn(as_bytes(half(turn(x))))


CACHES = {
    "f16": (half, half),
    "int8": (lambda x: as_bytes(half(x)), lambda x: as_bytes(half(x))),
    "int8, keys turned": (turned, lambda x: as_bytes(half(x))),
    "int8, both turned": (turned, turned),
    "int8 keys alone": (lambda x: as_bytes(half(x)), half),
    "int8 keys alone, turned": (turned, half),
}


class Model(accuracy.Reference):
    """cache: a pair of CACHES, or None."""

    def __init__(self, path, shape):
        super().__init__(path, shape)
        self.cache, self.choices, self.times = None, {}, 1

    def weight(self, name):
        w = super().weight(name)
        for kind, by in (("attn_k_norm", self.times), ("attn_q_norm", 1 / self.times)):
            if kind in name:
                w = w.copy()
                for pair in PAIRS:
                    w[[pair, pair + len(w) // 2]] *= by
        return w

    def stored(self, k, v):
        return (self.cache[0](k), self.cache[1](v)) if self.cache else (k, v)

    def chosen(self, b, p):
        if self.cache is None:
            self.choices[b] = super().chosen(b, p)
        return self.choices[b]


class Halo(Model):
    """halo-tiny as Hugging Face names it."""
    NAMES = {"token_embd": "embed_tokens", "output": "embed_tokens", "output_norm": "norm",
             "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "ffn_gate_inp": "mlp.gate"}
    ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "output": "o_proj",
                 "q_norm": "q_norm", "k_norm": "k_norm"}

    def __init__(self):
        with open(os.path.join(HALO, "config.json"), encoding="utf-8") as f:
            c = json.load(f)
        self.s = {"layers": c["num_hidden_layers"], "heads": c["num_attention_heads"],
                  "kv_heads": c["num_key_value_heads"], "head_dim": c["head_dim"],
                  "experts": c["num_experts"], "used": c["num_experts_per_tok"]}
        self.decoded, self.cache, self.choices, self.times = {}, None, {}, 1
        with open(os.path.join(HALO, "model.safetensors"), "rb") as f:
            self.head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            self.data = f.read()

    def raw(self, name, kind):
        begin, end = self.head[name]["data_offsets"]
        return numpy.frombuffer(self.data[begin:end], kind).reshape(self.head[name]["shape"])

    def plain(self, name):
        bits = self.raw(name, numpy.uint16).astype(numpy.uint32) << 16
        return bits.view(numpy.float32)

    def linear(self, name):
        """int4 in groups of 32, or bf16."""
        if name + ".weight" in self.head:
            return self.plain(name + ".weight")
        packed = self.raw(name + ".weight_packed", numpy.uint32)
        q = (packed[:, :, None] >> numpy.arange(0, 32, 4, dtype=numpy.uint32) & 15)
        q = q.reshape(len(packed), -1).astype(numpy.float32) - 8
        return q * numpy.repeat(self.plain(name + ".weight_scale"), 32, 1)

    def named(self, name):
        parts = name.removesuffix(".weight").split(".")
        prefix = "model.layers.%s." % parts[1] if parts[0] == "blk" else "model."
        part = parts[-1]
        if part in self.NAMES:
            return self.linear(prefix + self.NAMES[part])
        if part.startswith("attn_"):
            return self.linear(prefix + "self_attn." + self.ATTENTION[part[5:]])
        kind = part.removeprefix("ffn_").removesuffix("_exps")
        return numpy.stack([self.linear("%smlp.experts.%d.%s_proj" % (prefix, e, kind))
                            for e in range(self.s["experts"])])

    def weight(self, name):
        if name not in self.decoded:
            self.decoded[name] = self.named(name)
        return super().weight(name)


def halo_texts():
    """Its reference's texts, and the log-probabilities of the continuations' tokens."""
    with open(os.path.join(HALO, "reference.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    return [(c["prompt_ids"] + c["continuation_ids"], c["prompt_logprobs"]) for c in cases]


def check(model, texts):
    """Against Transformers."""
    for ids, want in texts[:8]:
        logp = model.feed([ids], [])[0]
        got = logp[numpy.arange(len(want)), ids[1:len(want) + 1]]
        assert numpy.abs(got - want).max() < 1e-3, numpy.abs(got - want).max()


def compare(name, model, texts):
    for times in SIZES:
        model.times = times
        found = {cache: ([], []) for cache in CACHES}
        for ids in texts:
            ids = numpy.array(ids)
            model.cache = None
            exact = model.feed(ids, [])
            best = numpy.argsort(-exact, axis=-1)[..., :accuracy.N_TOP]
            want = numpy.take_along_axis(exact, best, -1)
            for cache, (off, same) in found.items():
                model.cache = CACHES[cache]
                logp = model.feed(ids, [])
                got = numpy.take_along_axis(logp, best, -1)
                off.append(numpy.abs(got - want).ravel())
                same.append((logp.argmax(-1) == best[..., 0]).ravel())
        for cache, (off, same) in found.items():
            off, same = numpy.concatenate(off), numpy.concatenate(same)
            print("%s,%d,%s,%.6f,%.4f,%d" % (name, times, cache.replace(",", ""),
                                             off.mean(), same.mean(), len(same)), flush=True)


def random_model(a, name):
    path = os.path.join(a.work, name + "-bf16.gguf")
    shape = accuracy.SHAPES[name]
    if not os.path.exists(path):
        accuracy.peers_llama.make(shape, "bf16", path + ".new", HALO)
        os.rename(path + ".new", path)
    return Model(path, shape)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--models", default="halo-tiny,dense,experts")
    p.add_argument("--work", default="/tmp/accuracy")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    print("model,channels times,cache,mean |delta logp|,same best,positions")
    for name in a.models.split(","):
        if name == "halo-tiny":
            model, texts = Halo(), halo_texts()
            check(model, texts)
            compare(name, model, [[ids] for ids, _ in texts])
            continue
        rng = numpy.random.default_rng(3)
        texts = rng.integers(300, 3000, (1, N_SEQ, N_TOK))
        compare(name, random_model(a, name), texts)


if __name__ == "__main__":
    main()
