#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints that the compressed-tensors library packs, and what Hugging Face
Transformers makes of the library's own decompressed numbers in float32 on the CPU.

    pip install torch transformers safetensors compressed-tensors     (in a venv)
    make_ct_models.py [--audit DIR]

Writes tests/golden/models/qwen3moe-ct-mixed, whose layers have formats of seven kinds. With
--audit also a model of each scheme to DIR; `haloctl verify --exact` must pass in all. Run from
the top of the tree."""

import json
import os
import shutil
import sys

import torch
import transformers as hf
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import (QuantizationArgs, QuantizationConfig,
                                             QuantizationScheme)
from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from safetensors.torch import load_file, save_file

from make_hf_models import BASE, GOLDEN, case, randomize

SIZES = {**BASE, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64,
         "tie_word_embeddings": True, "num_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 64, "mlp_only_layers": [0]}


def scheme(preset, targets, **changes):
    """A preset of the library, in groups of 32 or blocks of 32 by 32 where it has some."""
    s = preset_name_to_scheme(preset, targets)
    if s.weights.group_size == 128:
        changes.setdefault("group_size", 32)
    if s.weights.block_structure:
        changes.setdefault("block_structure", [32, 32])
    about = {**s.weights.model_dump(), **changes}
    return QuantizationScheme(targets=targets, weights=QuantizationArgs(**about),
                              input_activations=s.input_activations)


def limits(w, args):
    """The least and the largest number that share each scale."""
    n, k = w.shape
    if args.strategy == "tensor":
        w = w.reshape(1, 1, -1)
    elif args.strategy == "channel":
        w = w.reshape(n, 1, k)
    elif args.strategy == "block":
        rows, cols = args.block_structure
        w = w.reshape(n // rows, rows, k // cols, cols).permute(0, 2, 1, 3)
        w = w.reshape(n // rows, k // cols, -1)
    else:
        w = w.reshape(n, k // args.group_size, args.group_size)
    least, most = w.amin(-1), w.amax(-1)
    return (least.reshape(1), most.reshape(1)) if args.strategy == "tensor" else (least, most)


def pack(w, s):
    """The tensors of a layer as the library stores them, and its numbers."""
    kind = infer_module_format(torch.nn.Linear, s)
    least, most = limits(w, s.weights)
    state = {"weight": w.float()}
    if s.weights.strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(w.min(), w.max())
    scale, zero = calculate_qparams(least, most, s.weights,
                                    global_scale=state.get("weight_global_scale"))
    state.update(weight_scale=scale.to(torch.bfloat16).to(scale.dtype), weight_zero_point=zero)
    if s.weights.actorder == "group":
        order = torch.randperm(w.shape[1]) // s.weights.group_size
        state["weight_g_idx"] = order.int()
    compressor = BaseCompressor.get_value_from_registry(kind.value)
    packed = compressor.compress(state, s)
    back = compressor.decompress({k: t.clone() for k, t in packed.items()}, s)["weight"].float()
    if s.weights.strategy == "tensor_group":  # which the library rounds to bfloat16
        exact = unpack_fp4_from_uint8(packed["weight_packed"], *w.shape, dtype=torch.float32)
        exact *= (packed["weight_scale"].float()
                  / packed["weight_global_scale"]).repeat_interleave(16, 1)
        assert (exact - back).abs().max() < 0.01 * exact.abs().max()
        back = exact
    if packed["weight_scale"].dtype == torch.float32:
        packed["weight_scale"] = packed["weight_scale"].to(torch.bfloat16)
    return kind.value, packed, back


def make(folder, schemes, seed, **sizes):
    """schemes: (a function of a layer's name, its scheme), the first that is true."""
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    shutil.rmtree(folder, ignore_errors=True)
    config = {**SIZES, **sizes}
    kind = (hf.Qwen3MoeForCausalLM, hf.Qwen3MoeConfig) if config.get("num_experts") else \
        (hf.Qwen3ForCausalLM, hf.Qwen3Config)
    model = kind[0](kind[1](**config)).eval()
    randomize(model, rng)
    model.to(torch.bfloat16).save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    path = os.path.join(folder, "model.safetensors")
    stored, decoded, formats = {}, {}, set()
    for key, t in load_file(path).items():
        name = key.removesuffix(".weight")
        own = [s for takes, s in schemes if takes(name)] if "_proj" in name else []
        if not own:
            stored[key], decoded[key] = t, t.float()
            continue
        format_, tensors, decoded[key] = pack(t.float(), own[0])
        own[0].format = format_
        formats.add(format_)
        for k, v in tensors.items():
            stored[name + "." + k] = v.contiguous()
    save_file(decoded, path, {"format": "pt"})
    model = kind[0].from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                    experts_implementation="eager").eval()
    save_file(stored, path, {"format": "pt"})
    write_beside(folder, model, schemes, formats, rng)


def write_beside(folder, model, schemes, formats, rng):
    """config.json with the library's settings, the tokenizer, and what the model writes."""
    about = QuantizationConfig(
        config_groups={"group_%d" % i: s for i, (_, s) in enumerate(schemes)},
        format=formats.pop() if len(formats) == 1 else "mixed-precision",
        quantization_status="compressed", ignore=["lm_head", r"re:.*\.mlp\.gate$"])
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    config["quantization_config"] = json.loads(about.model_dump_json())
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)
    cases = [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 12)
             for n in (1, 23, 150)]
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump({"model": os.path.basename(folder),
                   "reference": "tests/golden/make_ct_models.py", "cases": cases}, f)


def by_end(end):
    return lambda name: name.endswith(end)


def mixed():
    """Formats by names, patterns and class: the class comes last whatever the order."""
    return [
        (by_end("q_proj"), scheme("MXFP6A16", [r"re:.*q_proj$"])),
        (by_end("k_proj"), scheme("W8A8", [r"re:.*k_proj$"], symmetric=False)),
        (by_end("v_proj"), scheme("W3A16", [r"re:.*v_proj$"], symmetric=False)),
        (by_end("o_proj"), scheme("W4A8", [r"re:.*o_proj$"])),
        (by_end("0.mlp.gate_proj"), scheme("W6A16", ["model.layers.0.mlp.gate_proj"])),
        (by_end("0.mlp.up_proj"), scheme("FP8_BLOCK", ["model.layers.0.mlp.up_proj"])),
        (lambda name: True, scheme("MXFP8", ["Linear"])),
    ]


AUDIT = {
    "w4a16": ("W4A16", {}), "w4a16-asym": ("W4A16_ASYM", {}),
    "w4a16-channel": ("W4A16", {"strategy": "channel", "group_size": None}),
    "w8a16": ("W8A16", {}), "w8a16-asym": ("W8A16", {"symmetric": False}),
    "w2a16": ("W2A16", {}), "w3a16": ("W3A16", {}), "w5a16": ("W5A16", {}),
    "w6a16-asym": ("W6A16", {"symmetric": False}), "w7a8": ("W7A8", {}),
    "w4a4": ("W4A4", {}), "w4a8": ("W4A8", {}), "w4afp8": ("W4AFP8", {}),
    "w2a8": ("W2A8", {}), "w8a8": ("W8A8", {}), "w8a8-tensor": ("W8A8", {"strategy": "tensor"}),
    "w8a8-asym": ("W8A8", {"symmetric": False}), "fp8": ("FP8", {}),
    "fp8-dynamic": ("FP8_DYNAMIC", {}), "fp8-block": ("FP8_BLOCK", {}),
    "fp8-group": ("FP8_DYNAMIC", {"strategy": "group", "group_size": 32}),
    "nvfp4a16": ("NVFP4A16", {}), "nvfp4": ("NVFP4", {}), "mxfp4a16": ("MXFP4A16", {}),
    "mxfp4": ("MXFP4", {}), "mxfp4xfp8": ("MXFP4XFP8", {}), "mxfp6a16": ("MXFP6A16", {}),
    "mxfp6a8": ("MXFP6A8", {}), "mxfp8a16": ("MXFP8A16", {}), "mxfp8": ("MXFP8", {}),
}


def main():
    torch.set_num_threads(1)
    make(os.path.join(GOLDEN, "qwen3moe-ct-mixed"), mixed(), 90)
    into = sys.argv[2] if sys.argv[1:2] == ["--audit"] else None
    for i, (name, (preset, changes)) in enumerate(AUDIT.items() if into else ()):
        for experts in (0, 4):
            make(os.path.join(into, name + ("-moe" if experts else "")),
                 [(lambda name: True, scheme(preset, ["Linear"], **changes))], 100 + i,
                 num_experts=experts, num_hidden_layers=1, mlp_only_layers=[])


if __name__ == "__main__":
    main()
