#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tiny random DeepSeek-V4 in the form of its published files: layers in FP8 with scales of
blocks in e8m0, experts in FP4, the published names and settings. Hugging Face Transformers reads
that folder itself, in float32, and its log-probabilities become the reference.

    make_deepseek4_fp8.py    (from the top of this repository)

writes tests/golden/models/deepseekv4-fp8. Needs torch, transformers, accelerate, safetensors."""
import json
import os
import shutil
import sys
import tempfile

import torch
from convert_deepseek4 import fp4
from make_hf_models import BASE, COMPRESSED, GOLDEN, case, hf, randomize
from safetensors.torch import load_file, save_file

BLOCK = 16
FP8 = (".attn.wq_a.", ".attn.wq_b.", ".attn.wkv.", ".wo_a.", ".wo_b.", ".indexer.wq_b.",
       ".shared_experts.")
SETTINGS = {**BASE, **COMPRESSED, "hidden_size": 32, "q_lora_rank": 32,
            "moe_intermediate_size": 32}


def fp8(w):
    """The numbers in e4m3, and for each block a power of two in e8m0."""
    n, k = w.shape
    blocks = w.float().view(n // BLOCK, BLOCK, k // BLOCK, BLOCK)
    scale = torch.exp2(torch.ceil(torch.log2(blocks.abs().amax((1, 3)) / 448)))
    numbers = (blocks / scale[:, None, :, None]).reshape(n, k)
    return numbers.to(torch.float8_e4m3fn), scale.to(torch.float8_e8m0fnu)


def tensors_of(folder):
    out = {}
    for name, w in load_file(os.path.join(folder, "model.safetensors")).items():
        name = name.replace("model.embed_tokens", "embed").replace("model.", "", 1)
        name = name.replace("attn.norm", "attn.kv_norm").replace("hc_head.hc_", "hc_head_")
        pack = fp4 if ".ffn.experts." in name else \
            fp8 if any(part in name for part in FP8) and name.endswith(".weight") else None
        if pack:
            w, out[name.replace(".weight", ".scale")] = pack(w)[:2]
        elif name.endswith((".attn_sink", ".ape", ".gate.bias")) or ".0.hc_" in name:
            w = w.float()
        out[name] = w
    return out


def settings_of(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    rates = {"sliding_attention": 0, "compressed_sparse_attention": 4,
             "heavily_compressed_attention": 128}
    yarn = c.pop("rope_parameters")["compress"]
    c["rope_scaling"] = {"type": "yarn", **{k: yarn[k] for k in (
        "factor", "original_max_position_embeddings", "beta_fast", "beta_slow")}}
    c["compress_ratios"] = [rates[t] for t in c.pop("layer_types")] + [0]
    c["compress_rate_hca"] = c.pop("compress_rates")["heavily_compressed_attention"]
    c["num_hash_layers"] = c.pop("mlp_layer_types").count("hash_moe")
    c["expert_dtype"] = "fp4"
    c["quantization_config"] = {
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
        "scale_fmt": "ue8m0", "weight_block_size": [BLOCK, BLOCK]}
    return c


def main(seed=63):
    rng = torch.Generator().manual_seed(int(seed))
    folder = os.path.join(GOLDEN, "deepseekv4-fp8")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    with tempfile.TemporaryDirectory() as tmp:
        model = hf.DeepseekV4ForCausalLM(hf.DeepseekV4Config(**SETTINGS)).eval()
        randomize(model, rng)
        model.to(torch.bfloat16).save_pretrained(tmp)
        save_file(tensors_of(tmp), os.path.join(folder, "model.safetensors"), {"format": "pt"})
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(settings_of(tmp), f, indent=1)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)
    model = hf.DeepseekV4ForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()
    cases = [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 8)
             for n in (1, 23, 150)]
    with open(os.path.join(folder, "reference.json"), "w", encoding="utf-8") as f:
        json.dump({"model": "deepseekv4-fp8",
                   "reference": "Hugging Face Transformers " + hf.__version__, "cases": cases}, f)
        f.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
