#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters of rank 16 for a model that `haloctl synth` has made, for `haloctl kernels predict
--lora`. Numbers are zero, in bfloat16, and take no room.

    adapters.py MODEL OUT PART...        a PART is attention, recurrent or experts

Writes OUT, a folder of PEFT."""

import json
import os
import sys

from towers import write_weights

RANK = 16


def matrices(c, layer, part):
    """Modules of a layer: names, outputs, inputs, and matrices in one."""
    d, kinds = c["hidden_size"], c.get("layer_types")
    is_net = kinds and kinds[layer] == "linear_attention"
    if part == "attention" and not is_net:
        q, kv = (c["head_dim"] * c["num_%s_heads" % x] for x in ("attention", "key_value"))
        gated = 2 if kinds else 1
        return [("self_attn.q_proj", gated * q, d, 1), ("self_attn.k_proj", kv, d, 1),
                ("self_attn.v_proj", kv, d, 1), ("self_attn.o_proj", d, q, 1)]
    if part == "recurrent" and is_net:
        k, v = (c["linear_num_%s_heads" % x] * c["linear_%s_head_dim" % x]
                for x in ("key", "value"))
        n = c["linear_num_value_heads"]
        return [("linear_attn." + name, n, k, 1) for name, n, k in (
            ("in_proj_qkv", 2 * k + v, d), ("in_proj_z", v, d), ("in_proj_b", n, d),
            ("in_proj_a", n, d), ("out_proj", d, v))]
    if part == "experts":
        f, n = c["moe_intermediate_size"], c["num_experts"]
        return [("mlp.experts.base_layer", 2 * f, d, n), ("mlp.experts", d, f, n)]
    return []


def main():
    model, out, parts = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    text, body = config.get("text_config", config), "model."
    if text is not config:
        body = "model.language_model."
    tensors = []
    for layer in range(text["num_hidden_layers"]):
        for part in parts:
            for name, n, k, each in matrices(text, layer, part):
                at = "base_model.model.%slayers.%d.%s.lora_" % (body, layer, name)
                tensors += [(at + "A.weight", [each * RANK, k]),
                            (at + "B.weight", [n, each * RANK])]
    os.makedirs(out, exist_ok=True)
    n_bytes = write_weights(os.path.join(out, "adapter_model.safetensors"), tensors)
    with open(os.path.join(out, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump({"peft_type": "LORA", "peft_version": "0.21.2", "r": RANK, "lora_alpha": RANK,
                   "target_modules": ["q_proj"]}, f, indent=1)
    print("%s: %.1f MB" % (out, n_bytes / 1e6))


main()
