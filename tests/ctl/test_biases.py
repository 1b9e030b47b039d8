#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model whose every linear layer has a bias, in float, int4 and GGUF; any of the biases alone
in GGUF; a head beside tie_word_embeddings; and tensors that halod has no place for."""
import json
import os
import shutil
import struct
import tempfile

import gguf_file as g
from tap import FIBERS, SRC, done, eq, haloctl, ok

FOLDER = os.path.join(SRC, "tests/golden/models/llama-biases")
REFERENCE = os.path.join(FOLDER, "reference.json")
DIM = 32


def verify(path, *args):
    code, out, err = haloctl("verify", "--model", path, "--json", "--reference", REFERENCE, *args)
    return code, json.loads(out or b"{}"), err


def exact(path, name):
    code, v, err = verify(path, "--exact")
    ok(code == 0 and v.get("max_delta", 1) < 1e-4, name, (v, err))


def numbers(raw):
    return struct.unpack("<%df" % (len(raw) // 2), g.bf16_to_f32(raw))


def step_of(values):
    """The power of two that all are multiples of, -8 to 7 times."""
    step = 2.0 ** -14
    while max(abs(v) for v in values) > 8 * step or any(v == 8 * step for v in values):
        step *= 2
    assert all(v / step == int(v / step) for v in values)
    return step


def as_gguf(kind):
    config = g.read_json(FOLDER, "config.json")
    out = {}
    for name, (_, shape, raw) in g.load(FOLDER).items():
        if "q_proj" in name or "k_proj" in name:
            raw = g.pair_rows(raw, shape[0], DIM)
        if kind == "Q4_0" and name.endswith("_proj.weight"):
            values, blocks = numbers(raw), []
            step = step_of(values)
            for i in range(0, len(values), 32):
                q = [int(v / step) + 8 for v in values[i:i + 32]]
                blocks.append(struct.pack("<e", step) + bytes(
                    q[j] | q[j + 16] << 4 for j in range(16)))
            out[g.tensor_name(name)] = ("Q4_0", shape, b"".join(blocks))
        elif kind == "BF16" and len(shape) == 2:
            out[g.tensor_name(name)] = ("BF16", shape, raw)
        else:
            out[g.tensor_name(name)] = ("F32", shape, g.bf16_to_f32(raw))
    n_vocab = out["token_embd.weight"][1][0]
    return g.model_keys(config) + g.tokenizer_keys(FOLDER, n_vocab), out


def as_int4(folder):
    """compressed-tensors: words of eight integers, with a scale for each 32 of a row."""
    shutil.copytree(FOLDER, folder)
    out = {}
    for name, (dtype, shape, raw) in g.load(FOLDER).items():
        if not name.endswith("_proj.weight"):
            out[name] = (dtype, shape, raw)
            continue
        values, words = numbers(raw), []
        step = step_of(values)
        for i in range(0, len(values), 8):
            words.append(sum(int(v / step) + 8 << 4 * j for j, v in enumerate(values[i:i + 8])))
        scale = struct.pack("<f", step)[2:]
        out[name + "_packed"] = ("I32", [shape[0], shape[1] // 8],
                                 struct.pack("<%dI" % len(words), *words))
        out[name + "_scale"] = ("BF16", [shape[0], shape[1] // 32],
                                scale * (len(values) // 32))
        out[name + "_shape"] = ("I64", [2], struct.pack("<2q", *shape))
    g.write_safetensors(os.path.join(folder, "model.safetensors"), out)
    config = g.read_json(folder, "config.json")
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
            "group_size": 32}}}}
    write_config(folder, config)


def write_config(folder, config):
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def formats(tmp):
    path = os.path.join(tmp, "b.gguf")
    for kind in ("F32", "BF16", "Q4_0"):
        g.write(path, *as_gguf(kind))
        exact(path, "GGUF in " + kind)
    folder = os.path.join(tmp, "int4")
    as_int4(folder)
    exact(folder, "int4")
    for where, name in ((path, "Q4_0"), (folder, "int4"), (FOLDER, "bf16")):
        code, v, err = verify(where)
        ok(code == 0 and v["max_delta"] < 0.2, "the fast path in " + name, (v, err))
        if os.path.exists(FIBERS):
            code, v, err = verify(where, "--backend", "hip", "--hip-library", FIBERS,
                                  "--max-delta", "0.2")
            ok(code == 0, "the GPU's kernels in " + name, (v, err))


def alone(tmp):
    """A bias that a file lacks is zero."""
    path = os.path.join(tmp, "b.gguf")
    keys, tensors = as_gguf("BF16")
    kinds = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    seen = set()
    for kept in ((), *((k,) for k in kinds), kinds[:3], kinds[4:], kinds[:4]):
        without, zeros = dict(tensors), dict(tensors)
        for name, (dtype, shape, raw) in tensors.items():
            if name.endswith(".bias") and name.split(".")[2] not in kept:
                del without[name]
                zeros[name] = (dtype, shape, bytes(len(raw)))
        both = []
        for one in (without, zeros):
            g.write(path, keys, one)
            _, v, err = verify(path, "--exact")
            both.append((v.get("max_delta"), v.get("mean_delta")))
        ok(both[0] == both[1] and both[0][0] is not None, "only " + ", ".join(kept), (both, err))
        seen.add(both[0])
    eq(len(seen), 11, "each of them counts")


def heads(tmp):
    """tie_word_embeddings beside an own head."""
    folder = os.path.join(tmp, "tied")
    shutil.copytree(FOLDER, folder)
    config = g.read_json(folder, "config.json")
    write_config(folder, dict(config, tie_word_embeddings=True))
    exact(folder, "an own head is kept")
    tensors = g.load(FOLDER)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    g.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    code, out, err = haloctl("inspect", "--model", folder, "--json")
    ok(json.loads(out)["config"]["tied_embeddings"], "a copy of the table is none", err)
    _, twice, _ = verify(folder, "--exact")
    write_config(folder, config)
    _, apart, _ = verify(folder, "--exact")
    eq(twice["max_delta"], apart["max_delta"], "and has the same numbers")


def unknown(tmp):
    """A tensor without a place is an error that names it."""
    folder = os.path.join(tmp, "unknown")
    shutil.copytree(FOLDER, folder)
    tensors = g.load(FOLDER)
    row = ("BF16", [64], struct.pack("<64H", *[0x3f80] * 64))
    zero = ("BF16", [64], bytes(128))
    layer = "model.layers.0."
    for name, tensor, is_left in (
            (layer + "self_attn.gate_proj.weight", row, False),
            (layer + "input_layernorm.bias", row, False),
            (layer + "input_layernorm.bias", zero, True),
            ("model.norm.bias", row, False), ("lm_head.bias", row, False),
            ("score.weight", row, False), ("other.weight", row, False),
            (layer + "self_attn.rotary_emb.inv_freq", row, True),
            (layer + "self_attn.q_proj.input_scale", row, True),
            ("model.layers.2.input_layernorm.weight", row, False),
            ("model.layers.2.enorm.weight", row, True),
            ("mtp.fc.weight", row, True), ("model.mtp_block.0.norm.weight", row, True),
            ("vision_tower.x.weight", row, True)):
        g.write_safetensors(os.path.join(folder, "model.safetensors"), {**tensors, name: tensor})
        code, v, err = verify(folder, "--exact")
        ok(code == 0 if is_left else code == 2 and name in err, name, (v, err))
    config = g.read_json(folder, "config.json")
    for key in ("mlp_bias", "attention_bias"):
        g.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
        write_config(folder, dict(config, **{key: False}))
        code, v, err = verify(folder, "--exact")
        ok(code == 2 and "bias has no place" in err, key + " false beside biases", err)
        write_config(folder, config)
    del tensors[layer + "mlp.up_proj.bias"]
    g.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    code, v, err = verify(folder, "--exact")
    ok(code == 2 and "mlp.up_proj.bias is missing" in err, "mlp_bias without one", err)

    path = os.path.join(tmp, "u.gguf")
    keys, tensors = as_gguf("BF16")
    f32 = ("F32", [64], struct.pack("<64f", *[1.0] * 64))
    for name, is_left in (("blk.0.attn_norm.bias", False), ("output.bias", False),
                          ("blk.0.attn_sub_norm.weight", False), ("blk.0.new.weight", False),
                          ("other.weight", False), ("blk.0.attn_q_norm.weight", False),
                          ("blk.2.nextn.enorm.weight", True), ("v.blk.0.ln1.weight", True)):
        g.write(path, keys, {**tensors, name: f32})
        code, v, err = verify(path, "--exact")
        ok(code == 0 if is_left else code == 2 and "has no place" in err, "GGUF: " + name,
           (v, err))


with tempfile.TemporaryDirectory() as folder:
    formats(folder)
    alone(folder)
    heads(folder)
    unknown(folder)
done()
