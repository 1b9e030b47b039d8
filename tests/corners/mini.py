# SPDX-License-Identifier: Apache-2.0
"""A llama of 4,500 weights, in bytes of any format: what corners are made of. forward() is its
mathematics in double precision, with nothing of halod's."""
import json
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../ctl"))
import gguf_file as g

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
          "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 20,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
          "bos_token_id": 17, "eos_token_id": 18}
PIECES = ["H", "e", "l", "o", "w", "r", "d", "\u0120", "!", "He", "ll", "Hell", "Hello",
          "\u0120w", "or", "ld", "a"]
MERGES = ["H e", "l l", "He ll", "Hell o", "\u0120 w", "o r", "l d"]
SPECIAL = ["<s>", "</s>", "<|x|>"]
TEXT, IDS = "Hello world!", [12, 13, 14, 15, 8]
PROMPTS = [[17, 12, 13, 14, 15], [3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]


def shapes(c):
    """{name in Hugging Face: shape}"""
    d, f = c["hidden_size"], c["intermediate_size"]
    q, k = (c["head_dim"] * c[n] for n in ("num_attention_heads", "num_key_value_heads"))
    out = {"model.embed_tokens.weight": [c["vocab_size"], d]}
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        out.update({p + "input_layernorm.weight": [d],
                    p + "self_attn.q_proj.weight": [q, d], p + "self_attn.k_proj.weight": [k, d],
                    p + "self_attn.v_proj.weight": [k, d], p + "self_attn.o_proj.weight": [d, q],
                    p + "post_attention_layernorm.weight": [d],
                    p + "mlp.gate_proj.weight": [f, d], p + "mlp.up_proj.weight": [f, d],
                    p + "mlp.down_proj.weight": [d, f]})
    out["model.norm.weight"] = [d]
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = [c["vocab_size"], d]
    return out


def weights(c=CONFIG, seed=1):
    """{name: (shape, numbers)}; every number is one of bfloat16 and of float16."""
    rnd, out = random.Random(seed), {}
    for name, shape in shapes(c).items():
        n = math.prod(shape)
        low, high = (48, 80) if "norm" in name else (-96, 96)
        out[name] = (shape, [rnd.randint(low, high) / 64 for _ in range(n)])
    return out


def raw(numbers, kind):
    if kind in ("F16", "F32", "F64"):
        return struct.pack("<%d%s" % (len(numbers), {"F16": "e", "F32": "f", "F64": "d"}[kind]),
                           *numbers)
    packed = struct.pack("<%df" % len(numbers), *numbers)
    return b"".join(packed[i + 2:i + 4] for i in range(0, len(packed), 4))  # BF16


def forward(c, w, ids):
    """Log-probabilities behind each token."""
    def rows(name):
        (_, k), v = w[name]
        return [v[i:i + k] for i in range(0, len(v), k)]

    def norm(x, name):
        r = math.sqrt(sum(a * a for a in x) / len(x) + c["rms_norm_eps"])
        return [a / r * b for a, b in zip(x, w[name + ".weight"][1])]

    def linear(m, x):
        return [sum(map(float.__mul__, row, x)) for row in m]

    def turned(x, at):
        out = list(x)
        for head in range(0, len(x), dim):
            for i in range(dim // 2):
                a = at * c["rope_theta"] ** (-2 * i / dim)
                p, q = x[head + i], x[head + dim // 2 + i]
                out[head + i] = p * math.cos(a) - q * math.sin(a)
                out[head + dim // 2 + i] = q * math.cos(a) + p * math.sin(a)
        return out

    def attend(q, keys, values):
        s = [sum(map(float.__mul__, q, k)) / math.sqrt(dim) for k in keys]
        e = [math.exp(x - max(s)) for x in s]
        return [sum(p * v[i] for p, v in zip(e, values)) / sum(e) for i in range(dim)]

    dim, heads, groups = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    table = rows("model.embed_tokens.weight")
    xs = [table[i] for i in ids]
    for layer in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % layer
        q, k, v, o = (rows(p + "self_attn.%s_proj.weight" % n) for n in "qkvo")
        gate, up, down = (rows(p + "mlp.%s_proj.weight" % n) for n in ("gate", "up", "down"))
        keys, values, out = [], [], []
        for at, x in enumerate(xs):
            n = norm(x, p + "input_layernorm")
            keys.append(turned(linear(k, n), at))
            values.append(linear(v, n))
            one = turned(linear(q, n), at)
            y = []
            for h in range(heads):
                of = slice(h // (heads // groups) * dim, (h // (heads // groups) + 1) * dim)
                y += attend(one[h * dim:(h + 1) * dim], [a[of] for a in keys],
                            [a[of] for a in values])
            x = [a + b for a, b in zip(x, linear(o, y))]
            n = norm(x, p + "post_attention_layernorm")
            y = [a / (1 + math.exp(-a)) * b for a, b in zip(linear(gate, n), linear(up, n))]
            out.append([a + b for a, b in zip(x, linear(down, y))])
        xs = out
    head = rows("model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight")
    logs = []
    for x in xs:
        y = linear(head, norm(x, "model.norm"))
        total = max(y) + math.log(sum(math.exp(a - max(y)) for a in y))
        logs.append([a - total for a in y])
    return logs


def reference(c=CONFIG, w=None, prompts=PROMPTS, n=3):
    """What haloctl verify compares with."""
    w, cases = w or weights(c), []
    for prompt in prompts:
        ids, steps, first = list(prompt), [], None
        for _ in range(n):
            logs = forward(c, w, ids)
            first, last = first or logs, logs[-1]
            best = sorted(range(len(last)), key=lambda i: -last[i])[:5]
            steps.append({"token": best[0], "top": [[i, last[i]] for i in best]})
            ids.append(best[0])
        cases.append({"prompt_ids": prompt, "continuation_ids": ids[len(prompt):],
                      "prompt_logprobs": [first[i][t] for i, t in enumerate(prompt[1:])],
                      "steps": steps})
    return {"model": "mini", "reference": "tests/corners/mini.py", "cases": cases}


# --- as GGUF ------------------------------------------------------------------------

SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
         12: "d"}


def gguf_value(kind, v):
    """kind: a number, or (9, kind of the members)."""
    if isinstance(kind, tuple):
        return struct.pack("<IQ", 9 if isinstance(kind[1], tuple) else kind[1], len(v)) + \
            b"".join(gguf_value(kind[1], x) for x in v)
    if kind == g.STRING:
        v = v if isinstance(v, bytes) else v.encode()
        return struct.pack("<Q", len(v)) + v
    return struct.pack("<" + SIZES[kind], v)


def gguf_key(name, kind, v):
    return gguf_value(g.STRING, name) + struct.pack(
        "<I", 9 if isinstance(kind, tuple) else kind) + gguf_value(kind, v)


def gguf_keys(c=CONFIG):
    a = "llama."
    return [("general.architecture", g.STRING, "llama"),
            (a + "block_count", g.U32, c["num_hidden_layers"]),
            (a + "context_length", g.U32, c["max_position_embeddings"]),
            (a + "embedding_length", g.U32, c["hidden_size"]),
            (a + "feed_forward_length", g.U32, c["intermediate_size"]),
            (a + "attention.head_count", g.U32, c["num_attention_heads"]),
            (a + "attention.head_count_kv", g.U32, c["num_key_value_heads"]),
            (a + "attention.key_length", g.U32, c["head_dim"]),
            (a + "attention.value_length", g.U32, c["head_dim"]),
            (a + "attention.layer_norm_rms_epsilon", g.F32, c["rms_norm_eps"]),
            (a + "rope.freq_base", g.F32, c["rope_theta"]),
            (a + "rope.dimension_count", g.U32, c["head_dim"])]


def gguf_words(c=CONFIG):
    t = "tokenizer.ggml."
    tokens = PIECES + SPECIAL
    types = [1] * len(PIECES) + [3] * len(SPECIAL)
    more = c["vocab_size"] - len(tokens)
    return [(t + "model", g.STRING, "gpt2"), (t + "pre", g.STRING, "qwen2"),
            (t + "tokens", (9, g.STRING), tokens + ["[PAD%d]" % i for i in range(more)]),
            (t + "token_type", (9, g.I32), types + [5] * more),
            (t + "merges", (9, g.STRING), MERGES),
            (t + "bos_token_id", g.U32, 17), (t + "eos_token_id", g.U32, 18)]


def gguf_tensors(c=CONFIG, w=None, kind="BF16"):
    """{name in GGUF: (type, shape, bytes)}; rows of q and k are in pairs."""
    out = {}
    for name, (shape, v) in (w or weights(c)).items():
        one = "F32" if len(shape) == 1 else kind
        r = raw(v, one)
        if "q_proj" in name or "k_proj" in name:
            r = g.pair_rows(r, shape[0], c["head_dim"])
        out[g.tensor_name(name)] = (one, shape, r)
    return out


TYPES = dict(g.TYPES, F64=28)


def gguf(keys, tensors, version=3, align=32, n_keys=None, n_tensors=None, order=None, gap=0,
         end=b"", magic=b"GGUF", cut=None, head=None, places=None):
    """The bytes of a file. order: how data lies; gap: bytes between; places: {name: offset}."""
    out = [magic + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                               len(keys) if n_keys is None else n_keys)]
    out += [k if isinstance(k, bytes) else gguf_key(*k) for k in keys]
    at, offsets = 0, {}
    for name in order or tensors:
        offsets[name] = at
        at += (len(tensors[name][2]) + gap + align - 1) // align * align
    for name, (kind, shape, _) in tensors.items():
        out.append(gguf_value(g.STRING, name) + struct.pack("<I", len(shape)))
        out.append(struct.pack("<%dQ" % len(shape), *reversed(shape)))
        out.append(struct.pack("<IQ", TYPES.get(kind, kind), (places or {}).get(
            name, offsets[name])))
    start = head(b"".join(out)) if head else b"".join(out)
    body = bytearray(start + bytes(-len(start) % align) + bytes(at))
    begin = len(body) - at
    for name, (_, _, r) in tensors.items():
        body[begin + offsets[name]:begin + offsets[name] + len(r)] = r
    return (bytes(body) + end)[:cut]


# --- as a folder ----------------------------------------------------------------------


def safetensors(tensors, meta=None, pad=0, header=None, order=None, length=None, end=b"",
                cut=None):
    """tensors: {name: (dtype, shape, bytes)}. header: changes the header's object or text."""
    entries, at = {}, 0
    if meta is not None:
        entries["__metadata__"] = meta
    for name in order or tensors:
        kind, shape, r = tensors[name]
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(r)]}
        at += len(r)
    entries = header(entries) if header else entries
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    text += b" " * pad
    return (struct.pack("<Q", len(text) if length is None else length) + text + b"".join(
        tensors[n][2] for n in order or tensors) + end)[:cut]


def folder_tensors(c=CONFIG, w=None, kind="BF16"):
    return {n: (kind, s, raw(v, kind)) for n, (s, v) in (w or weights(c)).items()}


def tokenizer():
    added = [{"id": len(PIECES) + i, "content": t, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(SPECIAL)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": None, "pre_tokenizer": {
                "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                "use_regex": True},
            "post_processor": None, "decoder": {
                "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {p: i for i, p in enumerate(PIECES)}, "merges": MERGES}}
