#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters against what Transformers and PEFT make of them (tests/golden/lora), from folders
of PEFT and from GGUF, beside models in several formats; and what is refused."""
import json
import os
import shutil
import struct
import tempfile

import gguf_families
import gguf_file as g
from llama_biases import DIM, FOLDER, as_gguf, as_int4
from tap import CHECK, FIBERS, SRC, done, haloctl, ok

MODELS = os.path.join(SRC, "tests/golden/models")
LORA = os.path.join(SRC, "tests/golden/lora")
SHORT = "short" in CHECK
ON_FIBERS = ("all", "fused", "latent", "fused-net", "kda", "kda-full", "space", "experts")


def verify(model, adapter, reference, *args):
    code, out, err = haloctl("verify", "--model", model, "--lora", adapter, "--json",
                             "--reference", os.path.join(LORA, reference, "reference.json"), *args)
    return code, json.loads(out or b"{}"), err


def exact(model, adapter, reference, what):
    code, v, err = verify(model, adapter, reference, "--exact")
    ok(code == 0 and v.get("max_delta", 1) < 1e-4, what, (v, err))


def goldens():
    for name in sorted(os.listdir(LORA)):
        folder = os.path.join(LORA, name)
        model = os.path.join(MODELS, g.read_json(folder, "reference.json")["model"])
        exact(model, folder, name, "%s beside %s" % (name, os.path.basename(model)))
        code, v, err = verify(model, folder, name)
        ok(code == 0 and v["pass"], name + ", the fast path", (v, err))
        if os.path.exists(FIBERS) and name in ON_FIBERS and not SHORT:
            code, v, err = verify(model, folder, name, "--backend", "hip", "--hip-library", FIBERS)
            ok(code == 0 and v["pass"], name + ", the GPU's kernels", (v, err))


def as_adapter(name, alpha):
    """The adapter as a GGUF file: its factors are in B, but for alpha over the rank."""
    folder = os.path.join(LORA, name)
    config, out = g.read_json(folder, "adapter_config.json"), {}
    alphas = {"layers.1.mlp.up_proj": 5}
    for key, (_, shape, raw) in g.load(folder).items():
        module = key[len("base_model.model."):].rsplit(".lora_", 1)[0]
        values = struct.unpack("<%df" % (len(raw) // 2), g.bf16_to_f32(raw))
        to = g.tensor_name(module + ".weight") + ".lora_" + key[-len("A.weight")].lower()
        if key.endswith("lora_A.weight"):
            out[to] = ("F16", shape, struct.pack("<%de" % len(values), *values))
            continue
        factor = next((a for end, a in alphas.items() if module.endswith(end)),
                      11.5 if "k_proj" in module else config["lora_alpha"])
        raw = struct.pack("<%df" % len(values), *(
            v * factor / (alpha or shape[1]) for v in values))
        if module.endswith(("q_proj", "k_proj")):
            raw = g.pair_rows(raw, shape[0], DIM)
        out[to] = ("F32", shape, raw)
    keys = [("general.architecture", g.STRING, "llama"), ("general.type", g.STRING, "adapter"),
            ("adapter.type", g.STRING, "lora")]
    return keys + ([("adapter.lora.alpha", g.F32, alpha)] if alpha else []), out


def formats(tmp):
    """One adapter beside the same numbers in other formats, and in another format itself."""
    peft, gguf = os.path.join(LORA, "all"), os.path.join(tmp, "a.gguf")
    model, int4 = os.path.join(tmp, "m.gguf"), os.path.join(tmp, "int4")
    g.write(gguf, *as_adapter("all", 8.0))
    exact(FOLDER, gguf, "all", "a GGUF adapter")
    g.write(gguf, *as_adapter("all", 0))
    exact(FOLDER, gguf, "all", "one without alpha")
    for kind in ("BF16", "Q4_0"):
        g.write(model, *as_gguf(kind))
        exact(model, peft, "all", "beside GGUF in " + kind)
    exact(model, gguf, "all", "GGUF beside GGUF")
    as_int4(int4)
    exact(int4, peft, "all", "beside int4")
    code, v, err = verify(int4, peft, "all")
    ok(code == 0 and v["max_delta"] < 0.2, "the fast path beside int4", (v, err))


def model_as_gguf(name, path):
    """The golden model as llama.cpp's converter writes it; its settings, and its tensors' names."""
    folder = os.path.join(MODELS, name)
    config = g.read_json(folder, "config.json")
    if gguf_families.is_known(config):
        tensors = gguf_families.tensors(config, g.load(folder))
        keys = gguf_families.keys(folder, config, tensors)
        arch = gguf_families.arch_of(gguf_families.text_config(config))
        name_of = lambda x: gguf_families.tensor_name(arch, x)
    else:
        tensors = g.hybrid_tensors(config, g.load(folder), "model.language_model.")
        keys, name_of = g.model_keys(config), g.tensor_name
        keys += g.tokenizer_keys(folder, tensors["token_embd.weight"][1][0])
    g.write(path, keys, tensors)
    return config, name_of


def family_adapter(name, config, name_of, path):
    """The PEFT folder as a GGUF adapter, with value heads of Qwen3.5 in GGUF's order."""
    folder, out = os.path.join(LORA, name), {}
    arch = g.ARCHS.get(config["model_type"]) or gguf_families.arch_of(config)
    hk, hv = config.get("linear_num_key_heads"), config.get("linear_num_value_heads")
    for key, (_, shape, raw) in g.load(folder).items():
        module = key[len("base_model.model."):].rsplit(".lora_", 1)[0].replace("forget_gate.", "")
        part, which = module.split(".", 3)[-1], key[-len("A.weight")].lower()
        to = (module.replace("model.layers", "blk").replace(part, "attn_kv_b.weight")
              if part.endswith("kv_b_proj") else name_of(
                  module.replace("self_attn.out_proj", "self_attn.o_proj") + ".weight"))
        raw = g.bf16_to_f32(raw)
        if arch.startswith("qwen35") and "linear_attn" in part:
            r = g.rows(raw, shape[0])
            n_qk = 2 * hk * config["linear_key_head_dim"] if "qkv" in part else 0
            if which == "b" and "out_proj" not in part:
                raw = b"".join(r[:n_qk]) + g.tile_rows(b"".join(r[n_qk:]), hv, hk)
            elif which == "a" and "out_proj" in part:
                raw = b"".join(g.tile_rows(x, hv, hk) for x in r)
        out[to + ".lora_" + which] = ("F32", shape, raw)
    g.write(path, [("general.architecture", g.STRING, arch), ("general.type", g.STRING, "adapter"),
                   ("adapter.type", g.STRING, "lora"),
                   ("adapter.lora.alpha", g.F32,
                    float(g.read_json(folder, "adapter_config.json")["lora_alpha"]))], out)


def families(tmp):
    """Latent attention and recurrent layers: each form of the adapter beside each of the model."""
    model, adapter = os.path.join(tmp, "f.gguf"), os.path.join(tmp, "fa.gguf")
    for name in ("net", "fused-net", "kda", "kda-full", "space", "conv"):
        base = g.read_json(os.path.join(LORA, name), "reference.json")["model"]
        config, name_of = model_as_gguf(base, model)
        exact(model, os.path.join(LORA, name), name, name + " beside GGUF")
        if name == "fused-net":  # its modules are of no GGUF tensor
            continue
        family_adapter(name, config, name_of, adapter)
        exact(model, adapter, name, name + " as GGUF beside GGUF")
        exact(os.path.join(MODELS, base), adapter, name, name + " as GGUF")


def gates(tmp):
    """Gates of delta nets in another format than the other projections are done beside the
    convolution, and add to what the adapter gives."""
    name, model = "net", os.path.join(tmp, "gates")
    base = g.read_json(os.path.join(LORA, name), "reference.json")["model"]
    shutil.copytree(os.path.join(MODELS, base), model)
    tensors = g.load(model)
    for key, (_, shape, raw) in tensors.items():
        if key.endswith(("in_proj_qkv.weight", "in_proj_z.weight")):
            n = len(raw) // 2
            values = struct.unpack("<%df" % n, g.bf16_to_f32(raw))
            tensors[key] = ("F16", shape, struct.pack("<%de" % n, *values))
    g.write_safetensors(os.path.join(model, "model.safetensors"), tensors)
    exact(model, os.path.join(LORA, name), name, "gates beside the convolution")
    if os.path.exists(FIBERS) and not SHORT:
        code, v, err = verify(model, os.path.join(LORA, name), name, "--backend", "hip",
                              "--hip-library", FIBERS)
        ok(code == 0 and v["pass"], "the same, the GPU's kernels", (v, err))


def experts_adapter(path, n_experts=4, keys=(), gate_up=False):
    """The adapter "experts-shared" as GGUF: a stack for each product, or one for gate and up."""
    folder, out, scale = os.path.join(LORA, "experts-shared"), {}, 0
    config = g.read_json(folder, "adapter_config.json")
    for key, (_, shape, raw) in g.load(folder).items():
        module = key[len("base_model.model."):].rsplit(".lora_", 1)[0]
        layer, raw = module.split(".")[2], g.bf16_to_f32(raw)
        which = key[-len("A.weight")].lower()
        if ".experts" not in module:
            out["blk.%s.attn_output.weight.lora_%s" % (layer, which)] = ("F32", shape, raw)
            continue
        r = shape[0 if which == "a" else 1] // n_experts
        parts = ("gate_up",) if gate_up else ("gate", "up")
        parts = parts if module.endswith(".base_layer") else ("down",)
        for i, part in enumerate(parts):
            if which == "a":
                dims, data = [n_experts, r, shape[1]], raw
            else:
                rows = g.rows(raw, shape[0])
                n = len(rows) // len(parts)
                rows = rows[i * n:(i + 1) * n]
                dims = [n_experts, n, r]
                data = b"".join(row[4 * (k * n_experts + e):][:4] for e in range(n_experts)
                                for row in rows for k in range(r))
            out["blk.%s.ffn_%s_exps.weight.lora_%s" % (layer, part, which)] = ("F32", dims, data)
        scale = config["lora_alpha"] * r ** 0.5
    g.write(path, [("general.architecture", g.STRING, "qwen35moe"),
                   ("general.type", g.STRING, "adapter"), ("adapter.type", g.STRING, "lora"),
                   ("adapter.lora.alpha", g.F32, float(scale))], {**out, **dict(keys)})


def older(folder, to):
    """The adapter "experts" as PEFT before 0.19 saves it: sides of a parameter change places."""
    shutil.copytree(folder, to)
    config, out = g.read_json(to, "adapter_config.json"), {}
    config["peft_version"] = "0.18.1"
    with open(os.path.join(to, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    tensors = g.load(folder)
    for key, (kind, shape, raw) in tensors.items():
        if ".experts" not in key:
            out[key] = (kind, shape, raw)
        elif key.endswith("lora_A.weight"):
            a, name = g.rows(raw, shape[0]), key.replace("lora_A", "lora_B")
            n, r = len(a), len(a) // 4
            at = [e * r + k for k in range(r) for e in range(4)]
            out[name] = (kind, [shape[1], n], b"".join(
                a[i][2 * d:][:2] for d in range(shape[1]) for i in at))
        else:
            b, name = g.rows(raw, shape[0]), key.replace("lora_B", "lora_A")
            r = shape[1] // 4
            out[name] = (kind, [shape[1], shape[0]], b"".join(
                row[2 * (k * 4 + e):][:2] for e in range(4) for k in range(r) for row in b))
    g.write_safetensors(os.path.join(to, "adapter_model.safetensors"), out)


def same_bits(model, adapter, reference, want, what):
    code, v, err = verify(model, adapter, reference, "--exact")
    ok(code == 0 and v["max_delta"] == want["max_delta"] and v["mean_delta"] == want["mean_delta"],
       what, (v, want, err))


def experts(tmp):
    """Forms of one adapter of routed experts give the same bits."""
    gguf, folder = os.path.join(tmp, "e.gguf"), os.path.join(LORA, "experts-shared")
    model = os.path.join(MODELS, "qwen35moe")
    _, want, _ = verify(model, folder, "experts-shared", "--exact")
    for gate_up in False, True:
        experts_adapter(gguf, gate_up=gate_up)
        same_bits(model, gguf, "experts-shared", want, "experts as GGUF, %s" % (
            "gate and up in one" if gate_up else "a stack each"))
    model_as_gguf("qwen35moe", os.path.join(tmp, "em.gguf"))
    exact(os.path.join(tmp, "em.gguf"), gguf, "experts-shared", "experts as GGUF beside GGUF")
    folder, model = os.path.join(LORA, "experts"), os.path.join(MODELS, "mixtral")
    _, want, _ = verify(model, folder, "experts", "--exact")
    older(folder, os.path.join(tmp, "older"))
    same_bits(model, os.path.join(tmp, "older"), "experts", want, "as PEFT saved them before 0.19")
    # Four of a layer's experts are in memory at a time: launches are of some pairs.
    before, place = sorted(os.listdir(model)), os.path.join(tmp, "place")
    os.mkdir(place)
    os.environ["TMPDIR"] = place
    for args in [()] + ([("--backend", "hip", "--hip-library", FIBERS)] if os.path.exists(FIBERS)
                        and not SHORT else []):
        _, want, _ = verify(model, folder, "experts", *args)
        code, v, err = verify(model, folder, "experts", "--expert-memory", "36K", *args)
        ok(code == 0 and abs(v["max_delta"] - want["max_delta"]) < 1e-3,
           "experts in a file, %s" % (args[1:2] or "the CPU"), (v, want, err))
        ok(place in err, "which lies in a temporary folder", err)
    ok((sorted(os.listdir(model)), os.listdir(place)) == (before, []), "nothing of it is left",
       os.listdir(place))
    code, v, err = verify(model, folder, "experts", "--expert-memory", "36K", "--expert-dir", place)
    ok(code == 0 and any(f.endswith(".halod-experts") for f in os.listdir(place)),
       "--expert-dir keeps it", (err, os.listdir(place)))
    os.environ["TMPDIR"] = os.path.join(place, "none")
    code, v, err = verify(model, folder, "experts", "--expert-memory", "36K")
    ok(code != 0 and "--expert-dir" in err, "without a temporary folder it says what to do", err)
    del os.environ["TMPDIR"]


def expert_refusals(tmp):
    model, layer = os.path.join(MODELS, "mixtral"), "base_model.model.model.layers.0."
    stack, each = layer + "mlp.experts", layer + "block_sparse_moe.experts.%d.w1"
    for what, change, words in (
            ("an expert more", both(each % 4, 24, 32), ["experts.4.w1", "there are fewer"]),
            ("an expert of other sizes", both(each % 1, 24, 30),
             ["experts.1.w1", "30 inputs and 24 outputs", "32 and 24"]),
            ("rows that are no ranks", both(stack, 48, 32, 6),
             ["mlp.experts", "6 rows of A", "4 routed experts"]),
            ("a stack of other sizes", both(stack, 50, 32, 8),
             ["32 inputs and 50 outputs", "neither gate_up_proj nor down_proj"]),
            ("sides in places of an older version", both(stack, 32, 48, 8), ["neither gate_up"]),
            ("two for the same rows",
             lambda t: [both(stack, 48, 32, 8)(t), both(each % 2, 24, 32)(t)],
             ["experts.2.w1", "mlp.experts", "the same rows"])):
        refused(tmp, what, words, tensors=lambda t, change=change: [t.clear(), change(t)],
                config={"peft_version": "0.21.2"}, model=model)
    refused(tmp, "a stack beside a dense model", ["4 rows of A", "0 routed experts"],
            tensors=both("base_model.model.model.layers.0.mlp.experts", 128, 64, 4))
    path, model = os.path.join(tmp, "r.gguf"), os.path.join(MODELS, "qwen35moe")
    name = "blk.0.ffn_up_exps.weight.lora_"
    for what, keys, words in (
            ("other experts", {name + "a": ("F32", [3, 2, 32], bytes(768)),
                               name + "b": ("F32", [3, 24, 2], bytes(576))},
             ["matrices for 3 experts", "has 4"]),
            ("A and B of other experts", {name + "a": ("F32", [3, 2, 32], bytes(768))},
             ["ffn_up_exps.weight", "different counts of experts"]),
            ("a matrix for all", {name + "a": ("F32", [2, 32], bytes(256))},
             ["no matrix for each expert"]),
            ("no expert", {name + "a": ("F32", [0, 2, 32], b"")}, ["no matrix for each expert"]),
            ("no expert, of long rows", {name + "a": ("F32", [0, 512, 1 << 30], b""),
                                         name + "b": ("F32", [0, 24, 512], b"")},
             ["no matrix for each expert"]),
            ("rows beyond 64 bits", {name + "a": ("F32", [1 << 40, 1 << 40, 0], b"")},
             ["no matrix for each expert"])):
        experts_adapter(path, keys=keys.items())
        code, _, err = verify(model, path, "experts-shared")
        ok(code == 2 and all(w in err for w in words), "GGUF: " + what, (code, err))


def types(tmp):
    """The same numbers in other types: kept in 16 bits they give the bits that they give in 32."""
    folder = os.path.join(tmp, "types")
    shutil.copytree(os.path.join(LORA, "all"), folder)
    path = os.path.join(folder, "adapter_model.safetensors")
    want = verify(FOLDER, folder, "all", "--exact")[1]
    tensors = g.load(folder)
    for kind in ("F32", "F16"):
        as_kind = {}
        for name, (_, shape, raw) in tensors.items():
            raw = g.bf16_to_f32(raw)
            if kind == "F16":
                n = len(raw) // 4
                raw = struct.pack("<%de" % n, *struct.unpack("<%df" % n, raw))
            as_kind[name] = (kind, shape, raw)
        g.write_safetensors(path, as_kind)
        code, v, err = verify(FOLDER, folder, "all", "--exact")
        same = v.get("max_delta") == want["max_delta"] or kind == "F16"
        ok(code == 0 and same and v["max_delta"] < 1e-4, "the same numbers in " + kind,
           (v, want, err))


def first_wins(tmp):
    """Of two patterns for one module the first one says its alpha, as in PEFT."""
    folder = os.path.join(tmp, "two")
    shutil.copytree(os.path.join(LORA, "all"), folder)
    config = g.read_json(folder, "adapter_config.json")
    config["alpha_pattern"][r"layers\.1\.mlp\.up_proj"] = 50
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    exact(FOLDER, folder, "all", "two patterns for a module")


def refused(tmp, what, words, config=None, tensors=None, model=FOLDER):
    """An adapter with other settings or tensors is refused, and the words say why."""
    folder = os.path.join(tmp, "r")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(LORA, "other"), folder)
    about = {**g.read_json(folder, "adapter_config.json"), **(config or {})}
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump(about, f)
    if tensors:
        all_of = g.load(folder)
        tensors(all_of)
        g.write_safetensors(os.path.join(folder, "adapter_model.safetensors"), all_of)
    code, v, err = verify(model, folder, "other")
    ok(code == 2 and all(w in err for w in words), what, (code, v, err))


BASE = "base_model.model.model.layers.0.self_attn.q_proj"


def put(name, shape=(4, 64), value=0.5):
    def change(t):
        t[name] = ("F32", list(shape), struct.pack("<%df" % (shape[0] * shape[1]),
                                                   *[value] * (shape[0] * shape[1])))
    return change


def both(module, n, k, r=2):
    def change(t):
        put(module + ".lora_A.weight", (r, k))(t)
        put(module + ".lora_B.weight", (n, r))(t)
    return change


def refusals(tmp):
    for key, value, words in (
            ("use_dora", True, ["DoRA"]), ("peft_type", "IA3", ["peft_type IA3"]),
            ("bias", "all", ["bias all", "biases"]), ("lora_bias", True, ["lora_bias"]),
            ("modules_to_save", ["lm_head"], ["modules_to_save"]),
            ("init_lora_weights", "pissa", ["init_lora_weights pissa"]),
            ("use_turbo", True, ["use_turbo is not known"]), ("lora_alpha", None, ["lora_alpha"]),
            ("alpha_pattern", {"(": 3}, ["alpha_pattern"])):
        refused(tmp, "%s: %s" % (key, value), words, config={key: value})
    layer = "base_model.model.model.layers.%d."
    for what, change, words in (
            ("DoRA's magnitudes", put(BASE + ".lora_magnitude_vector"), ["magnitude of DoRA"]),
            ("a whole module", put("base_model.model.lm_head.weight"), ["lm_head.weight", "place of"]),
            ("the head", both("base_model.model.lm_head", 512, 64), ["lm_head", "output head"]),
            ("the embedding", put("base_model.model.model.embed_tokens.lora_embedding_A"),
             ["embed_tokens", "of an embedding"]),
            ("an expert", both(layer % 0 + "mlp.experts.3.up_proj", 32, 64),
             ["experts.3.up_proj", "layer has no routed experts", "another base model"]),
            ("an unknown module", both(layer % 1 + "mlp.glue_proj", 64, 64),
             ["layers.1.mlp.glue_proj", "no linear layer of that name"]),
            ("a tower", both("base_model.model.vision_tower.layers.0.mlp.up_proj", 64, 64),
             ["vision_tower", "no part of the text"]),
            ("a layer more", both(layer % 2 + "mlp.up_proj", 160, 64),
             ["layers.2.mlp.up_proj", "no such layer"]),
            ("other shapes", both(layer % 0 + "mlp.up_proj", 96, 48),
             ["48 inputs and 96 outputs", "64 and 160", "another base model"]),
            ("q beside q, k and v", both(layer % 1 + "self_attn.qkv_proj", 256, 64),
             ["layers.1.self_attn.q_proj and", "layers.1.self_attn.qkv_proj", "the same rows"]),
            ("gate and up beside gate", lambda t: [both(layer % 0 + "mlp." + name, n, 64)(t) for
                                                   name, n in (("gate_up_proj", 320),
                                                               ("up_proj", 160))],
             ["layers.0.mlp.up_proj and", "layers.0.mlp.gate_up_proj", "the same rows"]),
            ("too high a rank", both(layer % 0 + "mlp.up_proj", 160, 64, 513),
             ["rank 513", "up to 512"]),
            ("ranks that differ", put(BASE + ".lora_A.weight", (5, 64)), ["q_proj", "different ranks"]),
            ("numbers that are none", put(BASE + ".lora_B.weight", (64, 6), float("nan")),
             ["q_proj.lora_B", "not finite"]),
            ("no B", put(layer % 1 + "mlp.up_proj.lora_A.weight"), ["up_proj", "has no B"])):
        refused(tmp, what, words, tensors=change)
    fused = os.path.join(MODELS, "qwen3next")
    refused(tmp, "a part of fused projections", ["in_proj_qkv", "files have no linear layer"],
            tensors=lambda t: [t.clear(), both(layer % 0 + "linear_attn.in_proj_qkv", 128, 32)(t)],
            model=fused)
    refused(tmp, "fused projections of other heads", ["96 outputs", "192", "another base model"],
            tensors=lambda t: [t.clear(), both(layer % 0 + "linear_attn.in_proj_qkvz", 96, 32)(t)],
            model=fused)
    refused(tmp, "another model", ["another base model"], model=os.path.join(MODELS, "qwen3-bf16"))
    path = os.path.join(tmp, "r.gguf")
    keys, tensors = as_adapter("other", 1.0)
    for what, some, words in (
            ("another architecture", [("general.architecture", g.STRING, "qwen3")] + keys[1:],
             ['"qwen3"', "this one is llama"]),
            ("a model", keys[:1], ["general.type is missing", "no adapter"]),
            ("a control vector", keys[:2] + [("adapter.type", g.STRING, "cvec")], ["adapter.type"])):
        g.write(path, some, tensors)
        code, _, err = verify(FOLDER, path, "other")
        ok(code == 2 and all(w in err for w in words), "GGUF: " + what, (code, err))
    model = os.path.join(tmp, "m.gguf")
    g.write(model, *as_gguf("BF16"))
    g.write(path, [("general.architecture", g.STRING, "mistral3")] + keys[1:], tensors)
    code, _, err = verify(model, path, "other")
    ok(code == 2 and '"mistral3"' in err, "another architecture beside GGUF", (code, err))
    name = "blk.0.attn_q.weight.lora_b"
    g.write(path, keys, {**tensors, name: ("F32", [DIM + 2, 6], bytes((DIM + 2) * 6 * 4))})
    code, _, err = verify(FOLDER, path, "other")
    ok(code == 2 and "no whole heads" in err, "a part of a head", (code, err))
    name = "blk.0.attn_k_b.weight.lora_a"
    g.write(path, [("general.architecture", g.STRING, "deepseek2")] + keys[1:],
            {name: ("F32", [2, 3, 4], bytes(96))})
    code, _, err = verify(os.path.join(MODELS, "deepseekv3-yarn"), path, "other")
    ok(code == 2 and name in err and "is no matrix" in err, "heads of GGUF", (code, err))
    code, _, err = verify(FOLDER, os.path.join(tmp, "nothing"), "other")
    ok(code == 2 and "nothing" in err, "no file", err)
    code, _, err = verify(FOLDER, tmp, "other")
    ok(code == 2 and "adapter_config.json" in err, "no adapter in a folder", err)


with tempfile.TemporaryDirectory() as folder:
    goldens()
    formats(folder)
    families(folder)
    gates(folder)
    experts(folder)
    types(folder)
    first_wins(folder)
    refusals(folder)
    expert_refusals(folder)
done()
