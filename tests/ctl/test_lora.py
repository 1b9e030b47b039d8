#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters against what Transformers and PEFT make of them (tests/golden/lora), from folders
of PEFT and from GGUF, beside models in several formats; and what is refused."""
import json
import os
import shutil
import struct
import tempfile

import gguf_file as g
from llama_biases import DIM, FOLDER, as_gguf, as_int4
from tap import CHECK, FIBERS, SRC, done, haloctl, ok

MODELS = os.path.join(SRC, "tests/golden/models")
LORA = os.path.join(SRC, "tests/golden/lora")
SHORT = "short" in CHECK


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
        if os.path.exists(FIBERS) and name in ("all", "fused") and not SHORT:
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
            ("target_parameters", ["mlp.experts.down_proj"], ["target_parameters"]),
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
             ["experts.3.up_proj", "adapters of experts"]),
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
    code, _, err = verify(FOLDER, os.path.join(tmp, "nothing"), "other")
    ok(code == 2 and "nothing" in err, "no file", err)
    code, _, err = verify(FOLDER, tmp, "other")
    ok(code == 2 and "adapter_config.json" in err, "no adapter in a folder", err)


with tempfile.TemporaryDirectory() as folder:
    goldens()
    formats(folder)
    types(folder)
    first_wins(folder)
    refusals(folder)
done()
