#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How exact are halod and llama.cpp at the widths of real models?

    tests/bench/accuracy.py [--build DIR] [--work DIR] [--models dense,experts]
                            [--formats q4_0,q4_k,q6_k,q8_0,bf16] [--cases N] [--steps N]
                            [--sides exact,exact-int8,cpu,cpu-int8,hip,llama]
                            [--hip-library FILE]
                            [--hip-kernels DIR]                            (prints CSV)

It runs in an environment with llama-cpp-python, gguf and numpy (that of peers.py). The
models are GGUF files of random weights: four layers of Qwen3-1.7B's shape, and four of
Qwen3-30B-A3B's with 32 experts. Norm weights are spread as in trained models: one channel
of a hundred is eight times as large, so that activations have outliers.

The reference is the forward pass below: numpy, float64, weights decoded by the gguf
package. Its results stay in --work for the next run. Each side reads the same file and is
fed the same tokens. Two numbers come out for
each side: the mean |difference of the log-probability| from the reference, over each next
token of a prompt and over the reference's best five at each greedy step; and how many of
those steps have the same best token (top-1).

For a model with experts, a router's near-tie may fall to either side on every fast path.
"mean" then says more of ties than of rounding. So the median is given too."""
import argparse
import ctypes
import json
import os
import subprocess
import sys

import numpy

import peers_llama

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SHAPES = {
    "dense": {"layers": 4, "d": 2048, "heads": 16, "kv_heads": 8, "head_dim": 128,
              "ffn": 6144, "experts": 0, "used": 0, "vocab": 8192, "tied": False,
              "outliers": True},
    "experts": {"layers": 4, "d": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128,
                "ffn": 768, "experts": 32, "used": 8, "vocab": 8192, "tied": False,
                "outliers": True},
}
N_PROMPT, N_TOP = 40, 5


class Reference:
    """Qwen3 and Qwen3-MoE in float64. Sequences of equal length go side by side, so that
    each weight becomes float64 once a step."""

    def __init__(self, path, shape):
        import gguf
        self.s = shape
        self.tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
        self.decoded = {}

    def weight(self, name):
        """Decoded weights, (rows, K) or (experts, rows, K), as float32."""
        import gguf
        if name not in self.decoded:
            t = self.tensors[name]
            dims = [int(n) for n in reversed(t.shape)]
            self.decoded[name] = gguf.dequantize(t.data, t.tensor_type).reshape(dims)
        return self.decoded[name]

    def mul(self, name, x, expert=None):
        w = self.weight(name)
        w = w if expert is None else w[expert]
        return x @ w.astype(numpy.float64).T

    def norm(self, name, x):
        scale = 1 / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        return x * scale * self.weight(name).astype(numpy.float64)

    def rope(self, x, positions):
        half = x.shape[-1] // 2
        angle = positions[:, None] * 1e6 ** (-numpy.arange(half) / half)
        cos, sin = numpy.cos(angle)[:, None], numpy.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return numpy.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, b, x, past):
        """x: (sequences, new tokens, d). past: their keys and values so far, or None."""
        s, (n_seq, n, _) = self.s, x.shape
        at = past[0].shape[1] if past else 0
        positions = numpy.arange(at, at + n)
        q = self.mul(b + "attn_q.weight", x).reshape(n_seq, n, s["heads"], -1)
        k = self.mul(b + "attn_k.weight", x).reshape(n_seq, n, s["kv_heads"], -1)
        v = self.mul(b + "attn_v.weight", x).reshape(n_seq, n, s["kv_heads"], -1)
        q = self.rope(self.norm(b + "attn_q_norm.weight", q), positions)
        k = self.rope(self.norm(b + "attn_k_norm.weight", k), positions)
        k, v = self.stored(k, v)
        if past:
            k, v = numpy.concatenate([past[0], k], 1), numpy.concatenate([past[1], v], 1)
        group = s["heads"] // s["kv_heads"]
        score = numpy.einsum("snhd,smhd->shnm", q, numpy.repeat(k, group, 2))
        score /= numpy.sqrt(s["head_dim"])
        score[:, :, numpy.arange(k.shape[1])[None] > positions[:, None]] = -numpy.inf
        p = numpy.exp(score - score.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out = numpy.einsum("shnm,smhd->snhd", p, numpy.repeat(v, group, 2))
        return self.mul(b + "attn_output.weight", out.reshape(n_seq, n, -1)), (k, v)

    def stored(self, k, v):
        """What a cache makes of keys and values; kv_bytes.py has others."""
        return k, v

    def chosen(self, b, p):
        """Each token's experts, best first."""
        return numpy.argsort(-p, axis=-1)[:, :self.s["used"]]

    def mlp(self, b, x):
        def one(x, tail, expert=None):
            gate = self.mul(b + "ffn_gate" + tail, x, expert)
            up = self.mul(b + "ffn_up" + tail, x, expert)
            return self.mul(b + "ffn_down" + tail, gate / (1 + numpy.exp(-gate)) * up,
                            expert)
        if not self.s["experts"]:
            return one(x, ".weight")
        logits = self.mul(b + "ffn_gate_inp.weight", x)
        p = numpy.exp(logits - logits.max(-1, keepdims=True))
        chosen = self.chosen(b, p)
        share = numpy.take_along_axis(p, chosen, -1)
        share /= share.sum(-1, keepdims=True)
        out = numpy.zeros_like(x)
        for e in range(self.s["experts"]):
            rows, slots = numpy.nonzero(chosen == e)
            if len(rows):
                out[rows] += share[rows, slots, None] * one(x[rows], "_exps.weight", e)
        return out

    def feed(self, tokens, cache):
        """Log-probabilities (sequences, n, vocab) behind each of the tokens (sequences, n).
        cache: a list, one a layer."""
        x = self.weight("token_embd.weight")[tokens].astype(numpy.float64)
        for i in range(self.s["layers"]):
            b = "blk.%d." % i
            if len(cache) == i:
                cache.append(None)
            a, cache[i] = self.attention(b, self.norm(b + "attn_norm.weight", x), cache[i])
            x = x + a
            n = self.norm(b + "ffn_norm.weight", x)
            x = x + self.mlp(b, n.reshape(-1, n.shape[-1])).reshape(x.shape)
        logits = self.mul("output.weight", self.norm("output_norm.weight", x))
        logits -= logits.max(-1, keepdims=True)
        return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))

    def run(self, prompts, n_steps):
        """Cases as haloctl verify reads them: the prompts, then greedy steps."""
        cache = []
        cases = [{"prompt_ids": p, "continuation_ids": [], "steps": []} for p in prompts]
        logp = self.feed(prompts, cache)
        for c, row in zip(cases, logp):
            c["prompt_logprobs"] = [float(row[i, t])
                                    for i, t in enumerate(c["prompt_ids"][1:])]
        for _ in range(n_steps):
            for c, row in zip(cases, logp[:, -1]):
                best = numpy.argsort(-row)[:N_TOP]
                c["steps"].append({"token": int(best[0]),
                                   "top": [[int(t), float(row[t])] for t in best]})
                c["continuation_ids"].append(int(best[0]))
            logp = self.feed([[c["continuation_ids"][-1]] for c in cases], cache)
        return cases


def halod(a, model, reference, *more):
    """(mean, median or None, top-1 share) of what haloctl verify says."""
    run = subprocess.run(
        [os.path.join(a.build, "haloctl"), "verify", "--model", model, "--reference",
         reference, "--json", "--max-delta", "100", *more], stdout=subprocess.PIPE,
        text=True)
    said = json.loads(run.stdout)
    return said["mean_delta"], said["median_delta"], said["top1_agree"] / said["steps"]


def llama(model, cases):
    """The same of llama.cpp: prompt in one batch, then token by token."""
    peer = peers_llama.Peer(model, os.cpu_count())
    l, deltas, agree, steps = peer.l, [], 0, 0

    def logp(i):
        row = numpy.ctypeslib.as_array(l.llama_get_logits_ith(peer.one, i),
                                       (peer.n_vocab,)).astype(numpy.float64)
        row = row - row.max()
        return row - numpy.log(numpy.exp(row).sum())

    for c in cases:
        peer.clear(peer.one)
        prompt, ids = c["prompt_ids"], c["continuation_ids"]
        peer.feed(peer.one, prompt, [0] * len(prompt), list(range(len(prompt))), True)
        for i, want in enumerate(c["prompt_logprobs"]):
            deltas.append(abs(logp(i)[prompt[i + 1]] - want))
        row = logp(len(prompt) - 1)
        for i, step in enumerate(c["steps"]):
            deltas += [abs(row[t] - want) for t, want in step["top"]]
            agree += int(row.argmax()) == ids[i]
            steps += 1
            peer.feed(peer.one, [ids[i]], [0], [len(prompt) + i])
            row = logp(0)
    return sum(deltas) / len(deltas), float(numpy.median(deltas)), agree / steps


def report(model, fmt, side, numbers):
    mean, median, top1 = numbers
    print("%s,%s,%s,%.6f,%.6f,%.4f" % (model, fmt, side, mean, median, top1), flush=True)


def references(a, path, shape, file):
    """The cases of a model file, computed once and kept in `file`."""
    if os.path.exists(file):
        with open(file) as f:
            return json.load(f)["cases"]
    rng = numpy.random.default_rng(2)
    # Ids that the borrowed tokenizer has: it refuses others.
    prompts = rng.integers(300, 3000, (a.cases, N_PROMPT)).tolist()
    cases = Reference(path, shape).run(prompts, a.steps)
    with open(file + ".new", "w") as f:
        json.dump({"cases": cases}, f)
    os.rename(file + ".new", file)
    return cases


def measure(a, model, fmt):
    path = os.path.join(a.work, "%s-%s.gguf" % (model, fmt))
    shape = SHAPES[model]
    if not os.path.exists(path):
        peers_llama.make(shape, fmt, path + ".new", os.path.join(TOP, "models/halo-tiny"))
        os.rename(path + ".new", path)
    file = "%s.reference-%d-%d.json" % (path, a.cases, a.steps)
    cases = references(a, path, shape, file)
    sides = a.sides.split(",")
    for side, more in (("exact", ["--exact"]), ("cpu", [])):
        if side in sides:
            report(model, fmt, "halod " + side, halod(a, path, file, *more))
        if side + "-int8" in sides:
            report(model, fmt, "halod %s int8 cache" % side,
                   halod(a, path, file, *more, "--kv-type", "int8"))
    if "hip" in sides and a.hip_library:
        more = ["--hip-kernels", a.hip_kernels] if a.hip_kernels else []
        report(model, fmt, "halod hip", halod(a, path, file, "--backend", "hip",
                                              "--hip-library", a.hip_library, *more))
    if "llama" in sides:
        report(model, fmt, "llama.cpp cpu", llama(path, cases))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default=os.path.join(TOP, "build"))
    p.add_argument("--work", default="/tmp/accuracy")
    p.add_argument("--models", default="dense,experts")
    p.add_argument("--formats", default="q4_0,q4_k,q6_k,q8_0,bf16")
    p.add_argument("--cases", type=int, default=12)
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--sides", default="exact,cpu,hip,llama",
                   help="who computes; hip only with --hip-library; with -int8 keys and "
                        "values are in 8 bits")
    p.add_argument("--hip-library")
    p.add_argument("--hip-kernels")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    print("model,format,side,mean |delta logp|,median,top-1")
    for model in a.models.split(","):
        for fmt in a.formats.split(","):
            measure(a, model, fmt)


if __name__ == "__main__":
    main()
