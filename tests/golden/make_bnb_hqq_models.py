#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints whose layers bitsandbytes and HQQ quantized, and what Hugging
Face Transformers makes of their decoded numbers in float32 on the CPU. The numbers are
decoded with numpy from the definition of each format, and compared with the libraries'
own, except where bitsandbytes 0.50 on a CPU decodes wrongly: nf4 with rows that are no
multiples of 64.

    pip install torch transformers safetensors bitsandbytes hqq     (in a venv)
    make_bnb_hqq_models.py

Writes tests/golden/models/qwen3-NAME; run from the top of the tree."""

import json
import os
import shutil

import bitsandbytes as bnb
import numpy as np
import torch
import transformers as hf
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear
from safetensors.torch import load_file, save_file

from make_hf_models import BASE, GOLDEN, case, randomize

# Rows of 288 in down_proj are no multiples of 64; 288 blocks have two outer factors.
SIZES = {**BASE, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 288,
         "tie_word_embeddings": True}


def nf4(w):
    """The tensors of a layer, as the library's own layer saves them, and its numbers."""
    layer = bnb.nn.Linear4bit(w.shape[1], w.shape[0], bias=False, quant_type="nf4",
                              compress_statistics=True, compute_dtype=torch.float32)
    layer.weight = bnb.nn.Params4bit(w, requires_grad=False, quant_type="nf4",
                                     compress_statistics=True)
    tensors = layer.to("cpu").state_dict()
    about = json.loads(bytes(tensors["weight.quant_state.bitsandbytes__nf4"].tolist()))
    at = np.arange(tensors["weight.absmax"].numel()) // about["nested_blocksize"]
    factor = tensors["weight.nested_quant_map"].numpy()[tensors["weight.absmax"].numpy()] \
        * tensors["weight.nested_absmax"].numpy()[at] + np.float32(about["nested_offset"])
    flat = tensors["weight"].numpy().reshape(-1)
    index = np.stack([flat >> 4, flat & 15], 1).reshape(-1)
    numbers = tensors["weight.quant_map"].numpy()[index] \
        * np.repeat(factor, about["blocksize"])[:index.size]
    numbers = numbers.reshape(w.shape).astype(np.float32)
    if w.shape[1] % 64 == 0:
        right = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        assert np.abs(right.float().numpy() - numbers).max() < 1e-6
    assert np.abs(numbers - w.numpy()).max() < 0.17 * np.abs(w.numpy()).max()
    return tensors, numbers


def int8(w):
    layer = bnb.nn.Linear8bitLt(w.shape[1], w.shape[0], bias=False, has_fp16_weights=False)
    layer.weight = bnb.nn.Int8Params(w.half(), requires_grad=False, has_fp16_weights=False)
    tensors = layer.to("cpu").state_dict()
    q, scb = tensors["weight"], tensors["SCB"]
    assert q.dtype == torch.int8, q.dtype
    numbers = q.numpy() * scb.numpy()[:, None] / np.float32(127)
    right = bnb.functional.int8_vectorwise_dequant(q, scb).float().numpy()
    assert np.abs(right - numbers).max() < 1e-6
    return tensors, numbers.astype(np.float32)


def hqq(w, bits=4, group=32):
    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    linear.weight.data = w.clone()
    made = HQQLinear(linear, quant_config=BaseQuantizeConfig(nbits=bits, group_size=group,
                                                            axis=1),
                     compute_dtype=torch.float32, device="cpu")
    tensors = {k: v for k, v in made.state_dict().items() if v is not None}
    q, shape = tensors["W_q"].numpy(), [int(x) for x in tensors["shape"]]
    if bits == 4:
        q = np.concatenate([q >> 4, q & 15])
    q = q.reshape(-1, group).astype(np.float32)
    numbers = (q - tensors["zero"].float().numpy()) * tensors["scale"].float().numpy()
    numbers = numbers.reshape(shape)
    assert np.abs(made.dequantize().float().numpy() - numbers).max() < 1e-6
    return tensors, numbers


HQQ_4 = {"weight_quant_params": {"nbits": 4, "channel_wise": True, "group_size": 32,
                                 "optimize": True, "round_zero": False, "axis": 1,
                                 "view_as_float": False},
         "scale_quant_params": None, "zero_quant_params": None, "offload_meta": False}
BNB = {"quant_method": "bitsandbytes", "bnb_4bit_compute_dtype": "bfloat16",
       "bnb_4bit_quant_storage": "uint8", "bnb_4bit_use_double_quant": True,
       "bnb_4bit_quant_type": "nf4", "llm_int8_threshold": 6.0,
       "llm_int8_skip_modules": None, "llm_int8_has_fp16_weight": False}
KINDS = {
    "qwen3-nf4": (nf4, {**BNB, "load_in_4bit": True, "load_in_8bit": False}),
    "qwen3-llmint8": (int8, {**BNB, "load_in_4bit": False, "load_in_8bit": True}),
    "qwen3-hqq": (hqq, {"quant_method": "hqq", "skip_modules": ["lm_head"],
                        "quant_config": HQQ_4}),
}


def make(i, name):
    quantize, about = KINDS[name]
    rng = torch.Generator().manual_seed(70 + i)
    torch.manual_seed(70 + i)
    folder = os.path.join(GOLDEN, name)
    shutil.rmtree(folder, ignore_errors=True)
    model = hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES)).eval()
    randomize(model, rng)
    model.to(torch.bfloat16).save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    path = os.path.join(folder, "model.safetensors")
    plain = load_file(path)
    stored, decoded = {}, {}
    for key, t in plain.items():
        if not key.endswith("_proj.weight"):
            stored[key], decoded[key] = t, t.float()
            continue
        tensors, numbers = quantize(t.float())
        for k, v in tensors.items():
            stored[key[:-len("weight")] + k] = v.contiguous()
        decoded[key] = torch.from_numpy(numbers.copy())
    model = hf.Qwen3ForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    missing = model.load_state_dict(decoded, strict=False)
    assert missing.missing_keys == ["lm_head.weight"] and not missing.unexpected_keys
    save_file(stored, path, {"format": "pt"})
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**config, "quantization_config": about}, f, indent=2)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)
    cases = [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 12)
             for n in (1, 23, 150)]
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump({"model": name, "reference": "tests/golden/make_bnb_hqq_models.py",
                   "cases": cases}, f)


if __name__ == "__main__":
    torch.set_num_threads(2)
    for i, name in enumerate(KINDS):
        make(i, name)
