#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models with the keys that published ones have (published.py) load, and answer as
before."""
import json
import os
import re
import shutil
import tempfile

from published import GENERATION, KNOWN, MODELS, SOURCES, TOKENIZER
from tap import SRC, done, eq, haloctl, ok

GOLDEN = os.path.join(SRC, "tests/golden/models")
PLAIN = {"transformers_version": "4.51.0", "use_cache": True, "initializer_range": 0.02,
         "bos_token_id": None, "pad_token_id": None, "tie_word_embeddings": False}


def value_of(own, key):
    """The small model's value of a key, which may be spelled otherwise there."""
    rope = own.get("rope_parameters") or {}
    full = rope.get("full_attention", rope)
    if key in own:
        return own[key]
    if key in own.get("text_config", {}):
        return own["text_config"][key]
    if key in ("dtype", "torch_dtype"):
        return own.get("dtype", "bfloat16")
    if key in ("rope_theta", "partial_rotary_factor"):
        return full.get(key, 1.0 if key == "partial_rotary_factor" else None)
    if key == "rope_local_base_freq":
        return rope["sliding_attention"]["rope_theta"]
    if key == "rope_scaling":
        rest = {k: v for k, v in full.items() if k not in ("rope_theta", "partial_rotary_factor")}
        return None if rest.get("rope_type", "default") == "default" and len(rest) < 2 else rest
    if key == "rotary_dim":
        return int(own["head_dim"] * full["partial_rotary_factor"])
    if key == "num_experts":
        return own["num_local_experts"]
    if key == "hybrid_override_pattern":
        return "".join({"linear_attention": "M", "full_attention": "*", "mlp": "-",
                        "moe": "E"}[k] for k in own["layers_block_type"])
    if key == "num_hidden_layers":
        return len(own["layers_block_type"])
    if key == "attention_head_dim":
        return own["head_dim"]
    if key in ("norm_eps", "rms_norm_eps"):
        return own["layer_norm_epsilon"]
    return PLAIN[key]


def config_of(own, keys, others):
    out = {}
    if any(k.startswith("text.") for k in keys):
        text = {k[5:]: v for k, v in others.items() if k.startswith("text.")}
        out["text_config"] = config_of(own.get("text_config", own), [
            k[5:] for k in keys if k.startswith("text.")], text)
    if "head_dim" in own and own["head_dim"] * own["num_attention_heads"] != own["hidden_size"]:
        out["head_dim"] = own["head_dim"]  # what was shrunk has other heads
    for k in keys:
        if not k.startswith("text."):
            out[k] = value_of(own, k)
    out.update((k, v) for k, v in others.items() if not k.startswith("text."))
    return out


def write(folder, name, value):
    path = os.path.join(folder, name)
    if os.path.islink(path):
        os.remove(path)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return json.load(f)


def linked(tmp, name):
    folder = os.path.join(tmp, "model")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for file in os.listdir(os.path.join(GOLDEN, name)):
        os.symlink(os.path.abspath(os.path.join(GOLDEN, name, file)),
                   os.path.join(folder, file))
    return folder


def as_a_part(folder, name):
    """The tensors as they are called where a text is a part of the model."""
    path = os.path.join(folder, "model.safetensors")
    os.remove(path)
    with open(os.path.join(GOLDEN, name, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    text = json.dumps({re.sub("^model\\.", "model.language_model.", k): v
                       for k, v in header.items()}).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def models(tmp):
    for i, (name, of, keys, others, is_same) in enumerate(MODELS):
        folder = linked(tmp, of)
        own = read(folder, "config.json")
        config = config_of(own, keys.split(), others)
        write(folder, "config.json", config)
        if "text_config" in config and "text_config" not in own:
            as_a_part(folder, of)
        write(folder, "generation_config.json", GENERATION[i % len(GENERATION)])
        tokenizer = dict(read(folder, "tokenizer_config.json"), **TOKENIZER[i % len(TOKENIZER)])
        write(folder, "tokenizer_config.json", tokenizer)
        code, out, err = haloctl("verify", "--exact", "--json", "--model", folder)
        ok(code == 0 if is_same else out and code < 2, name, err + out.decode()[:300])


# No small model has these names: why another row stands for them.
ALIKE = {
    "gemma3": "around gemma3_text", "gemma4_unified": "gemma4 without embeddings of layers",
    "gemma4_unified_text": "its text", "nemotron_h_moe": "GGUF's name of nemotron_h",
    "qwen3_asr": "around a text as qwen3's",
    "qwen3_omni_moe": "around a text as qwen3_moe's",
}


def every_architecture():
    """Each architecture of docs/models.md is there, alone or in a model of another name."""
    with open(os.path.join(SRC, "docs/models.md"), encoding="utf-8") as f:
        table = f.read().partition("| `model_type` |")[2]
    runs = re.findall(r"^\| ([\w, ]+) \| [\w.-]* \| \w+ \|", table, re.M)
    types = {name for row in runs for name in row.split(", ")}
    ok(len(types) > 50, "the document lists architectures", sorted(types))
    for _, of, _, others, _ in MODELS:
        config = read(os.path.join(GOLDEN, of), "config.json")
        types -= {config["model_type"], config.get("text_config", {}).get("model_type"),
                  others.get("model_type")}
    eq(sorted(types - set(ALIKE)), [], "every architecture is there")
    eq(sorted(set(ALIKE) - types), [], "and none is excused that is there")
    eq(sorted([*SOURCES, *KNOWN]), sorted(m[0] for m in MODELS), "each row says where it is from")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        models(tmp)
    every_architecture()
    done()
