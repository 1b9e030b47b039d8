#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random LoRA adapters for models of tests/golden/models, as Hugging Face PEFT saves them.
reference.json is what Transformers with PEFT makes of both, in float32 on the CPU.

    pip install torch transformers peft safetensors       (in a venv outside the repository)
    tests/golden/make_lora.py [NAME...]                     (from the top of the tree)

Writes tests/golden/lora/NAME."""

import json
import os
import shutil
import sys

import peft
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from make_hf_models import GOLDEN as MODELS, case

GOLDEN = "tests/golden/lora"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
# Folder: the model, and the settings of the adapter.
ADAPTERS = {
    # Every kind of module; ranks and factors that differ.
    "all": ("llama-biases", {"r": 4, "lora_alpha": 6, "target_modules": ATTENTION + MLP,
                             "rank_pattern": {"layers.1.mlp.up_proj": 9, "o_proj": 1},
                             "alpha_pattern": {"layers.1.mlp.up_proj": 5,
                                               r"layers\.\d\.self_attn\.k_proj": 11.5}}),
    # Of the same model, to be in one batch with it.
    "other": ("llama-biases", {"r": 6, "lora_alpha": 9, "target_modules": ["q_proj", "down_proj"]}),
    # Modules by a regular expression, and the factor of rsLoRA.
    "some": ("qwen3-bf16", {"r": 3, "lora_alpha": 4, "use_rslora": True,
                            "target_modules": r".*\.self_attn\.(q|v)_proj"}),
    # Of some layers: q, k and v in one module, gate and up in one.
    "fused": ("phi3", {"r": 4, "lora_alpha": 8, "layers_to_transform": [0, 2], "target_modules": [
        "qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}),
    # Rope rotates neighbours in the files.
    "pairs": ("ernie45", {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "k_proj"]}),
    # Norms behind the products.
    "post": ("gemma3", {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
    # q and its gate in one module, in a model with recurrent layers.
    "gated": ("qwen3next", {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj"]}),
}


def load(base):
    model = hf.AutoModelForCausalLM.from_pretrained(
        os.path.join(MODELS, base), dtype=torch.float32, attn_implementation="eager").eval()
    # As with weights in bfloat16, which scale embeddings by a number of that type.
    for name, b in model.named_buffers():
        if name.endswith("embed_scale"):
            b.copy_(b.to(torch.bfloat16))
    return model


def make(i, name):
    base, settings = ADAPTERS[name]
    folder = os.path.join(GOLDEN, name)
    shutil.rmtree(folder, ignore_errors=True)
    model = load(base)
    rng = torch.Generator().manual_seed(100 + i)
    prompts = [torch.randint(0, 500, (n,), generator=rng).tolist() for n in (3, 40)]
    with torch.no_grad():
        before = model(torch.tensor([prompts[1]])).logits
    config = peft.LoraConfig(task_type="CAUSAL_LM", **settings)
    peft.get_peft_model(model, config).save_pretrained(folder)
    path = os.path.join(folder, "adapter_model.safetensors")
    tensors = load_file(path)
    for key, t in tensors.items():  # B begins as zeros
        noise = torch.randn(t.shape, generator=rng)
        tensors[key] = (0.6 * noise / t.shape[1] ** 0.5).to(torch.bfloat16)
    save_file(tensors, path, {"format": "pt"})
    os.remove(os.path.join(folder, "README.md"))
    model = peft.PeftModel.from_pretrained(load(base), folder).eval().to(torch.float32)
    with torch.no_grad():
        delta = (model(torch.tensor([prompts[1]])).logits - before).abs().mean()
    with open(os.path.join(folder, "reference.json"), "w", encoding="utf-8") as f:
        json.dump({"model": base, "reference": "tests/golden/make_lora.py",
                   "cases": [case(model, p, 6) for p in prompts]}, f)
    size = sum(os.path.getsize(os.path.join(folder, x)) for x in os.listdir(folder))
    print("%s: %d KB, logits move by %.2f, peft %s, transformers %s" % (
        folder, size // 1024, delta, peft.__version__, hf.__version__))
    assert delta > 0.1


def main():
    for i, name in enumerate(ADAPTERS):
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(i, name)


main()
