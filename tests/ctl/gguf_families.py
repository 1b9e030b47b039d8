# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Hugging Face as the converter of llama.cpp writes them, for families
whose files differ from the plain ones of gguf_file.py by a few names and keys."""
import math
import struct

import gguf_file as g

# model_type of the text: general.architecture.
KINDS = {"qwen3_vl_text": "qwen3vl", "qwen3_vl_moe_text": "qwen3vlmoe", "mistral": "llama",
         "ministral3": "mistral3",
         "seed_oss": "seed_oss", "granite": "granite", "smollm3": "smollm3",
         "phi3": "phi3", "mixtral": "llama", "granitemoe": "granitemoe",
         "minimax_m2": "minimax-m2", "olmo2": "olmo2", "olmo3": "olmo2",
         "exaone4": "exaone4", "glm4_moe": "glm4moe", "glm4_moe_lite": "deepseek2",
         "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "gemma4_text": "gemma4",
         "gemma4_unified_text": "gemma4",
         "granitemoehybrid": "granitehybrid", "granitemoeshared": "granitemoe",
         "ernie4_5": "ernie4_5", "ernie4_5_moe": "ernie4_5-moe",
         "nemotron_h": "nemotron_h", "llama4_text": "llama4", "deepseek_v32": "deepseek32",
         "bamba": "granitehybrid", "hunyuan_v1_dense": "hunyuan-dense",
         "hunyuan_v1_moe": "hunyuan-moe", "deepseek_v4": "deepseek4",
         "cohere": "command-r", "cohere2": "cohere2", "hy_v3": "hy_v3",
         "exaone_moe": "exaone-moe", "mistral4": "mistral4", "laguna": "laguna",
         "muse_glimmer_text": "muse-glimmer", "falcon_h1": "falcon-h1",
         "kimi_linear": "kimi-linear", "bailing_hybrid": "bailingmoe3",
         "step3p5": "step35"}
PAIRED = ("llama", "mistral3", "granite", "smollm3", "granitemoe", "granitehybrid",
          "muse-glimmer")
POST_NORM = {"post_attention_layernorm": "post_attention_norm"}
USUAL = (("block_sparse_moe.", "mlp."), (".input_linear", ".experts.gate_up_proj"),
         (".output_linear", ".experts.down_proj"), (".router.layer", ".gate"),
         (".w1.", ".gate_proj."), (".w2.", ".down_proj."), (".w3.", ".up_proj."),
         ("operator_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm"),
         ("final_layernorm", "norm"), ("pre_ff_layernorm", "post_attention_layernorm"),
         ("query_layernorm", "q_norm"), ("key_layernorm", "k_norm"), (".gate.wg", ".gate"),
         (".router.gate", ".gate"),
         *((".shared_mlp." + x + "_proj", ".shared_experts." + x + "_proj")
           for x in ("gate", "up", "down")),
         ("q_layernorm", "q_norm"), ("k_layernorm", "k_norm"),
         ("self_attn.out_proj", "self_attn.o_proj"), ("feed_forward.", "mlp."),
         ("expert_bias", "gate.e_score_correction_bias"),
         ("experts.e_score", "gate.e_score"), ("gate.gate.e_score", "gate.e_score"),
         ("word_embeddings", "embed_tokens"), (".attention.dense", ".self_attn.o_proj"),
         (".attention.", ".self_attn."),
         ("moe_statics.", "gate."), ("backbone.embeddings", "model.embed_tokens"),
         ("backbone.norm_f", "model.norm"), ("backbone.", "model."),
         *((".mixer." + x + "_proj", ".self_attn." + x + "_proj") for x in "qkvo"),
         *((".mixer." + x, ".mlp." + x)
           for x in ("up_proj", "down_proj", "gate.", "experts.", "shared_experts.", "fc")),
         (".mixer.", ".mamba."), (".share_expert.", ".mlp.shared_experts."),
         (".moe.router_bias", ".mlp.gate.e_score_correction_bias"),
         (".moe.gate.", ".mlp.gate."), (".moe.", ".mlp.experts."))
GEMMA4 = {"post_attention_layernorm": "post_attention_norm",
          "post_feedforward_layernorm_1": "post_ffw_norm_1",
          "post_feedforward_layernorm_2": "post_ffw_norm_2",
          "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
          "experts.gate_up_proj": "ffn_gate_up_exps", "experts.down_proj": "ffn_down_exps",
          "router.proj": "ffn_gate_inp", "per_layer_input_gate": "inp_gate",
          "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm"}
SPACE = {"mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d", "mamba.norm": "ssm_norm",
         "mamba.out_proj": "ssm_out"}
SPACE_ODD = {"mamba.dt_bias": "ssm_dt.bias", "mamba.A_log": "ssm_a", "mamba.D": "ssm_d"}
GEMMA4_ODD = {"layer_scalar": "layer_output_scale.weight",
              "router.scale": "ffn_gate_inp.scale",
              "router.per_expert_scale": "ffn_down_exps.scale"}
GEMMA4_TOP = {"model.embed_tokens_per_layer": "per_layer_token_embd",
              "model.per_layer_model_projection": "per_layer_model_proj",
              "model.per_layer_projection_norm": "per_layer_proj_norm"}
CONV = {"conv." + x: "shortconv." + x for x in ("conv", "in_proj", "out_proj")}
EXPERTS = {"mlp.shared_experts.gate_proj": "ffn_gate_shexp",
           "mlp.shared_experts.up_proj": "ffn_up_shexp",
           "mlp.shared_experts.down_proj": "ffn_down_shexp"}
NAMES = {
    "seed_oss": POST_NORM, "olmo2": POST_NORM, "exaone4": POST_NORM,
    "lfm2": CONV, "lfm2moe": CONV, "gemma4": GEMMA4,
    "granitehybrid": {**EXPERTS, **SPACE}, "granitemoe": EXPERTS, "ernie4_5-moe": EXPERTS,
    "hunyuan-moe": EXPERTS, "hy_v3": EXPERTS, "exaone-moe": EXPERTS,
    "nemotron_h": {**EXPERTS, **SPACE, "norm": "attn_norm"},
    "nemotron_h_moe": {**EXPERTS, **SPACE, "norm": "attn_norm",
                       "mlp.fc1_latent_proj": "ffn_latent_down",
                       "mlp.fc2_latent_proj": "ffn_latent_up"},
    "phi3": {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"},
    "glm4moe": {**EXPERTS, "post_attention_layernorm": "post_attention_norm"},
    "deepseek2": {**EXPERTS, "self_attn.q_a_proj": "attn_q_a",
                  "self_attn.q_a_layernorm": "attn_q_a_norm",
                  "self_attn.q_b_proj": "attn_q_b",
                  "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
                  "self_attn.kv_a_layernorm": "attn_kv_a_norm",
                  "self_attn.kv_b_proj": "attn_kv_b",
                  "self_attn.k_b_proj": "attn_k_b", "self_attn.v_b_proj": "attn_v_b"},
}
INDEX = {"self_attn.indexer.wq_b": "indexer.attn_q_b",
         "self_attn.indexer.wk": "indexer.attn_k",
         "self_attn.indexer.k_norm": "indexer.k_norm",
         "self_attn.indexer.weights_proj": "indexer.proj"}
NAMES["deepseek32"] = {**NAMES["deepseek2"], **INDEX}
NAMES["mistral4"] = NAMES["deepseek2"]
NAMES["kimi-linear"] = {**NAMES["deepseek2"], "self_attn.b_proj": "ssm_beta",
                        "self_attn.o_norm": "ssm_norm",
                        **{"self_attn.%s_proj" % x: "ssm_" + x
                           for x in ("f_a", "f_b", "g_a", "g_b")},
                        **{"self_attn.%s_conv1d" % x: "ssm_conv1d_" + x for x in "qkv"}}
NAMES["bailingmoe3"] = {**NAMES["kimi-linear"], "self_attn.f_proj": "ssm_f_a",
                       "self_attn.g_proj": "attn_gate"}
KIMI_ODD = {"self_attn.dt_bias": "ssm_dt.bias", "self_attn.A_log": "ssm_a"}
NAMES["muse-glimmer"] = {**POST_NORM, "self_attn.gate_proj": "attn_gate"}
NAMES["laguna"] = {**{k.replace("experts", "expert"): v for k, v in EXPERTS.items()},
                   "self_attn.g_proj": "attn_gate"}
NAMES["step35"] = {**EXPERTS, "self_attn.g_proj": "attn_gate"}
NAMES["falcon-h1"] = SPACE
KEYS = {"embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
        "attention_multiplier": "attention.scale", "logits_scaling": "logit_scale",
        "logit_scale": "logit_scale", "layer_norm_eps": "attention.layer_norm_epsilon"}


# DeepSeek-V4: names of a layer in its own files.
FOUR = {"attn.attn_sink": "attn_sinks.weight", "attn.norm.weight": "attn_kv_a_norm.weight",
        "attn.q_norm.weight": "attn_q_a_norm.weight", "attn.wkv.weight": "attn_kv.weight",
        "attn.wq_a.weight": "attn_q_a.weight", "attn.wq_b.weight": "attn_q_b.weight",
        "attn.wo_a.weight": "attn_output_a.weight", "attn.wo_b.weight": "attn_output_b.weight",
        "attn_norm.weight": "attn_norm.weight", "ffn_norm.weight": "ffn_norm.weight",
        "ffn.gate.weight": "ffn_gate_inp.weight", "ffn.gate.bias": "exp_probs_b.bias",
        "ffn.gate.tid2eid": "ffn_gate_tid2eid.weight",
        "ffn.shared_experts.w1.weight": "ffn_gate_shexp.weight",
        "ffn.shared_experts.w2.weight": "ffn_down_shexp.weight",
        "ffn.shared_experts.w3.weight": "ffn_up_shexp.weight",
        "attn.indexer.wq_b.weight": "indexer.attn_q_b.weight",
        "attn.indexer.weights_proj.weight": "indexer.proj.weight",
        **{"attn.%scompressor.%s" % (at, own): "%s_compressor_%s.weight" % (to, name)
           for at, to in (("", "attn"), ("indexer.", "indexer"))
           for own, name in (("ape", "ape"), ("norm.weight", "norm"), ("wkv.weight", "kv"),
                             ("wgate.weight", "gate"))},
        **{"hc_%s_%s" % (part, kind): "hc_%s_%s.weight" % (part, kind)
           for part in ("attn", "ffn") for kind in ("fn", "base", "scale")}}
FOUR_TOP = {"model.embed_tokens.weight": "token_embd.weight", "head.weight": "output.weight",
            "model.norm.weight": "output_norm.weight",
            **{"model.hc_head.hc_" + kind: "output_hc_%s.weight" % kind
               for kind in ("fn", "base", "scale")}}


def four_tensors(t):
    """Experts of a layer in one tensor, tables of experts as 32 bits."""
    out, experts = {}, {}
    for name, (kind, shape, raw) in t.items():
        layer, _, part = name[len("model.layers."):].partition(".")
        if name in FOUR_TOP:
            out[FOUR_TOP[name]] = kind, shape, raw
        elif ".experts." in part and "shared" not in part:
            number, proj = part.split(".")[2:4]
            to = {"w1": "gate", "w2": "down", "w3": "up"}[proj]
            experts.setdefault("blk.%s.ffn_%s_exps.weight" % (layer, to), {})[int(number)] = (
                kind, shape, raw)
        else:
            if kind == "I64":
                n = len(raw) // 8
                kind, raw = "I32", struct.pack("<%di" % n, *struct.unpack("<%dq" % n, raw))
            elif len(shape) == 1 and kind != "F32":
                kind, raw = "F32", g.as_f32(raw, kind)
            out["blk.%s.%s" % (layer, FOUR[part])] = kind, shape, raw
    for name, parts in experts.items():
        kind, shape, _ = parts[0]
        out[name] = (kind, [len(parts)] + shape,
                     b"".join(parts[e][2] for e in range(len(parts))))
    return out


def four_keys(c, arch):
    """Its array of blocks has one number more, of the MTP layer."""
    rates = {**c["compress_rates"], "sliding_attention": 0}
    rope, layers = c["rope_parameters"]["compress"], c["num_hidden_layers"]
    out = [("attention.head_count_kv", g.U32, 1), ("attention.key_length", g.U32, c["head_dim"]),
           ("rope.dimension_count", g.U32, c["qk_rope_head_dim"]),
           ("rope.freq_base", g.F32, c["rope_parameters"]["main"]["rope_theta"]),
           ("rope.scaling.type", g.STRING, rope["rope_type"]),
           ("rope.scaling.factor", g.F32, rope["factor"]),
           ("rope.scaling.original_context_length", g.U32,
            rope["original_max_position_embeddings"]),
           ("rope.scaling.yarn_beta_fast", g.F32, rope["beta_fast"]),
           ("rope.scaling.yarn_beta_slow", g.F32, rope["beta_slow"]),
           ("attention.q_lora_rank", g.U32, c["q_lora_rank"]),
           ("attention.sliding_window", g.U32, c["sliding_window"]),
           ("expert_count", g.U32, c["n_routed_experts"]),
           ("expert_shared_count", g.U32, 1), ("expert_gating_func", g.U32, 4),
           ("expert_weights_norm", g.BOOL, True),
           ("expert_weights_scale", g.F32, c["routed_scaling_factor"]),
           ("swiglu_clamp_exp", (g.ARRAY, g.F32), [c["swiglu_limit"]] * layers),
           ("swiglu_clamp_shexp", (g.ARRAY, g.F32), [c["swiglu_limit"]] * layers),
           ("attention.indexer.head_count", g.U32, c["index_n_heads"]),
           ("attention.indexer.key_length", g.U32, c["index_head_dim"]),
           ("attention.indexer.top_k", g.U32, c["index_topk"]),
           ("attention.output_group_count", g.U32, c["o_groups"]),
           ("attention.output_lora_rank", g.U32, c["o_lora_rank"]),
           ("attention.compress_ratios", (g.ARRAY, g.I32),
            [rates[t] for t in c["layer_types"]] + [0]),
           ("attention.compress_rope_freq_base", g.F32, rope["rope_theta"]),
           ("hyper_connection.count", g.U32, c["hc_mult"]),
           ("hyper_connection.sinkhorn_iterations", g.U32, c["hc_sinkhorn_iters"]),
           ("hyper_connection.epsilon", g.F32, c["hc_eps"]),
           ("hash_layer_count", g.U32, c["mlp_layer_types"].count("hash_moe"))]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def text_config(config):
    return config.get("text_config") or config


def is_known(config):
    """A file of Llama 4 cannot say how long its chunks are."""
    c = text_config(config)
    return c["model_type"] in KINDS and c.get("attention_chunk_size", 8192) == 8192


def transposed_experts(w, turned):
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
    if base == "model.embedding_norm":
        return "token_embd_norm.weight"
    if base in GEMMA4_TOP:
        return GEMMA4_TOP[base] + "." + kind
    layer, _, part = name[len("model.layers."):].partition(".")
    odd = {**GEMMA4_ODD, **SPACE_ODD, **KIMI_ODD}
    if part in odd:
        return "blk.%s.%s" % (layer, odd[part])
    layer, _, part = base[len("model.layers."):].partition(".")
    if part in NAMES.get(arch, {}):
        return "blk.%s.%s.%s" % (layer, NAMES[arch][part], kind)
    return g.tensor_name(name)


def stacked(t):
    """Experts of their own names as (E, ...) tensors; the rest as it is."""
    out, stacks = {}, {}
    for name, w in g.weights(t):
        for old, new in USUAL:
            name = name.replace(old, new)
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


def split_kv_b(c, w):
    """Each head's rows of keys, turned, and of values: (H, kv_lora, nope), (H, v, kv_lora)."""
    kind, (_, width), raw = w
    heads, nope, v = c["num_attention_heads"], c["qk_nope_head_dim"], c["v_head_dim"]
    r = g.rows(raw, heads * (nope + v))
    keys, values = [], []
    for h in range(heads):
        at = h * (nope + v)
        keys += g.turned(b"".join(r[at:at + nope]), width)
        values += r[at + nope:at + nope + v]
    return ((kind, [heads, width, nope], b"".join(keys)),
            (kind, [heads, v, width], b"".join(values)))


def space_tensor(c, name, w):
    """Decays as they are used, steps of heads as columns, norms by groups."""
    kind, shape, raw = w
    if name.endswith(".A_log"):
        sign = 1 if "kda_lower_bound" in c else -1
        decays = [sign * math.exp(x) for x in g.floats(raw, kind)]
        return "F32", [len(decays), 1], struct.pack("<%df" % len(decays), *decays)
    if name.endswith(".mamba.D"):
        return kind, [shape[0], 1], raw
    if name.endswith(".mamba.norm.weight"):
        groups = c.get("mamba_n_groups") or c["n_groups"]
        return kind, [groups, shape[0] // groups], raw
    if name.endswith(".conv1d.weight"):
        return kind, [shape[0], shape[2]], raw
    return w


def falcon_tensor(c, name, w):
    """Matrices have the multipliers, each row its own."""
    kind, shape, raw = w
    inner, ssm_in = c["mamba_n_heads"] * c["mamba_d_head"], c["ssm_in_multiplier"]
    keys, into = c["mamba_n_groups"] * c["mamba_d_state"], c["attention_in_multiplier"]
    by = {"q_proj": into, "k_proj": into * c["key_multiplier"], "v_proj": into,
          "o_proj": c["attention_out_multiplier"], "out_proj": c["ssm_out_multiplier"],
          "mlp.gate_proj": c["mlp_multipliers"][0], "mlp.down_proj": c["mlp_multipliers"][1],
          "lm_head": c["lm_head_multiplier"], "embed_tokens": c["embedding_multiplier"]}
    rows = [next((x for part, x in by.items() if name.endswith(part + ".weight")), None)]
    rows *= shape[0]
    if name.endswith("in_proj.weight"):
        sizes = (inner, inner, keys, keys, c["mamba_n_heads"])
        rows = [ssm_in * x for n, x in zip(sizes, c["ssm_multipliers"]) for _ in range(n)]
    if rows[0] is None:
        return space_tensor(c, name, w)
    values, width = g.floats(raw, kind), shape[1]
    return "F32", shape, struct.pack("<%df" % len(values), *(
        x * rows[i // width] for i, x in enumerate(values)))


def shared_parts(c, name, w):
    """The shared part: of models without experts it is the dense one."""
    at = "mlp.shared_experts." if c.get("num_local_experts") else "mlp."
    head = name.partition("shared_mlp.")[0] + at
    if "output_linear" in name or "down_proj" in name:
        return {head + "down_proj.weight": w}
    return dict(zip((head + "gate_proj.weight", head + "up_proj.weight"), split_rows(w, 2)))


def tensors(config, t):
    c = text_config(config)
    arch, out = arch_of(c), {}
    if arch == "deepseek4":
        return four_tensors(t)
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    for name, w in stacked(t).items():
        if name.startswith(("model.visual.", "model.vision_tower.", "model.embed_vision.",
                            "model.vision_embedder.", "model.audio_tower.",
                            "model.embed_audio.", "vision_tower.", "model.vision_adapter.",
                            "model.vision_projection.",
                            "multi_modal_projector.", "vision_model.",
                            "vit_large_projector.")):
            continue
        name = name.replace("model.language_model.", "model.")
        name = name.replace("language_model.", "")
        if "shared_mlp." in name:
            for part, half in shared_parts(c, name, w).items():
                out[tensor_name(arch, part)] = half
            continue
        if arch == "bailingmoe3":
            name = ling_name(c, name)
        if arch in ("granitehybrid", "kimi-linear", "bailingmoe3") or "mamba_num_heads" in c:
            w = space_tensor(c, name, w)
        if arch == "falcon-h1":
            w = falcon_tensor(c, name, w)
            if name.endswith("post_attention_layernorm.weight"):  # a name without an end
                out["blk.%s.ffn_norm" % name.split(".")[2]] = w
                continue
        if arch in PAIRED and ("q_proj" in name or "k_proj" in name):
            w = (w[0], w[1], g.pair_rows(w[2], w[1][0], dim))
        if ".experts." in name and not name.endswith(".weight"):
            name += ".weight"
            is_turned = w[1][2] != (c["hidden_size"] if "gate_up" in name else
                                    c.get("moe_intermediate_size")
                                    or c["intermediate_size"])
            w = transposed_experts(w, is_turned)
        if "experts.gate_up_proj" in name and arch != "gemma4":
            for part, half in zip(("gate", "up"), split_rows(w, 2)):
                out[tensor_name(arch, name.replace("gate_up", part))] = half
            continue
        if "kv_b_proj" in name:
            for part, half in zip(("k_b", "v_b"), split_kv_b(c, w)):
                out[tensor_name(arch, name.replace("kv_b", part))] = half
            continue
        if arch == "muse-glimmer" and name.endswith("layernorm.weight") or (
                arch == "step35" and name.endswith("norm.weight")):
            floats = struct.unpack("<%df" % w[1][0], g.as_f32(w[2], w[0]))
            w = ("F32", w[1], struct.pack("<%df" % w[1][0], *(1 + x for x in floats)))
        if name.endswith("e_score_correction_bias"):
            end = "" if arch == "hy_v3" else ".bias"
            out["blk.%s.exp_probs_b%s" % (name.split(".")[2], end)] = (
                "F32", w[1][-1:], w[2] if w[0] == "F32" else g.as_f32(w[2], w[0]))
            continue
        out[tensor_name(arch, name)] = w
    for i in range(c["num_hidden_layers"] if arch == "muse-glimmer" else 0):
        for head, x in ("q", c["qk_scale_factor"]), ("k", 1.0):
            out["blk.%d.attn_%s_norm.weight" % (i, head)] = (
                "F32", [dim], struct.pack("<%df" % dim, *[x] * dim))
    if arch == "gemma4":
        n = gemma4_full(c)[0]
        turned = int(n * c["rope_parameters"]["full_attention"]["partial_rotary_factor"]) // 2
        out["rope_freqs.weight"] = ("F32", [n // 2], struct.pack(
            "<%df" % (n // 2), *[1.0] * turned + [1e30] * (n // 2 - turned)))
    rope = c.get("rope_parameters") or {}
    for kind in ("long", "short") if rope.get("rope_type") == "longrope" else ():
        n = len(rope[kind + "_factor"])
        out["rope_factors_%s.weight" % kind] = (
            "F32", [n], struct.pack("<%df" % n, *rope[kind + "_factor"]))
    factors = step_factors(c) if arch == "step35" else g.rope_factors(c)
    if factors:
        out["rope_freqs.weight"] = ("F32", [len(factors) // 4], factors)
    return out


def step_factors(c):
    """Of the half of a head that rotates where there is no window; behind them ones."""
    half = g.rope_factors({**c, "rope_theta": c["rope_theta"][0],
                           "head_dim": c["head_dim"] // 2})
    ones = c["head_dim"] // 4
    return half + struct.pack("<%df" % ones, *[1.0] * ones)


def step_keys(c, arch):
    """A number a layer, where it has one. That layers without a window rotate half of what the
    others do is not in the file."""
    n, other = c["num_hidden_layers"], c["attention_other_setting"]
    windows = [kind == "sliding_attention" for kind in c["layer_types"][:n]]
    heads = [other["num_attention_heads"] if w else c["num_attention_heads"] for w in windows]
    out = [("attention.head_count", (g.ARRAY, g.I32), heads),
           ("attention.head_count_kv", (g.ARRAY, g.I32), [c["num_attention_groups"]] * n),
           ("attention.sliding_window_pattern", (g.ARRAY, g.BOOL), windows),
           ("rope.freq_base", g.F32, c["rope_theta"][0]),
           ("rope.freq_base_swa", g.F32, c["rope_theta"][1]),
           ("expert_count", g.U32, c["moe_num_experts"]),
           ("expert_used_count", g.U32, c["moe_top_k"]),
           ("expert_shared_feed_forward_length", g.U32, c["share_expert_dim"]),
           ("expert_weights_norm", g.BOOL, c["norm_expert_weight"]),
           ("expert_weights_scale", g.F32, c["moe_router_scaling_factor"]),
           ("leading_dense_block_count", g.U32, int(c["moe_layers_enum"].split(",")[0])),
           ("moe_every_n_layers", g.U32, c["moe_every_n_layer"]),
           ("swiglu_clamp_exp", (g.ARRAY, g.F32), c["swiglu_limits"][:n]),
           ("swiglu_clamp_shexp", (g.ARRAY, g.F32), c["swiglu_limits_shared"][:n])]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def long_keys(c, arch):
    """The sharpness of attention, as the paper has it."""
    ctx = c["original_max_position_embeddings"]
    sharp = math.sqrt(1 + math.log(c["max_position_embeddings"] / ctx) / math.log(ctx))
    return [(arch + ".rope.scaling.type", g.STRING, "longrope"),
            (arch + ".rope.scaling.original_context_length", g.U32, ctx),
            (arch + ".rope.scaling.attn_factor", g.F32, sharp)]


def grouped_keys(c, arch):
    return [(arch + "." + name, kind, value) for name, kind, value in (
        ("expert_count", g.U32, c["n_routed_experts"]),
        ("expert_shared_count", g.U32, c["n_shared_experts"]),
        ("expert_group_count", g.U32, c["n_group"]),
        ("expert_group_used_count", g.U32, c["topk_group"]),
        ("expert_weights_scale", g.F32, c["routed_scaling_factor"]),
        ("expert_weights_norm", g.BOOL, c["norm_topk_prob"]),
        ("expert_gating_func", g.U32, 1 if arch == "mistral4" else 2),
        ("leading_dense_block_count", g.U32, c.get("first_k_dense_replace", 0)))]


def mla_keys(c, arch):
    """The cache's key and value are as those of one head; heads have keys of their own."""
    rope, wide = c["rope_parameters"], c["kv_lora_rank"] + c["qk_rope_head_dim"]
    out = [("attention.head_count_kv", g.U32, 1), ("attention.key_length", g.U32, wide),
           ("attention.value_length", g.U32, c["kv_lora_rank"]),
           ("attention.key_length_mla", g.U32,
            c["qk_nope_head_dim"] + c["qk_rope_head_dim"]),
           ("attention.value_length_mla", g.U32, c["v_head_dim"]),
           ("attention.kv_lora_rank", g.U32, c["kv_lora_rank"]),
           ("rope.dimension_count", g.U32, c["qk_rope_head_dim"])]
    if c["q_lora_rank"]:
        out.append(("attention.q_lora_rank", g.U32, c["q_lora_rank"]))
    if "index_topk" in c:
        out += [("attention.indexer.head_count", g.U32, c["index_n_heads"]),
                ("attention.indexer.key_length", g.U32, c["index_head_dim"]),
                ("attention.indexer.top_k", g.U32, c["index_topk"])]
    if rope["rope_type"] == "yarn":
        out.append(("rope.scaling.yarn_log_multiplier", g.F32,
                    0.1 * rope["mscale_all_dim"]))
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def kimi(c):
    """Its settings as other models spell them."""
    own = c["linear_attn_config"]
    return {**{k: v for k, v in c.items() if k != "num_experts"},
            "max_position_embeddings": c["model_max_length"], "rope_parameters": {
                "rope_type": "default", "rope_theta": c["rope_theta"]},
            "num_experts_per_tok": c["num_experts_per_token"],
            "n_routed_experts": c["num_experts"], "n_shared_experts": c["num_shared_experts"],
            "n_group": c["num_expert_group"], "norm_topk_prob": c["moe_renormalize"],
            "layers": [i + 1 in own["full_attn_layers"] for i in range(c["num_hidden_layers"])]}


def kimi_keys(c, arch):
    """The converter does not say how weights of experts are scaled."""
    own = c["linear_attn_config"]
    out = [("attention.head_count_kv", (g.ARRAY, g.I32), [int(full) for full in c["layers"]]),
           ("ssm.conv_kernel", g.U32, own["short_conv_kernel_size"]),
           ("kda.head_dim", g.U32, own["head_dim"])]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def ling(c):
    """Its settings as other models spell them."""
    return {**{k: v for k, v in c.items() if k != "num_experts"},
            "n_routed_experts": c["num_experts"], "n_shared_experts": c["num_shared_experts"],
            "head_dim": c["qk_rope_head_dim"], "num_nextn_predict_layers": 0,
            "layers": [(i + 1) % c["layer_group_size"] == 0
                       for i in range(c["num_hidden_layers"])]}


def ling_name(c, name):
    """A gate is a head's behind latent attention, and a channel's behind the delta rule."""
    part = name.split(".")
    own = (name.endswith(".self_attn.g_proj.weight") and
           (int(part[2]) + 1) % c["layer_group_size"])
    return name.replace("g_proj", "g_a_proj") if own else name


def ling_keys(c, arch):
    out = [("attention.head_count_kv", (g.ARRAY, g.I32), [int(full) for full in c["layers"]]),
           ("ssm.conv_kernel", g.U32, c["short_conv_kernel_size"]),
           ("kda.head_dim", g.U32, c["head_dim_of_delta"]),
           ("kda.safe_gate", g.BOOL, c["kda_safe_gate"]),
           ("kda.gate_lower_bound", g.F32, c["kda_lower_bound"]),
           ("expert_shared_feed_forward_length", g.U32,
            c["moe_shared_expert_intermediate_size"]),
           ("swiglu_clamp_exp", (g.ARRAY, g.F32), c["expert_swiglu_limit_list"]),
           ("swiglu_clamp_shexp", (g.ARRAY, g.F32), c["share_expert_swiglu_limit_list"])]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def lfm2_keys(c, arch):
    """The width of its dense layers is that of the tensors."""
    of = c["num_key_value_heads"]
    out = [("attention.head_count_kv", (g.ARRAY, g.I32),
            [0 if t == "conv" else of for t in c["layer_types"]]),
           ("attention.layer_norm_rms_epsilon", g.F32, c["norm_eps"]),
           ("shortconv.l_cache", g.U32, c["conv_L_cache"])]
    if "num_experts" in c:
        out += [("leading_dense_block_count", g.U32, c["num_dense_layers"]),
                ("expert_gating_func", g.U32, 2)]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def gemma4_full(c):
    """Elements of a head and heads of keys, in layers without a window."""
    own = c["per_layer_config"][str(c["layer_types"].index("full_attention"))]
    return own["head_dim"], own.get("num_key_value_heads", c["num_key_value_heads"])


def gemma4_keys(c, arch):
    n, heads = gemma4_full(c)
    is_windowed = [t == "sliding_attention" for t in c["layer_types"]]
    out = [("attention.key_length", g.U32, n), ("attention.value_length", g.U32, n),
           ("attention.key_length_swa", g.U32, c["head_dim"]),
           ("attention.value_length_swa", g.U32, c["head_dim"]),
           ("attention.shared_kv_layers", g.U32, c["num_kv_shared_layers"]),
           ("embedding_length_per_layer_input", g.U32, c["hidden_size_per_layer_input"]),
           ("final_logit_softcapping", g.F32, c["final_logit_softcapping"]),
           ("rope.dimension_count", g.U32, n),
           ("rope.dimension_count_swa", g.U32, c["head_dim"]),
           ("rope.freq_base_swa", g.F32,
            c["rope_parameters"]["sliding_attention"]["rope_theta"])]
    if heads != c["num_key_value_heads"]:
        out.append(("attention.head_count_kv", (g.ARRAY, g.I32),
                    [c["num_key_value_heads"] if w else heads for w in is_windowed]))
    if c["use_double_wide_mlp"]:
        own, width = len(is_windowed) - c["num_kv_shared_layers"], c["intermediate_size"]
        out.append(("feed_forward_length", (g.ARRAY, g.I32),
                    [width if i < own else 2 * width for i in range(len(is_windowed))]))
    if c.get("top_k_experts"):
        out.append(("expert_used_count", g.U32, c["top_k_experts"]))
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def space_keys(c, arch):
    """Bamba lists the layers that attend, and rotates half of each head."""
    of, attends = c["num_key_value_heads"], c.get("attn_layer_indices")
    if attends is None:
        attends = [i for i, t in enumerate(c["layer_types"]) if t == "full_attention"]
    out = [("attention.head_count_kv", (g.ARRAY, g.I32),
            [of if i in attends else 0 for i in range(c["num_hidden_layers"])]),
           ("ssm.conv_kernel", g.U32, c["mamba_d_conv"]),
           ("ssm.state_size", g.U32, c["mamba_d_state"]),
           ("ssm.group_count", g.U32, c["mamba_n_groups"]),
           ("ssm.inner_size", g.U32, c["mamba_n_heads"] * c["mamba_d_head"]),
           ("ssm.time_step_rank", g.U32, c["mamba_n_heads"]),
           ("rope.scaling.finetuned", g.BOOL, c["model_type"] == "bamba")]
    if "shared_intermediate_size" in c:
        out.append(("expert_shared_feed_forward_length", g.U32,
                    c["shared_intermediate_size"]))
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def falcon_keys(c, arch):
    """No multiplier: the matrices have them."""
    return [(arch + ".attention.head_count_kv", g.U32, c["num_key_value_heads"]),
            *(k for k in space_keys({**c, "layer_types": []}, arch) if ".ssm." in k[0])]


def nemotron_keys(c, arch):
    """Whether a layer is a state space, attention, dense or of experts."""
    kinds, of = c["layers_block_type"], c["num_key_value_heads"]
    width = c["moe_intermediate_size"] if "moe" in kinds else c["intermediate_size"]
    out = [("block_count", g.U32, len(kinds)),
           ("attention.head_count_kv", (g.ARRAY, g.I32),
            [of if k == "full_attention" else 0 for k in kinds]),
           ("feed_forward_length", (g.ARRAY, g.I32),
            [width if k in ("mlp", "moe") else 0 for k in kinds]),
           ("attention.layer_norm_epsilon", g.F32, c["layer_norm_epsilon"]),
           ("rope.dimension_count", g.U32, c["hidden_size"] // c["num_attention_heads"]),
           ("ssm.conv_kernel", g.U32, c["conv_kernel"]),
           ("ssm.state_size", g.U32, c["ssm_state_size"]),
           ("ssm.group_count", g.U32, c["n_groups"]),
           ("ssm.inner_size", g.U32, c["mamba_num_heads"] * c["mamba_head_dim"]),
           ("ssm.time_step_rank", g.U32, c["mamba_num_heads"])]
    if "moe" in kinds:
        out.append(("expert_shared_feed_forward_length", g.U32,
                    c["moe_shared_expert_intermediate_size"]))
    if c.get("moe_latent_size"):
        out.append(("moe_latent_size", g.U32, c["moe_latent_size"]))
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def ernie_keys(c, arch):
    return [(arch + "." + name, g.U32, value) for name, value in (
        ("expert_count", c["moe_num_experts"]), ("expert_used_count", c["moe_k"]),
        ("interleave_moe_layer_step", c["moe_layer_interval"]),
        ("leading_dense_block_count", c["moe_layer_start_index"]),
        ("expert_shared_count", c["moe_num_shared_experts"]),
        ("expert_shared_feed_forward_length",
         c["moe_num_shared_experts"] * c["moe_intermediate_size"]))]


def granite_keys(c, arch):
    """As Granite 4 without state spaces has them: heads of each layer, and a shared expert
    where there are none."""
    layers = c["num_hidden_layers"]
    out = [("attention.head_count_kv", (g.ARRAY, g.I32), [c["num_key_value_heads"]] * layers),
           ("expert_count", g.U32, 0), ("expert_used_count", g.U32, 0),
           ("expert_shared_feed_forward_length", g.U32, c["intermediate_size"])]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def hunyuan(c):
    """Its base is stretched already; experts are as wide as the dense layers would be."""
    rope, dim = c["rope_parameters"], c["head_dim"]
    theta = rope["rope_theta"] * rope.get("alpha", 1) ** (dim / (dim - 2))
    out = {**c, "rope_parameters": {"rope_theta": theta}}
    if "moe_topk" in c:
        out.update(num_experts_per_tok=c["moe_topk"],
                   moe_intermediate_size=c["intermediate_size"])
    return out


def hunyuan_keys(c, arch):
    out = [("rope.scaling.type", g.STRING, "none"), ("rope.scaling.factor", g.F32, 1.0),
           ("rope.scaling.original_context_length", g.U32, 1 << 18)]
    if "moe_topk" in c:
        out += [("expert_shared_feed_forward_length", g.U32, c["intermediate_size"]),
                ("expert_shared_count", g.U32, 1)]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def shared_keys(c, arch):
    """HY 3 says neither how many shared experts there are, nor how many dense layers."""
    scale = c.get("router_scaling_factor", c.get("routed_scaling_factor"))
    out = [("expert_shared_feed_forward_length", g.U32,
            c["num_shared_experts"] * c["moe_intermediate_size"]),
           ("expert_weights_norm", g.BOOL, True), ("expert_gating_func", g.U32, 2),
           ("expert_weights_scale", g.F32, scale)]
    if arch == "exaone-moe":
        out += [("expert_shared_count", g.U32, c["num_shared_experts"]),
                ("leading_dense_block_count", g.U32, c["first_k_dense_replace"]),
                ("rope.scaling.type", g.STRING, "none"), ("nextn_predict_layers", g.U32, 0)]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def laguna_keys(c, arch):
    """Every fourth layer sees all, the first one too: the file says only how far the others
    see. Heads are those of each layer."""
    rope, dim = c["rope_parameters"], c["head_dim"]
    out = [("attention.head_count", (g.ARRAY, g.I32), c["num_attention_heads_per_layer"]),
           ("expert_shared_feed_forward_length", g.U32, c["shared_expert_intermediate_size"]),
           ("expert_weights_norm", g.BOOL, True), ("expert_gating_func", g.U32, 2),
           ("expert_weights_scale", g.F32, c["moe_routed_scaling_factor"]),
           ("leading_dense_block_count", g.U32, c["mlp_layer_types"].count("dense")),
           ("rope.freq_base_swa", g.F32, rope["sliding_attention"]["rope_theta"]),
           ("rope.scaling.yarn_beta_fast", g.F32, rope["full_attention"]["beta_fast"]),
           ("rope.dimension_count", g.U32,
            int(dim * rope["full_attention"]["partial_rotary_factor"])),
           ("rope.dimension_count_swa", g.U32,
            int(dim * rope["sliding_attention"]["partial_rotary_factor"]))]
    return [(arch + "." + name, kind, value) for name, kind, value in out]


def arch_of(c):
    return KINDS[c["model_type"]] + ("_moe" if "moe" in c.get("layers_block_type", ())
                                     else "")


def keys(folder, config, made):
    c = text_config(config)
    if "conv_L_cache" in c:
        c = {**c, "intermediate_size": made["blk.0.ffn_gate.weight"][1][0]}
    if c["model_type"].startswith("hunyuan"):
        c = hunyuan(c)
    if c["model_type"] == "kimi_linear":
        c = kimi(c)
    if c["model_type"] == "bailing_hybrid":
        c = {**ling(c), "head_dim_of_delta": c["head_dim"]}
    if c["model_type"] in ("deepseek_v4", "step3p5"):
        c = {**c, "num_nextn_predict_layers": 0}
    arch = g.ARCHS[c["model_type"]] = arch_of(c)
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    out = g.model_keys({**c, "head_dim": dim})
    out += [(arch + "." + name, g.F32, c[key]) for key, name in KEYS.items()
            if key in c and arch != "falcon-h1"]
    beta = (c.get("rope_parameters") or {}).get("llama_4_scaling_beta")
    if beta is not None:
        if arch == "mistral4":  # what its own format's converter writes
            out.append((arch + ".attention.temperature_length", g.U32,
                        c["rope_parameters"]["original_max_position_embeddings"]))
        out += [(arch + ".attention.temperature_scale", g.F32, beta),
                (arch + ".rope.scaling.yarn_log_multiplier", g.F32,
                 c["rope_parameters"]["mscale_all_dim"])]
    types = c.get("layer_types", [])
    if "sliding_attention" in types and arch != "cohere2":  # its files do not say it
        out.append((arch + ".attention.sliding_window_pattern", (g.ARRAY, g.BOOL),
                    [kind == "sliding_attention" for kind in types]))
    if arch == "minimax-m2":
        out.append((arch + ".expert_gating_func", g.U32, 2))
    if "attention_factor" in (c.get("rope_parameters") or {}).get("full_attention", {}):
        out.append((arch + ".rope.scaling.yarn_attn_factor", g.F32,
                    c["rope_parameters"]["full_attention"]["attention_factor"]))
    if arch == "nemotron_h":
        c = {k: v for k, v in c.items() if "expert" not in k}
        out = [k for k in out if "expert" not in k[0]]
    if arch == "llama4":
        more = [(arch + ".feed_forward_length", g.U32, c["intermediate_size_mlp"]),
                (arch + ".expert_feed_forward_length", g.U32, c["intermediate_size"]),
                (arch + ".interleave_moe_layer_step", g.U32, c["interleave_moe_layer_step"])]
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if (c.get("rope_parameters") or {}).get("rope_type") == "longrope":
        out += long_keys(c, arch)
    if arch == "deepseek4":
        more = four_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}
               and not k[0].endswith("sliding_window_pattern")] + more
    elif "n_routed_experts" in c:
        out += grouped_keys(c, arch)
    if "mamba_num_heads" in c:
        more = nemotron_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if arch == "ernie4_5-moe":
        out += ernie_keys(c, arch)
    if arch.startswith("hunyuan"):
        out += hunyuan_keys(c, arch)
    if arch in ("hy_v3", "exaone-moe"):
        out += shared_keys(c, arch)
    if c.get("model_type") == "granitemoeshared":
        out.append((arch + ".expert_shared_feed_forward_length", g.U32,
                    c["shared_intermediate_size"]))
    if "conv_L_cache" in c:
        more = lfm2_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if arch == "granite":
        more = granite_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if arch in ("granitehybrid", "falcon-h1"):
        more = space_keys(c, arch) if arch == "granitehybrid" else falcon_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if arch == "gemma4":
        more = gemma4_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    elif "kv_lora_rank" in c:
        more = mla_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    else:
        out.append((arch + ".attention.value_length", g.U32, dim))
        rope = c.get("rope_parameters") or {}
        part = c.get("partial_rotary_factor", rope.get("partial_rotary_factor", 1))
        if "mamba_num_heads" not in c and arch != "deepseek4":
            out.append((arch + ".rope.dimension_count", g.U32, int(dim * part)))
    if arch == "kimi-linear":
        more = kimi_keys(c, arch)
        out = [k for k in out if k[0] not in {arch + ".expert_weights_norm",
                                              *(m[0] for m in more)}] + more
    if arch == "bailingmoe3":
        more = ling_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if arch == "muse-glimmer":
        out += [(arch + ".logit_scale", g.F32, c["output_multiplier"]),
                (arch + ".final_logit_softcapping", g.F32, c["final_logit_softcapping"])]
    if arch == "step35":
        more = step_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}] + more
    if arch == "laguna":
        more = laguna_keys(c, arch)
        out = [k for k in out if k[0] not in {m[0] for m in more}
               and not k[0].endswith("sliding_window_pattern")] + more
    return out + g.tokenizer_keys(folder, made["token_embd.weight"][1][0])
