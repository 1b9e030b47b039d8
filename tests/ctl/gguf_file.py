# SPDX-License-Identifier: Apache-2.0
"""GGUF files made from folders of Hugging Face, with nothing but Python: what their
keys are, and a writer. Tensors are given as (type, shape, bytes), outermost dimension
first, as halod sees them."""
import json
import math
import os
import struct

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "I32": 26, "BF16": 30, "MXFP4": 39,
         "NVFP4": 40}
ARCHS = {"qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "llama": "llama",
         "mistral": "llama", "qwen3_next": "qwen3next", "qwen3_5_text": "qwen35",
         "qwen3_5_moe_text": "qwen35moe", "gpt_oss": "gpt-oss", "gemma3_text": "gemma3"}
KEYS = {
    "num_hidden_layers": ("block_count", U32),
    "hidden_size": ("embedding_length", U32),
    "num_attention_heads": ("attention.head_count", U32),
    "num_key_value_heads": ("attention.head_count_kv", U32),
    "head_dim": ("attention.key_length", U32),
    "intermediate_size": ("feed_forward_length", U32),
    "max_position_embeddings": ("context_length", U32),
    "rms_norm_eps": ("attention.layer_norm_rms_epsilon", F32),
    "rope_theta": ("rope.freq_base", F32),
    "num_experts": ("expert_count", U32),
    "num_experts_per_tok": ("expert_used_count", U32),
    "moe_intermediate_size": ("expert_feed_forward_length", U32),
    "sliding_window": ("attention.sliding_window", U32),
    "shared_expert_intermediate_size": ("expert_shared_feed_forward_length", U32),
    "full_attention_interval": ("full_attention_interval", U32),
    "linear_conv_kernel_dim": ("ssm.conv_kernel", U32),
    "linear_key_head_dim": ("ssm.state_size", U32),
    "linear_num_key_heads": ("ssm.group_count", U32),
    "linear_num_value_heads": ("ssm.time_step_rank", U32),
}
NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.router": "ffn_gate_inp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.conv1d": "ssm_conv1d",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
    "eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm",
    "shared_head.norm": "nextn.shared_head_norm",
}
# The MTP layer, as Qwen names it: below its place behind the other layers.
APART = {"mtp.layers.0.": "", "mtp.fc.": "eh_proj.", "mtp.norm.": "shared_head.norm.",
         "mtp.pre_fc_norm_embedding.": "enorm.", "mtp.pre_fc_norm_hidden.": "hnorm."}


def tensor_name(name):
    """model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    base, kind = name.rsplit(".", 1)
    odd = {"self_attn.sinks": "attn_sinks.weight", "linear_attn.dt_bias": "ssm_dt.bias",
           "linear_attn.A_log": "ssm_a"}
    layer, _, part = name[len("model.layers."):].partition(".")
    if part in odd:
        return "blk.%s.%s" % (layer, odd[part])
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
           "lm_head": "output"}
    if base in top:
        return top[base] + "." + kind
    layer, part = base[len("model.layers."):].split(".", 1)
    return "blk.%s.%s.%s" % (layer, NAMES[part], kind)


def read_json(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def nextn_keys(config, keys):
    """The MTP layer is one of the blocks, which keys count."""
    n = config.get("mtp_num_hidden_layers") or config.get("num_nextn_predict_layers") or 0
    for i, (name, kind, value) in enumerate(keys):
        if n and name.endswith(".block_count"):
            keys[i] = (name, kind, value + n)
            return [(name.replace("block_count", "nextn_predict_layers"), U32, n)]
    return []


def model_keys(config):
    arch = ARCHS[config["model_type"]]
    out = [("general.architecture", STRING, arch)]
    rope = config.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    flat = dict(config, rope_theta=rope.get("rope_theta", config.get("rope_theta")))
    flat.setdefault("num_experts", config.get("num_local_experts"))
    types = config.get("layer_types", [])
    if "linear_attention" in types:
        flat["full_attention_interval"] = types.index("full_attention") + 1
    for key, (name, kind) in KEYS.items():
        if flat.get(key) is not None:
            out.append(("%s.%s" % (arch, name), kind, flat[key]))
    out += nextn_keys(config, out)
    if "linear_value_head_dim" in config:
        out.append((arch + ".ssm.inner_size", U32, config["linear_value_head_dim"]
                    * config["linear_num_value_heads"]))
        part = config.get("partial_rotary_factor", rope.get("partial_rotary_factor"))
        out.append((arch + ".rope.dimension_count", U32,
                    int(config["head_dim"] * part)))
    if arch == "gemma3":
        out.append((arch + ".attention.sliding_window_pattern", U32,
                    types.index("full_attention") + 1))
    if arch == "gpt-oss":
        out.append((arch + ".expert_feed_forward_length", U32,
                    config["intermediate_size"]))
    scaling = config.get("rope_scaling") or rope
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind in ("linear", "yarn"):
        head = arch + ".rope.scaling."
        out.append((head + "type", STRING, kind))
        out.append((head + "factor", F32, scaling["factor"]))
        if "original_max_position_embeddings" in scaling:
            out.append((head + "original_context_length", U32,
                        scaling["original_max_position_embeddings"]))
    return out


def tokenizer_keys(folder, n_vocab, pre="qwen2"):
    t = read_json(folder, "tokenizer.json")
    config = read_json(folder, "tokenizer_config.json")
    tokens, types = ["[PAD%d]" % i for i in range(n_vocab)], [5] * n_vocab
    for text, i in t["model"]["vocab"].items():
        tokens[i], types[i] = text, 1
    for a in t["added_tokens"]:
        tokens[a["id"]], types[a["id"]] = a["content"], 3 if a["special"] else 4
    merges = [m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]]
    head = "tokenizer.ggml."
    out = [(head + "model", STRING, "gpt2"), (head + "pre", STRING, pre),
           (head + "tokens", (ARRAY, STRING), tokens),
           (head + "token_type", (ARRAY, I32), types),
           (head + "merges", (ARRAY, STRING), merges)]
    eos = config.get("eos_token")
    eos = eos["content"] if isinstance(eos, dict) else eos
    if eos in tokens:
        out.append((head + "eos_token_id", U32, tokens.index(eos)))
    if config.get("chat_template"):
        out.append(("tokenizer.chat_template", STRING, config["chat_template"]))
    names = {"temperature": "temp", "top_p": "top_p", "top_k": "top_k"}
    for key, value in read_json(folder, "generation_config.json").items():
        if key in names:
            out.append(("general.sampling." + names[key],
                        U32 if key == "top_k" else F32, value))
    return out


def value_bytes(kind, v):
    if kind == STRING:
        raw = v.encode()
        return struct.pack("<Q", len(raw)) + raw
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def write(path, keys, tensors):
    """keys: (name, kind, value); tensors: {name: (type, shape, bytes)}."""
    out = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))]
    for name, kind, value in keys:
        out.append(value_bytes(STRING, name))
        if isinstance(kind, tuple):
            out.append(struct.pack("<IIQ", ARRAY, kind[1], len(value)))
            out.extend(value_bytes(kind[1], v) for v in value)
        else:
            out.append(struct.pack("<I", kind) + value_bytes(kind, value))
    at = 0
    for name, (kind, shape, raw) in tensors.items():
        out.append(value_bytes(STRING, name) + struct.pack("<I", len(shape)))
        out.append(struct.pack("<%dQ" % len(shape), *reversed(shape)))
        out.append(struct.pack("<IQ", TYPES[kind], at))
        at += (len(raw) + 31) // 32 * 32
    head = b"".join(out)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for kind, shape, raw in tensors.values():
            f.write(raw + bytes(-len(raw) % 32))


# --- safetensors, and what their numbers are in other formats ----------------------


def load(folder):
    """{name: (dtype, shape, bytes)} of all safetensors files of a folder."""
    out = {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, file), "rb") as f:
            raw = f.read()
        (n,) = struct.unpack("<Q", raw[:8])
        for name, e in json.loads(raw[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = e["data_offsets"]
                out[name] = (e["dtype"], e["shape"], raw[8 + n + begin:8 + n + end])
    return out


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            out.write(raw)


def bf16_to_f32(raw):
    out = bytearray(2 * len(raw))
    out[2::4], out[3::4] = raw[0::2], raw[1::2]
    return bytes(out)


def f32_to_f16(raw):
    n = len(raw) // 4
    return struct.pack("<%de" % n, *struct.unpack("<%df" % n, raw))


EVEN = bytes(i & 15 for i in range(256))
ODD = bytes(i >> 4 for i in range(256))
MINUS8 = bytes((i - 8) & 255 for i in range(256))


def int4_blocks(packed, scales, kind):
    """compressed-tensors int4, symmetric in groups of 32, in blocks: the scale as
    float16, and the same integers."""
    q = bytearray(2 * len(packed))
    q[0::2], q[1::2] = packed.translate(EVEN), packed.translate(ODD)
    q = bytes(q)
    halves = f32_to_f16(bf16_to_f32(scales))
    out = []
    if kind == "Q8_0":
        q = q.translate(MINUS8)
        for g in range(len(q) // 32):
            out += [halves[2 * g:2 * g + 2], q[32 * g:32 * g + 32]]
        return b"".join(out)
    high = int.from_bytes(q, "little") >> 128 << 4  # q[i + 16] above q[i]
    both = (int.from_bytes(q, "little") | high).to_bytes(len(q) + 1, "little")
    for g in range(len(q) // 32):
        out += [halves[2 * g:2 * g + 2], both[32 * g:32 * g + 16]]
    return b"".join(out)


def pair_rows(raw, n_rows, head_dim):
    """Rows of q or k as llama's files have them: the halves of a head in turn."""
    size, half = len(raw) // n_rows, head_dim // 2
    rows = []
    for r in range(n_rows):
        i = r % head_dim
        source = r - i + i // 2 + i % 2 * half
        rows.append(raw[source * size:(source + 1) * size])
    return b"".join(rows)


def gemma_tensors(config, tensors):
    """Norms whole, in F32. The files do not say query_pre_attn_scalar, which head_dim is
    taken for: what differs goes into the norm of queries."""
    scale = math.sqrt(config["head_dim"] / config["query_pre_attn_scalar"])
    out = {}
    for name, (dtype, shape, raw) in tensors.items():
        to = tensor_name(name)
        to = to.replace(".ffn_norm.", ".post_attention_norm.") \
            if "post_attention_layernorm" in name else to
        if len(shape) > 1:
            out[to] = (dtype, shape, raw)
            continue
        floats = [1 + x for x in struct.unpack("<%df" % shape[0], bf16_to_f32(raw))]
        if "q_norm" in name:
            floats = [x * scale for x in floats]
        out[to] = ("F32", shape, struct.pack("<%df" % shape[0], *floats))
    return out


def rope_factors(config):
    """What llama3's scaling divides the speed of each pair by; None for other kinds."""
    s = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if s.get("rope_type", s.get("type")) != "llama3":
        return None
    theta = s.get("rope_theta", config.get("rope_theta"))
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    low, high, out = s["low_freq_factor"], s["high_freq_factor"], []
    for i in range(0, dim, 2):
        turns = s["original_max_position_embeddings"] / (2 * math.pi * theta ** (i / dim))
        kept = min(max((turns - low) / (high - low), 0), 1)
        out.append(1 / (kept + (1 - kept) / s["factor"]))
    return struct.pack("<%df" % len(out), *out)


# --- hybrid models and gpt-oss -------------------------------------------------------


def rows(raw, n):
    size = len(raw) // n
    return [raw[size * i:size * i + size] for i in range(n)]


def floats(raw, dtype):
    raw = bf16_to_f32(raw) if dtype == "BF16" else raw
    return struct.unpack("<%df" % (len(raw) // 4), raw)


def as_f32(raw, dtype, change=lambda x: x):
    v = [change(x) for x in floats(raw, dtype)]
    return struct.pack("<%df" % len(v), *v)


def weights(t):
    """Weights by their names in Hugging Face: numbers as they are (vectors in float32),
    int4 as Q8_0."""
    for name, (dtype, shape, raw) in t.items():
        if name.endswith(".weight_packed"):
            base = name[:-len(".weight_packed")]
            yield base + ".weight", ("Q8_0", [shape[0], shape[1] * 8], int4_blocks(
                raw, t[base + ".weight_scale"][2], "Q8_0"))
        elif not name.endswith((".weight_scale", ".weight_shape", "_blocks", "_scales")):
            yield name, ((dtype, shape, raw) if len(shape) > 1 else
                         ("F32", shape, as_f32(raw, dtype)))


def tiled(parts, n_k):
    """Value heads by key head, to one of each key head in turn."""
    each = len(parts) // n_k
    return [parts[k * each + v] for v in range(each) for k in range(n_k)]


def tile_rows(raw, n_heads, n_k):
    return b"".join(tiled(rows(raw, n_heads), n_k))


def split_qkvz(c, w):
    """Rows by key head of q, k, v and z: into those of q, k and v, and of z."""
    kind, shape, raw = w
    k, hk = c["linear_key_head_dim"], c["linear_num_key_heads"]
    v = c["linear_value_head_dim"] * c["linear_num_value_heads"] // hk
    r, pitch = rows(raw, shape[0]), 2 * k + 2 * v

    def of(first, n):
        return [x for h in range(hk) for x in r[h * pitch + first:][:n]]
    qkv, z = of(0, k) + of(k, k) + of(2 * k, v), of(2 * k + v, v)
    return ((kind, [len(qkv), shape[1]], b"".join(qkv)),
            (kind, [len(z), shape[1]], b"".join(z)))


def hybrid_tensors(c, t, prefix):
    """As the converter writes Qwen3-Next, and (in_proj_qkv) Qwen3.5."""
    out, hk, hv = {}, c["linear_num_key_heads"], c["linear_num_value_heads"]
    n_qk = 2 * hk * c["linear_key_head_dim"]
    experts = {}
    for name, w in weights(t):
        name = name.replace(prefix, "model.", 1) if prefix in name else name
        for old, new in APART.items():
            if name.startswith(old):
                name = "model.layers.%d.%s%s" % (c["num_hidden_layers"], new,
                                                 name[len(old):])
        kind, shape, raw = w
        part = name.split(".", 3)[-1]
        if ".experts." in name:
            head, e, proj, _ = name.rsplit(".", 3)
            experts.setdefault(head + "." + proj + ".weight", {})[int(e)] = w
            continue
        if "visual" in name:
            continue
        is_norm = name.endswith(("norm.weight", "enorm.weight", "hnorm.weight"))
        if is_norm and part != "linear_attn.norm.weight":
            w = ("F32", shape, as_f32(raw, "F32", lambda x: x + 1))
        if part == "linear_attn.A_log":
            w = ("F32", shape, as_f32(raw, "F32", lambda x: -math.exp(x)))
        if part == "linear_attn.conv1d.weight":
            w = ("F32", [shape[0], shape[2]], as_f32(raw, kind))
        if part == "linear_attn.in_proj_qkvz.weight":
            w, z = split_qkvz(c, w)
            out[tensor_name(name.replace("qkvz", "z"))] = z
            name = name.replace("qkvz", "qkv")
        elif part.startswith("linear_attn.") and c["model_type"] != "qwen3_next":
            kind, shape, raw = w
            r = rows(raw, shape[0])
            if "qkv" in part or "conv1d" in part:
                w = (kind, shape, b"".join(r[:n_qk]) + tile_rows(
                    b"".join(r[n_qk:]), hv, hk))
            elif "out_proj" in part:
                w = (kind, shape, b"".join(tile_rows(x, hv, hk) for x in r))
            elif part != "linear_attn.norm.weight":
                w = (kind, shape, tile_rows(raw, hv, hk))
        out[tensor_name(name)] = w
    for name, parts in experts.items():
        kind, shape, _ = parts[0]
        out[tensor_name(name)] = (kind, [len(parts)] + shape, b"".join(
            parts[e][2] for e in range(len(parts))))
    return out


def mxfp4_blocks(blocks, scales):
    """16 bytes of pairs (2i, 2i + 1) to a scale and pairs (i, i + 16)."""
    q = bytearray(2 * len(blocks))
    q[0::2], q[1::2] = blocks.translate(EVEN), blocks.translate(ODD)
    q, out = bytes(q), []
    high = int.from_bytes(q, "little") >> 128 << 4
    both = (int.from_bytes(q, "little") | high).to_bytes(len(q) + 1, "little")
    for g in range(len(q) // 32):
        out += [scales[g:g + 1], both[32 * g:32 * g + 16]]
    return b"".join(out)


def nvfp4_tensors(t):
    """Of NVFP4 with one weight a tensor: blocks, and the factor beside them as `.scale`."""
    out = {}
    for name, (dtype, shape, raw) in t.items():
        base = name[:-len("_packed")]
        if name.endswith(".weight_packed"):
            n, k = shape[0], shape[1] * 2
            factor, = struct.unpack("<f", t[base + "_global_scale"][2])
            to = tensor_name(base)
            out[to] = ("NVFP4", [n, k], nvfp4_blocks(raw, t[base + "_scale"][2]))
            out[to[:-len("weight")] + "scale"] = ("F32", [1], struct.pack("<f", 1 / factor))
            out[to[:-len("weight")] + "input_scale"] = ("F32", [1], struct.pack("<f", 2))
        elif not name.endswith("_scale"):
            out[tensor_name(name)] = ((dtype, shape, raw) if len(shape) > 1 else
                                      ("F32", shape, as_f32(raw, dtype)))
    return out


def nvfp4_blocks(packed, scales):
    """Four scales and their 16 numbers each; bytes of pairs (2i, 2i + 1) to pairs (i, i + 8)."""
    q = bytearray(2 * len(packed))
    q[0::2], q[1::2] = packed.translate(EVEN), packed.translate(ODD)
    out = []
    for g in range(0, len(q) // 16, 4):
        out.append(scales[g:g + 4])
        for i in range(g, g + 4):
            part = q[16 * i:16 * i + 16]
            out.append(bytes(part[j] | part[j + 8] << 4 for j in range(8)))
    return b"".join(out)


def turned(raw, n_cols):
    """Rows of the transpose of a matrix of two-byte numbers."""
    low, high = raw[0::2], raw[1::2]
    for c in range(n_cols):
        out = bytearray(len(raw) // n_cols)
        out[0::2], out[1::2] = low[c::n_cols], high[c::n_cols]
        yield bytes(out)


def oss_tensors(t):
    """Rows of gate and up apart, MXFP4 in blocks; plain experts (E, K, N) turned."""
    out = {tensor_name(n): w for n, w in weights(t) if ".experts." not in n}
    for name, (dtype, shape, raw) in t.items():
        if name.endswith("_bias") and ".experts." in name:
            parts = {name.replace("gate_up", p): rows(as_f32(raw, dtype),
                                                      shape[0] * shape[1])[i::2]
                     for i, p in enumerate(("gate", "up"))}
            if "down" in name:
                parts = {name: rows(as_f32(raw, dtype), shape[0] * shape[1])}
            for n, r in parts.items():
                out[tensor_name(n.replace("_bias", ".bias"))] = (
                    "F32", [shape[0], len(r) // shape[0]], b"".join(r))
        if name.endswith("_proj"):
            kind, (e, k, n) = dtype, shape
            r = [x for part in rows(raw, e) for x in turned(part, n)]
            name += "_blocks"
        elif name.endswith("_blocks"):
            kind, (e, n, groups, _) = "MXFP4", shape
            k = 32 * groups
            r = rows(mxfp4_blocks(raw, t[name.replace("_blocks", "_scales")][2]), e * n)
        else:
            continue
        parts = {name: r} if "down" in name else {
            name.replace("gate_up", p): r[i::2] for i, p in enumerate(("gate", "up"))}
        for part, of in parts.items():
            out[tensor_name(part.replace("_blocks", ".weight"))] = (
                kind, [e, len(of) // e, k], b"".join(of))
    return out


def altered(data, key, value):
    """A GGUF file whose key has another number of 32 bits."""
    at = data.index(key.encode()) + len(key) + 4
    return data[:at] + struct.pack("<I", value) + data[at + 4:]


def with_text(data, old, new):
    """A GGUF file with another text; spaces behind it keep the tensors where they are aligned."""
    at = data.index(old.encode())
    new += " " * ((len(old) - len(new)) % 32)
    return data[:at - 8] + struct.pack("<Q", len(new)) + new.encode() + data[at + len(old):]
