#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V4 as llama.cpp's own converter writes it, against Hugging Face Transformers.

    convert_deepseek4.py LLAMA_CPP HALOCTL    (from the top of this repository)

The converter takes checkpoints in their published form only: routed experts in FP4 with scales
in e8m0, and rope_scaling. So this makes one with the blocks of 4 and 128 that llama.cpp takes,
converts it, has Transformers compute with the values of its experts, and writes its line of
tests/golden/converted.tsv. Needs what make_converted_gguf.py needs."""
import json
import os
import shutil
import sys
import tempfile

import make_converted_gguf as gguf_of
import make_hf_models as tiny
import torch
from make_hf_models import case, hf
from safetensors.torch import load_file, save_file

NAME = "deepseekv4"
VARIANT = {**tiny.COMPRESSED, "moe_intermediate_size": 32, "index_head_dim": 64,
           "compress_rates": {"compressed_sparse_attention": 4,
                              "heavily_compressed_attention": 128}}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def fp4(w):
    """Two numbers a byte, an exponent of 32 numbers, and what both stand for."""
    blocks = w.float().view(w.shape[0], -1, 32)
    exponent = torch.floor(torch.log2(blocks.abs().amax(2))) - 2
    scale = torch.exp2(exponent)[..., None]
    index = ((blocks / scale)[..., None] - E2M1).abs().argmin(-1)
    values = (E2M1[index] * scale).view(w.shape)
    index = index.view(w.shape).to(torch.uint8)
    packed = (index[:, 0::2] | index[:, 1::2] << 4).view(torch.int8)
    return packed, (exponent + 127).to(torch.uint8).view(torch.float8_e8m0fnu), values


def publish(source, folder):
    """Writes the published form; returns the values of the experts by their names."""
    tensors, values = {}, {}
    for name, w in load_file(os.path.join(source, "model.safetensors")).items():
        short = name.replace("model.embed_tokens", "embed").replace("model.", "", 1)
        short = short.replace("attn.norm", "attn.kv_norm").replace("hc_head.hc_", "hc_head_")
        if ".ffn.experts." in name:
            tensors[short], scale, values[short] = fp4(w)
            tensors[short.replace(".weight", ".scale")] = scale
        else:
            tensors[short] = w
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    rates = {"sliding_attention": 0, **c["compress_rates"]}
    yarn = c.pop("rope_parameters")["compress"]
    c["rope_scaling"] = {"type": "yarn", **{k: yarn[k] for k in (
        "factor", "original_max_position_embeddings", "beta_fast", "beta_slow")}}
    c["compress_ratios"] = [rates[t] for t in c["layer_types"]]
    c["num_hash_layers"] = c["mlp_layer_types"].count("hash_moe")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(c, f)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(source, name), folder)
    return values


def reference(source, values):
    model = hf.DeepseekV4ForCausalLM.from_pretrained(
        source, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()
    for name, p in model.named_parameters():
        head, found, part = name.removeprefix("model.").partition(".mlp.experts.")
        for e in range(len(p) if found else 0):
            of = [values["%s.ffn.experts.%d.%s.weight" % (head, e, w)]
                  for w in (("w1", "w3") if part == "gate_up_proj" else ("w2",))]
            p.data[e] = torch.cat(of)
    rng = torch.Generator().manual_seed(3)
    return {"model": "deepseekv4", "reference": "tests/golden/convert_deepseek4.py",
            "cases": [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 8)
                      for n in (1, 23, 150)]}


def main(llama, haloctl):
    converter, rows = gguf_of.load_converter(llama), gguf_of.old_rows()
    tiny.MODELS[NAME] = (hf.DeepseekV4Config, hf.DeepseekV4ForCausalLM, VARIANT, True)
    with tempfile.TemporaryDirectory() as tmp:
        source, folder = os.path.join(tmp, NAME), os.path.join(tmp, "v4")
        out = folder + ".gguf"
        tiny.make(list(tiny.MODELS).index(NAME), NAME, tmp)
        os.mkdir(folder)
        right = reference(source, publish(source, folder))
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outtype", "f32", "--outfile", out]
        converter.main()
        own = gguf_of.verify(haloctl, out, right, tmp)
        print("largest difference: %.0e" % own, flush=True)
        llamas, far = gguf_of.of_llama(out, right)
        rows[NAME] = "deepseek_v4\t%s\t%.0e\t%.0e\t%.0e" % (
            NAME, far, own, gguf_of.verify(haloctl, out, llamas, tmp))
    gguf_of.write_rows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
