#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small random checkpoints with sliding windows, stretched rotary positions, and
grouped sigmoid routing with shared experts; and their reference.json from a plain
evaluation in float64 below, written from the papers and independent of the engine.
Needs numpy; run from the top of the tree:

    python3 tests/golden/make_dense_models.py            make the models in MODELS
    python3 tests/golden/make_dense_models.py NAME       make these of them
    python3 tests/golden/make_dense_models.py --check D  compare with D/reference.json,
                                                         made by another implementation

The first also writes tests/golden/rope.json: configs, and the frequencies and factor
they mean, for tests/unit/engine/test_rope.c.
"""
import glob
import json
import math
import os
import shutil
import struct
import sys
import numpy as np

GOLDEN = "tests/golden/models"
BASE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "intermediate_size": 160, "num_hidden_layers": 3,
        "vocab_size": 512, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": 500,
        "dtype": "bfloat16"}
MODELS = {
    "mistral-window": {**BASE, "model_type": "mistral", "sliding_window": 16,
                       "architectures": ["MistralForCausalLM"], "rope_theta": 10000.0,
                       "rope_scaling": {"type": "linear", "factor": 4.0}},
    "qwen2-yarn-window": {**BASE, "model_type": "qwen2", "sliding_window": 24,
                          "architectures": ["Qwen2ForCausalLM"],
                          "use_sliding_window": True, "max_window_layers": 1,
                          "rope_parameters": {
                              "rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6,
                              "original_max_position_embeddings": 64}},
    "glm4moe-groups": {**BASE, "model_type": "glm4_moe", "attention_bias": True,
                       "architectures": ["Glm4MoeForCausalLM"], "rope_theta": 1e4,
                       "partial_rotary_factor": 0.5, "first_k_dense_replace": 1,
                       "n_routed_experts": 8, "n_shared_experts": 2, "n_group": 4,
                       "topk_group": 2, "num_experts_per_tok": 3,
                       "moe_intermediate_size": 24, "norm_topk_prob": True,
                       "routed_scaling_factor": 1.5, "use_qk_norm": True},
    # What GGUF can say too: no windows of some layers.
    "llama-llama3": {**BASE, "model_type": "llama", "num_hidden_layers": 2,
                     "architectures": ["LlamaForCausalLM"], "rope_theta": 1e4,
                     "tie_word_embeddings": False,
                     "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                                      "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                      "original_max_position_embeddings": 64}},
    "qwen2-bias": {**BASE, "model_type": "qwen2", "num_hidden_layers": 2,
                   "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1e6},
    # Every linear layer has a bias, as in Granite's code models and Bielik 4.5B v3. Weights are
    # integers of 4 bits times a power of two, so int4 and Q4_0 have the same numbers.
    "llama-biases": {**BASE, "model_type": "llama", "num_hidden_layers": 2,
                     "architectures": ["LlamaForCausalLM"], "rope_theta": 1e4,
                     "attention_bias": True, "mlp_bias": True,
                     "tie_word_embeddings": False, "rope_scaling": None},
}


def frequencies(c):
    """Of each pair of a head, and the factor of cos and sin."""
    p = c.get("rope_parameters") or c.get("rope_scaling") or {}
    theta = p.get("rope_theta", c.get("rope_theta", 10000.0))
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    dim = int(dim * c.get("partial_rotary_factor", 1))
    f = theta ** (-np.arange(0, dim, 2) / dim)
    kind = p.get("rope_type", p.get("type", "default"))
    if kind == "default":
        return f, 1.0
    s = p["factor"]
    if kind == "linear":
        return f / s, 1.0
    length = p["original_max_position_embeddings"]
    if kind == "llama3":
        wave = 2 * math.pi / f
        low, high = p["low_freq_factor"], p["high_freq_factor"]
        smooth = (length / wave - low) / (high - low)
        mid = (1 - smooth) * f / s + smooth * f
        f = np.where(wave < length / high, f, np.where(wave > length / low, f / s, mid))
        return f, 1.0
    assert kind == "yarn"

    def pair(turns):
        return dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = pair(p.get("beta_fast", 32)), pair(p.get("beta_slow", 1))
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)

    def sharp(m):
        return 0.1 * m * math.log(s) + 1 if s > 1 else 1.0
    factor = p.get("attention_factor")
    if factor is None and p.get("mscale") and p.get("mscale_all_dim"):
        factor = sharp(p["mscale"]) / sharp(p["mscale_all_dim"])
    return f / s * ramp + f * (1 - ramp), factor or sharp(1)


def window_of(c, layer):
    if c["model_type"] == "mistral":
        return c.get("sliding_window")
    if c.get("use_sliding_window") and layer >= c.get("max_window_layers", 28):
        return c["sliding_window"]
    return None


def route(c, w, n, name):
    """Ids and weights of the experts of one token, n."""
    p = 1 / (1 + np.exp(-(w[name + ".weight"] @ n)))
    choice = p + w[name + ".e_score_correction_bias"]
    groups = choice.reshape(c["n_group"], -1)
    best = np.argsort(-np.sort(groups, 1)[:, -2:].sum(1), kind="stable")
    closed = np.full(groups.shape, -np.inf)
    closed[best[:c["topk_group"]]] = 0
    ids = np.argsort(-(choice + closed.reshape(-1)), kind="stable")
    ids = ids[:c["num_experts_per_tok"]]
    scale = c["routed_scaling_factor"]
    return ids, p[ids] / (p[ids].sum() if c["norm_topk_prob"] else 1) * scale


def forward(c, w, ids):
    """Log-probabilities after each token, (T, V)."""
    t, heads, groups = len(ids), c["num_attention_heads"], c["num_key_value_heads"]
    freq, factor = frequencies(c)
    angle = np.arange(t)[:, None] * freq
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    half = len(freq)
    dim = c.get("head_dim") or c["hidden_size"] // heads

    def norm(x, name):
        rms = np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"])
        return x / rms * w[name + ".weight"]

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def rotate(x):
        a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def mlp(x, name):
        g = linear(x, name + "gate_proj")
        return linear(g / (1 + np.exp(-g)) * linear(x, name + "up_proj"),
                      name + "down_proj")

    def experts(x, name):
        y = mlp(x, name + "shared_experts.")
        for i, one in enumerate(x):
            for e, p in zip(*route(c, w, one, name + "gate")):
                y[i] += p * mlp(one, name + "experts.%d." % e)
        return y

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % layer
        n = norm(x, p + "input_layernorm")
        q, k, v = (linear(n, p + "self_attn.%s_proj" % i).reshape(t, -1, dim)
                   .transpose(1, 0, 2) for i in "qkv")
        if p + "self_attn.q_norm.weight" in w:
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        q, k = rotate(q), rotate(k)
        k, v = (np.repeat(i, heads // groups, 0) for i in (k, v))
        score = q @ k.transpose(0, 2, 1) / math.sqrt(dim)
        back = np.arange(t)[:, None] - np.arange(t)
        hidden = back < 0
        if window_of(c, layer):
            hidden |= back >= window_of(c, layer)
        score[:, hidden] = -np.inf
        e = np.exp(score - score.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True)) @ v
        x = x + linear(y.transpose(1, 0, 2).reshape(t, -1), p + "self_attn.o_proj")
        n = norm(x, p + "post_attention_layernorm")
        is_sparse = layer >= c.get("first_k_dense_replace", c["num_hidden_layers"])
        x = x + (experts if is_sparse else mlp)(n, p + "mlp.")
    head = "model.embed_tokens" if c.get("tie_word_embeddings") else "lm_head"
    y = norm(x, "model.norm") @ w[head + ".weight"].T
    y -= y.max(-1, keepdims=True)
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


def case(c, w, prompt, n):
    ids = [int(i) for i in prompt]
    steps = []
    for _ in range(n):
        last = forward(c, w, ids)[-1]
        best = np.argsort(-last, kind="stable")[:5]
        steps.append({"token": int(best[0]),
                      "top": [[int(i), round(float(last[i]), 5)] for i in best]})
        ids.append(int(best[0]))
    rows = forward(c, w, ids[:len(prompt)])
    return {"prompt_ids": ids[:len(prompt)],
            "prompt_logprobs": [round(float(rows[i, ids[i + 1]]), 5)
                                for i in range(len(prompt) - 1)],
            "continuation_ids": ids[len(prompt):], "steps": steps}


def random_weights(c, rng):
    d, f, k = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    nq, nkv = c["num_attention_heads"] * k, c["num_key_value_heads"] * k
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], d),
              "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        biased = c["model_type"] == "qwen2" or c.get("attention_bias")
        for name, rows, cols in (("q", nq, d), ("k", nkv, d), ("v", nkv, d),
                                 ("o", d, nq)):
            shapes[p + "self_attn." + name + "_proj.weight"] = (rows, cols)
            if biased and (name != "o" or c["model_type"] == "llama"):
                shapes[p + "self_attn." + name + "_proj.bias"] = (rows,)
        if c.get("use_qk_norm"):
            shapes[p + "self_attn.q_norm.weight"] = (k,)
            shapes[p + "self_attn.k_norm.weight"] = (k,)
        wide = {"mlp.": f}
        if i >= c.get("first_k_dense_replace", i + 1):
            n, e = c["n_routed_experts"], c["moe_intermediate_size"]
            wide = {"mlp.experts.%d." % j: e for j in range(n)}
            wide["mlp.shared_experts."] = e * c["n_shared_experts"]
            shapes[p + "mlp.gate.weight"] = (n, d)
            shapes[p + "mlp.gate.e_score_correction_bias"] = (n,)
        for name, width in wide.items():
            shapes[p + name + "gate_proj.weight"] = (width, d)
            shapes[p + name + "up_proj.weight"] = (width, d)
            shapes[p + name + "down_proj.weight"] = (d, width)
            for kind, rows in (("gate", width), ("up", width), ("down", d)):
                if c.get("mlp_bias"):
                    shapes[p + name + kind + "_proj.bias"] = (rows,)
        shapes[p + "input_layernorm.weight"] = (d,)
        shapes[p + "post_attention_layernorm.weight"] = (d,)
    out = {}
    for name, shape in shapes.items():
        a = rng.standard_normal(shape)
        # Large enough for attention to choose, and for the window to matter.
        a = 1 + 0.1 * a if "norm" in name else \
            0.5 * a if name.endswith("_proj.bias") or "embed" in name else \
            a * (2 if "q_proj" in name or "k_proj" in name else 1) / shape[-1] ** 0.5
        if c.get("mlp_bias") and name.endswith("_proj.weight"):
            step = 2.0 ** np.floor(np.log2(np.abs(a).max() / 7))
            a = np.clip(np.rint(a / step), -8, 7) * step
        out[name] = (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return out


def widen(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def save(path, tensors):
    header, at = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(a.shape),
                        "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            out.write(a.tobytes())


def load(folder):
    out = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        with open(path, "rb") as f:
            raw = f.read()
        (n,) = struct.unpack("<Q", raw[:8])
        for name, e in json.loads(raw[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = e["data_offsets"]
                bits = np.frombuffer(raw[8 + n + begin:8 + n + end], np.uint16)
                out[name] = widen(bits.reshape(e["shape"]))
    return out


def make(only):
    for i, (name, c) in enumerate(MODELS.items()):
        if only and name not in only:
            continue
        rng = np.random.default_rng(100 + i)
        folder = os.path.join(GOLDEN, name)
        os.makedirs(folder, exist_ok=True)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)
        bits = random_weights(c, rng)
        save(os.path.join(folder, "model.safetensors"), bits)
        w = {k: widen(v) for k, v in bits.items()}
        cases = [case(c, w, rng.integers(0, 500, n), 12) for n in (1, 23, 150)]
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(c, f, indent=2)
        with open(os.path.join(folder, "reference.json"), "w") as f:
            json.dump({"model": name, "reference": "tests/golden/make_dense_models.py",
                       "cases": cases}, f)


def check(folder):
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    with open(os.path.join(folder, "reference.json")) as f:
        cases = json.load(f)["cases"]
    w, worst = load(folder), 0.0
    for one in cases:
        ids = one["prompt_ids"] + one["continuation_ids"]
        rows = forward(c, w, ids)
        for i, p in enumerate(one["prompt_logprobs"]):
            worst = max(worst, abs(rows[i, ids[i + 1]] - p))
        for i, step in enumerate(one["steps"]):
            for token, p in step["top"]:
                worst = max(worst, abs(rows[len(one["prompt_ids"]) - 1 + i, token] - p))
    print("%s: largest difference %.1e" % (folder, worst))


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
ROPES = [
    (128, 1e6, None), (128, 1e4, {"type": "linear", "factor": 2.5}),
    (128, 5e5, LLAMA3), (64, 5e5, {**LLAMA3, "factor": 32.0}), (128, 1e6, YARN),
    (128, 1e6, {**YARN, "truncate": False}),
    (64, 1e4, {**YARN, "beta_fast": 64, "beta_slow": 2, "attention_factor": 1.25}),
    (64, 1e4, {**YARN, "mscale": 1.0, "mscale_all_dim": 0.7, "factor": 40.0}),
    (32, 10.0, {**YARN, "original_max_position_embeddings": 4}),
]


def make_rope():
    out = []
    for dim, theta, scaling in ROPES:
        c = {**BASE, "model_type": "llama", "head_dim": dim, "rope_theta": theta,
             "rope_scaling": scaling}
        f, factor = frequencies(c)
        out.append({"config": c, "factor": factor, "freq": f.tolist()})
    with open("tests/golden/rope.json", "w") as f:
        json.dump(out, f)
        f.write("\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    else:
        make(sys.argv[1:])
        make_rope()
