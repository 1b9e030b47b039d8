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

from make_hf_models import GOLDEN as MODELS, case, limit_ling

GOLDEN = "tests/golden/lora"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
STACKS = ["experts.gate_up_proj", "experts.down_proj"]
# Folder: the model, and the settings of the adapter. Its place here is its seed: add at the end.
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
    # All projections of latent attention. Heads have parts of B of kv_b_proj.
    "latent": ("deepseekv3-yarn", {"r": 5, "lora_alpha": 8, "rank_pattern": {"kv_b_proj": 7},
                                   "target_modules": LATENT}),
    # Of an indexer, which chooses what latent attention sees.
    "indexed": ("deepseekv32", {"r": 3, "lora_alpha": 5,
                                "target_modules": ["wq_b", "wk", "weights_proj", "kv_b_proj"]}),
    # Of delta nets, whose projections are fused, or four.
    "fused-net": ("qwen3next", {"r": 4, "lora_alpha": 8,
                                "target_modules": ["in_proj_qkvz", "in_proj_ba", "out_proj"]}),
    "net": ("qwen35", {"r": 4, "lora_alpha": 8, "target_modules": [
        "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"]}),
    # Of a state space, where the last rows of in_proj make the steps.
    "space": ("granitehybrid", {"r": 4, "lora_alpha": 8,
                                "target_modules": ["in_proj", "out_proj"]}),
    # Of short convolutions.
    "conv": ("lfm2", {"r": 4, "lora_alpha": 8, "target_modules": ["in_proj", "out_proj"]}),
    # Of Kimi delta attention and of latent attention with one projection of q.
    "kda": ("kimilinear", {"r": 3, "lora_alpha": 6, "target_modules": ATTENTION[:3] + [
        "b_proj", "f_a_proj", "f_b_proj", "g_a_proj", "g_b_proj", "o_proj", "kv_b_proj"]}),
    # The same with one projection a gate, which latent attention has too; and of a shared expert
    # whose limit is not that of the routed ones.
    "kda-full": ("ling3", {"r": 3, "lora_alpha": 6, "target_modules":
                           r".*\.self_attn\.([qkvbfg]_proj|forget_gate\.f_proj|[qk]v?_[ab]_proj.*|"
                           r"o_proj)|.*\.1\.mlp\.shared_experts\.(gate|up|down)_proj"}),
    # All routed experts of a layer in two parameters.
    "experts": ("mixtral", {"r": 3, "lora_alpha": 5, "target_modules": ["q_proj"],
                            "target_parameters": STACKS, "rank_pattern": {"experts.down_proj": 4},
                            "alpha_pattern": {r"layers.1.mlp.experts.down_proj": 9}}),
    # The same model's experts in modules of their own, as before Transformers 5.
    "experts-each": ("mixtral", {"r": 3, "lora_alpha": 4, "target_modules": ["k_proj"]}),
    # Rows of gate and up in turns, with biases; of one parameter.
    "experts-turns": ("gptoss", {"r": 2, "lora_alpha": 4, "target_modules": [],
                                 "target_parameters": STACKS[:1]}),
    # Beside a shared expert and recurrent layers.
    "experts-shared": ("qwen35moe", {"r": 4, "lora_alpha": 6, "use_rslora": True,
                                     "target_modules": ["o_proj"],
                                     "target_parameters": STACKS}),
}
# Adapters whose experts are modules of their own: those modules.
EACH = {"experts-each": ["w1", "w2", "w3"]}


def load(base):
    model = hf.AutoModelForCausalLM.from_pretrained(
        os.path.join(MODELS, base), dtype=torch.float32, attn_implementation="eager").eval()
    # As with weights in bfloat16, which scale embeddings by a number of that type.
    for name, b in model.named_buffers():
        if name.endswith("embed_scale"):
            b.copy_(b.to(torch.bfloat16))
    if base == "ling3":
        limit_ling(model)
    return model


def put_each(folder, parts, tensors):
    """Adds A and B of each part of each routed expert, which PEFT fuses when it loads them."""
    path = os.path.join(folder, "adapter_config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    with open(os.path.join(MODELS, "mixtral", "config.json"), encoding="utf-8") as f:
        model = json.load(f)
    config["target_modules"] += parts
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
    d, width = model["hidden_size"], model["intermediate_size"]
    for layer in range(model["num_hidden_layers"]):
        for e in range(model["num_local_experts"]):
            for part in parts:
                n, k = (d, width) if part == "w2" else (width, d)
                to = "base_model.model.model.layers.%d.block_sparse_moe.experts.%d.%s.lora_" % (
                    layer, e, part)
                tensors[to + "A.weight"] = torch.zeros(config["r"], k)
                tensors[to + "B.weight"] = torch.zeros(n, config["r"])


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
    if name in EACH:
        put_each(folder, EACH[name], tensors)
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
