#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rounding to float16 between operations costs a model with gated delta nets, and in
which layer: Qwen3.5 in float64, with the roundings of the HIP backend put in one by one.
Checks itself with the golden model, whose weights it reads, then takes random models of 12
layers, 9 of them gated delta nets. What engine/parts/delta.c and docs/gpu.md say of sharp layers comes from here.

    pip install numpy                         (in a venv outside the repository)
    delta_halves.py > tests/golden/delta_halves.tsv
"""
import json
import os
import struct

import numpy as np

GOLDEN = "tests/golden/models/qwen35"
N_TOK = 120
SEEDS, TEXTS = 3, 3


def as_is(x):
    return x


def half(x):
    return x.astype(np.float16).astype(np.float64)


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32) + np.uint32(0x8000)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def load(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            out[name] = bits.view(np.float32).astype(np.float64).reshape(t["shape"])
    return out


def silu(x):
    return x / (1 + np.exp(-x))


def norm(x, weight=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


class Model:
    """sharp: the first so many gated delta nets keep q, k and v in full to the convolution.
    whole: so many layers keep everything in full. only: nothing is rounded but the input of
    that layer's projections."""

    def __init__(self, config, weights):
        self.c, self.w = config, weights
        self.linear = [i for i, kind in enumerate(config["layer_types"])
                       if kind == "linear_attention"]
        self.rounds = self.round = as_is
        self.sharp, self.whole, self.only = 0, 0, -1

    def layer(self, i, x):
        self.round = as_is if i < self.whole else self.rounds
        prefix, r = "model.layers.%d." % i, self.round
        part = lambda name: self.w[prefix + name]
        n = norm(x, 1 + part("input_layernorm.weight"))
        if i in self.linear:
            x = x + self.delta(i, lambda name: part("linear_attn." + name), n)
        else:
            x = x + self.attention(lambda name: part("self_attn." + name), r(n))
        n = r(norm(x, 1 + part("post_attention_layernorm.weight")))
        gate, up = (r(n @ part("mlp.%s_proj.weight" % k).T) for k in ("gate", "up"))
        return x + r(r(silu(gate)) * up) @ part("mlp.down_proj.weight").T

    def run(self, ids):
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(len(self.c["layer_types"])):
            x = self.layer(i, x)
        x = self.round(norm(x, 1 + self.w["model.norm.weight"])) @ self.w["lm_head.weight"].T
        x -= x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    def mixed(self, i, part, n):
        """What the convolution leaves: q, k and v."""
        r = self.round
        weight, conv = part("in_proj_qkv.weight"), part("conv1d.weight")[:, 0]
        rounded, width = half(n) if i == self.only else r(n), conv.shape[1]
        is_sharp = i in self.linear[:self.sharp]
        x = n @ weight.T if is_sharp else r(rounded @ weight.T)
        x = np.concatenate([np.zeros((width - 1, x.shape[1])), x])
        return r(silu(sum(x[j:j + len(n)] * conv[:, j] for j in range(width)))), rounded

    def delta(self, i, part, n):
        c, r, t = self.c, self.round, len(n)
        hk, hv = c["linear_num_key_heads"], c["linear_num_value_heads"]
        k_dim, v_dim = c["linear_key_head_dim"], c["linear_value_head_dim"]
        mixed, n = self.mixed(i, part, n)
        z, b, a = (n @ part("in_proj_%s.weight" % name).T for name in "zba")
        q, k = (np.repeat(unit(mixed[:, at:at + hk * k_dim].reshape(t, hk, k_dim)), hv // hk, 1)
                for at in (0, hk * k_dim))
        v = mixed[:, 2 * hk * k_dim:].reshape(t, hv, v_dim)
        keep = np.exp(-np.exp(part("A_log")) * np.logaddexp(0, a + part("dt_bias")))
        strength = 1 / (1 + np.exp(-b))
        state, y = np.zeros((hv, v_dim, k_dim)), np.zeros((t, hv, v_dim))
        for j in range(t):
            state *= keep[j][:, None, None]
            change = strength[j][:, None] * (v[j] - (state * k[j][:, None]).sum(-1))
            state += change[:, :, None] * k[j][:, None]
            y[j] = (state * q[j][:, None]).sum(-1) / np.sqrt(k_dim)
        y = norm(r(y), part("norm.weight")) * silu(r(z).reshape(t, hv, v_dim))
        return r(y.reshape(t, hv * v_dim)) @ part("out_proj.weight").T

    def attention(self, part, n):
        c, r, t = self.c, self.round, len(n)
        h, g, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        rope = c["rope_parameters"]
        n_rot = int(dim * rope["partial_rotary_factor"])
        angle = np.arange(t)[:, None] * rope["rope_theta"] ** (-np.arange(0, n_rot, 2) / n_rot)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

        def turned(x, weight):
            x = norm(x, 1 + weight)
            a, b = x[..., :n_rot // 2], x[..., n_rot // 2:n_rot]
            return r(np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., n_rot:]], -1))
        q, k, v = (r(n @ part("%s_proj.weight" % name).T) for name in "qkv")
        q, gate = np.split(q.reshape(t, h, 2 * dim), 2, -1)
        q = turned(q, part("q_norm.weight"))
        k = np.repeat(turned(k.reshape(t, g, dim), part("k_norm.weight")), h // g, 1)
        v = np.repeat(v.reshape(t, g, dim), h // g, 1)
        score = np.einsum("thd,shd->hts", q, k) / np.sqrt(dim)
        score = np.exp(np.where(np.tril(np.ones((t, t))) > 0, score, -np.inf))
        y = r(np.einsum("hts,shd->thd", score / score.sum(-1, keepdims=True), v))
        return r(y / (1 + np.exp(-gate))).reshape(t, h * dim) @ part("o_proj.weight").T


def random_model(config, seed):
    """As make_hf_models.randomize makes them."""
    rng = np.random.default_rng(seed)
    c = {**config, "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 12,
         "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 3,
         "linear_key_head_dim": 32, "linear_value_head_dim": 32,
         "linear_num_key_heads": 4, "linear_num_value_heads": 8}
    d, n_v = 128, 8 * 32
    n_channels, q, kv = 2 * 4 * 32 + n_v, 4 * c["head_dim"], 2 * c["head_dim"]
    mlp = {"mlp.gate_proj": (d, d), "mlp.up_proj": (d, d), "mlp.down_proj": (d, d),
           "input_layernorm": (d,), "post_attention_layernorm": (d,)}
    linear = {"linear_attn.in_proj_qkv": (n_channels, d), "linear_attn.in_proj_z": (n_v, d),
              "linear_attn.in_proj_b": (8, d), "linear_attn.in_proj_a": (8, d),
              "linear_attn.conv1d": (n_channels, 1, 4), "linear_attn.norm": (32,),
              "linear_attn.out_proj": (d, n_v)}
    full = {"self_attn.q_proj": (2 * q, d), "self_attn.k_proj": (kv, d),
            "self_attn.v_proj": (kv, d), "self_attn.o_proj": (d, q),
            "self_attn.q_norm": (c["head_dim"],), "self_attn.k_norm": (c["head_dim"],)}

    def filled(name, shape):
        noise = rng.standard_normal(shape)
        if "norm" in name:
            return bf16(0.1 * noise + (name == "linear_attn.norm"))
        return bf16(0.5 * noise if "conv1d" in name else 1.5 * noise / shape[-1] ** 0.5)
    w = {"model.embed_tokens.weight": bf16(0.5 * rng.standard_normal((c["vocab_size"], d))),
         "lm_head.weight": filled("lm_head", (c["vocab_size"], d)),
         "model.norm.weight": filled("norm", (d,))}
    for i, kind in enumerate(c["layer_types"]):
        is_linear = kind == "linear_attention"
        for name, shape in {**mlp, **(linear if is_linear else full)}.items():
            w["model.layers.%d.%s.weight" % (i, name)] = filled(name, shape)
        if is_linear:
            prefix = "model.layers.%d.linear_attn." % i
            w[prefix + "A_log"] = bf16(rng.standard_normal(8))
            w[prefix + "dt_bias"] = bf16(0.5 * rng.standard_normal(8))
    return Model(c, w), rng.integers(0, 500, (TEXTS, N_TOK))


def golden():
    """The model, and [(ids, log-probabilities of all but the first)] of its reference."""
    with open(os.path.join(GOLDEN, "config.json"), encoding="utf-8") as f:
        model = Model(json.load(f), load(GOLDEN))
    with open(os.path.join(GOLDEN, "reference.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    out = []
    for case in cases:
        ids = case["prompt_ids"] + case["continuation_ids"]
        want = list(case["prompt_logprobs"])
        for step in case["steps"]:
            want += [p for token, p in step["top"] if token == step["token"]]
        out.append((np.array(ids), np.array(want)))
    return model, out


def report(name, what, model, cases, **how):
    for key, value in {"rounds": as_is, "sharp": 0, "whole": 0, "only": -1, **how}.items():
        setattr(model, key, value)
    off = [np.abs(model.run(ids)[np.arange(len(ids) - 1), ids[1:]] - want)
           for ids, want in cases]
    off = np.concatenate(off)
    print("%s\t%s\t%.4f\t%.5f" % (name, what, off.max(), off.mean()), flush=True)
    return off.max()


def report_all(name, model, cases):
    n = len(model.linear)
    report(name, "all rounded", model, cases, rounds=half)
    for sharp in sorted({1, 3, n}):
        report(name, "first %d sharp" % sharp, model, cases, rounds=half, sharp=sharp)
    report(name, "first layer whole", model, cases, rounds=half, whole=1)
    for i, layer in enumerate(model.linear):
        report(name, "input of delta net %d" % (i + 1), model, cases, only=layer)


def main():
    print("# tests/golden/delta_halves.py, numpy %s" % np.__version__)
    print("# model\twhat\tlargest\tmean")
    model, cases = golden()
    assert report("qwen35", "nothing rounded", model, cases) < 1e-4
    report_all("qwen35", model, cases)
    for seed in range(SEEDS):
        other, texts = random_model(model.c, seed)
        report_all("random %d" % seed, other,
                   [(ids, other.run(ids)[np.arange(N_TOK - 1), ids[1:]]) for ids in texts])


if __name__ == "__main__":
    main()
