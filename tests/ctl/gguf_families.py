# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Hugging Face as the converter of llama.cpp writes them, for families
whose files differ from the plain ones of gguf_file.py by a few names and keys."""
import gguf_file as g

# model_type of the text: general.architecture.
KINDS = {"qwen3_vl_text": "qwen3vl", "qwen3_vl_moe_text": "qwen3vlmoe", "mistral": "llama",
         "seed_oss": "seed_oss", "granite": "granite", "smollm3": "smollm3"}
PAIRED = ("llama", "granite", "smollm3")
NAMES = {"seed_oss": {"post_attention_layernorm": "post_attention_norm"}}
KEYS = {"embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
        "attention_multiplier": "attention.scale", "logits_scaling": "logit_scale"}


def text_config(config):
    return config.get("text_config") or config


def is_known(config):
    return text_config(config)["model_type"] in KINDS


def turned_experts(w, turned):
    """(E, K, N) as (E, N, K), where it is such a tensor."""
    kind, shape, raw = w
    if not turned:
        return w
    size = len(raw) // shape[0]
    raw = b"".join(b"".join(g.turned(raw[size * e:size * (e + 1)], shape[2]))
                   for e in range(shape[0]))
    return kind, [shape[0], shape[2], shape[1]], raw


def split_rows(w, n):
    """A tensor (..., N, K) in n parts by its rows."""
    kind, shape, raw = w
    lead = 1
    for d in shape[:-2]:
        lead *= d
    r = g.rows(raw, lead * n)
    shape = shape[:-2] + [shape[-2] // n, shape[-1]]
    return [(kind, shape, b"".join(r[i::n])) for i in range(n)]


def tensor_name(arch, name):
    base, _, kind = name.rpartition(".")
    layer, _, part = base[len("model.layers."):].partition(".")
    if part in NAMES.get(arch, {}):
        return "blk.%s.%s.%s" % (layer, NAMES[arch][part], kind)
    return g.tensor_name(name)


def stacked(t):
    """Experts of their own names as (E, ...) tensors; the rest as it is."""
    out, stacks = {}, {}
    for name, w in g.weights(t):
        head, found, rest = name.partition(".experts.")
        number, _, proj = rest.partition(".")
        if found and number.isdigit():
            stacks.setdefault(head + ".experts." + proj, {})[int(number)] = w
        else:
            out[name] = w
    for name, parts in stacks.items():
        kind, shape, _ = parts[0]
        out[name] = (kind, [len(parts)] + shape,
                     b"".join(parts[e][2] for e in range(len(parts))))
    return out


def tensors(config, t):
    c = text_config(config)
    arch, out = KINDS[c["model_type"]], {}
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    for name, w in stacked(t).items():
        if name.startswith(("model.visual.", "vision_tower.", "multi_modal_projector.")):
            continue
        name = name.replace("model.language_model.", "model.")
        name = name.replace("language_model.", "")
        if arch in PAIRED and ("q_proj" in name or "k_proj" in name):
            w = (w[0], w[1], g.pair_rows(w[2], w[1][0], dim))
        if ".experts." in name and not name.endswith(".weight"):
            name += ".weight"
            is_turned = w[1][2] != (c["hidden_size"] if "gate_up" in name else
                                    c["moe_intermediate_size"])
            w = turned_experts(w, is_turned)
        if "gate_up_proj" in name:
            for part, half in zip(("gate", "up"), split_rows(w, 2)):
                out[tensor_name(arch, name.replace("gate_up", part))] = half
            continue
        out[tensor_name(arch, name)] = w
    factors = g.rope_factors(c)
    if factors:
        out["rope_freqs.weight"] = ("F32", [len(factors) // 4], factors)
    return out


def keys(folder, config, made):
    c = text_config(config)
    arch = g.ARCHS[c["model_type"]] = KINDS[c["model_type"]]
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    out = g.model_keys({**c, "head_dim": dim})
    out += [(arch + "." + name, g.F32, c[key]) for key, name in KEYS.items() if key in c]
    if "v_head_dim" not in c:
        out.append((arch + ".attention.value_length", g.U32, dim))
    return out + g.tokenizer_keys(folder, made["token_embd.weight"][1][0])
