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
from llama_biases import FOLDER, as_gguf, as_int4, write_config
from tap import FIBERS, done, eq, haloctl, ok

REFERENCE = os.path.join(FOLDER, "reference.json")


def verify(path, *args):
    code, out, err = haloctl("verify", "--model", path, "--json", "--reference", REFERENCE, *args)
    return code, json.loads(out or b"{}"), err


def exact(path, name):
    code, v, err = verify(path, "--exact")
    ok(code == 0 and v.get("max_delta", 1) < 1e-4, name, (v, err))


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
