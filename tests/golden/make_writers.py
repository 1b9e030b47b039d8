#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints as the quantizers of others write them, and how far halod is from their numbers.

    pip install torch transformers safetensors llmcompressor amd-quark nvidia-modelopt gptqmodel
    pip download --no-deps --no-binary :all: autoawq, unpacked in a folder of PYTHONPATH: on a
    machine without a GPU pip does not build it              (in a venv outside the repository)
    GPTQMODEL_CPU_WORKERS=2 make_writers.py DIR HALOCTL HIP_LIBRARY   (from the top of this one)

Writes tests/golden/writers.tsv: for each folder the largest differences of log-probabilities from
Transformers in float32, by `haloctl verify` with --exact, on the CPU's fast path, and on fibers, or
"refused", which haloctl says in words.
Transformers reads what llm-compressor and Quark write. The numbers of the others are made here from
their tensors: ModelOpt reads none back, GPTQModel and AutoAWQ round products to 16 bits."""
import json
import os
import re
import shutil
import subprocess
import sys

import torch
import transformers as hf
from make_hf_models import BASE, GOLDEN, case, randomize
from safetensors.torch import load_file

SIZES = {**BASE, "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 256,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "tie_word_embeddings": False}
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
OUT = "tests/golden/writers.tsv"
KEPT = {"ModelOpt W4A16_AWQ": "qwen3-modelopt"} # in tests/golden/models, for the tests
READ_BACK = ("llm-compressor", "Quark") # by Transformers


def load(folder, dtype):
    return hf.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype,
                                                   attn_implementation="eager").eval()


def tokens(n):
    return torch.randint(0, 500, (2, n), generator=torch.Generator().manual_seed(2))


def make_base(folder):
    rng = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    model = hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES))
    randomize(model, rng)
    model.to(torch.bfloat16).save_pretrained(folder)


# --- writers: each takes the model and writes the folder ---------------------------------------


def llm_compressor(model, folder):
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    oneshot(model=model, recipe=QuantizationModifier(targets="Linear", scheme="W4A16",
                                                     ignore=["lm_head"]))
    model.save_pretrained(folder, save_compressed=True)


def quark(make_spec):
    def write(model, folder):
        from quark.torch import ModelQuantizer, export_safetensors
        from quark.torch.quantization.config import config as c
        q = ModelQuantizer(c.QConfig(
            global_quant_config=c.QLayerConfig(weight=make_spec(c).to_quantization_spec()),
            exclude=["lm_head"]))
        export_safetensors(q.freeze(q.quantize_model(model, [tokens(64)])), folder)
    return write


def modelopt(config):
    def write(model, folder):
        import modelopt.torch.quantization as mtq
        from modelopt.torch.export import export_hf_checkpoint
        mtq.quantize(model, getattr(mtq, config), lambda m: m(tokens(64)))
        export_hf_checkpoint(model, export_dir=folder)
    return write


def gptqmodel(bits, **settings):
    def write(model, folder):
        from gptqmodel import GPTQModel, QuantizeConfig
        base = os.path.join(os.path.dirname(folder), "base")
        q = GPTQModel.load(base, QuantizeConfig(bits=bits, group_size=32, **settings), device="cpu")
        q.quantize([{"input_ids": t.tolist(), "attention_mask": [1] * len(t)} for t in tokens(64)],
                   batch_size=1)
        q.save(folder)
    return write


class Ids:
    """In place of a tokenizer: texts are ids."""

    def encode(self, ids):
        return ids


def autoawq(model, folder):
    from awq import AutoAWQForCausalLM
    q = AutoAWQForCausalLM.from_pretrained(os.path.join(os.path.dirname(folder), "base"),
                                           device_map="cpu")
    q.quantize(tokenizer=Ids(), calib_data=[t.tolist() for t in tokens(64)], max_calib_samples=2,
               max_calib_seq_len=64, quant_config={"zero_point": True, "q_group_size": 32,
                                                   "w_bit": 4, "version": "gemm"})
    q.save_quantized(folder)


WRITERS = {
    "llm-compressor W4A16": llm_compressor,
    "Quark fp8 a tensor": quark(lambda c: c.FP8E4M3PerTensorSpec(
        is_dynamic=False, observer_method="min_max")),
    "Quark int4 in groups of 32": quark(lambda c: c.Int4PerGroupSpec(
        symmetric=False, ch_axis=-1, is_dynamic=False, scale_type="float", group_size=32)),
    "ModelOpt FP8": modelopt("FP8_DEFAULT_CFG"),
    "ModelOpt NVFP4": modelopt("NVFP4_DEFAULT_CFG"),
    "ModelOpt W4A16_AWQ": modelopt("INT4_AWQ_CFG"),
    "ModelOpt W4A8_AWQ": modelopt("W4A8_AWQ_BETA_CFG"),
    "GPTQModel int4": gptqmodel(4, desc_act=False),
    "GPTQModel int4, desc_act": gptqmodel(4, desc_act=True),
    "GPTQModel int4, sym false": gptqmodel(4, desc_act=False, sym=False),
    "GPTQModel int8": gptqmodel(8, desc_act=False),
    "AutoAWQ GEMM": autoawq,
}


# --- the reference ----------------------------------------------------------------------------


AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def unpacked(words, bits, axis, order=None):
    """The numbers in int32 words, in rows (axis 0) or columns (1) side by side."""
    parts = [words >> bits * i & (1 << bits) - 1 for i in range(32 // bits)]
    parts = [parts[order.index(i)] for i in range(8)] if order else parts
    return torch.stack(parts, axis + 1).flatten(axis, axis + 1).float()


def unpacked_weight(stored, name, quant):
    """(N, K) of GPTQ's or AWQ's tensors of (K, N)."""
    codes, zeros = stored[name + ".qweight"], stored[name + ".qzeros"]
    scales = stored[name + ".scales"].float()
    if quant["quant_method"] == "awq":
        codes, zeros = (unpacked(x, 4, 1, AWQ_ORDER) for x in (codes, zeros))
        group = torch.arange(codes.shape[0]) // quant["group_size"]
    else:
        codes, zeros = unpacked(codes, quant["bits"], 0), unpacked(zeros, quant["bits"], 1) + 1
        group = stored[name + ".g_idx"].long()
    return ((codes - zeros[group]) * scales[group]).T.contiguous()


def pairs_weight(stored, name):
    """(N, K) of ModelOpt's int4: two outputs a byte, a factor of each input."""
    q, scale = stored[name + ".weight"], stored[name + ".weight_scale"].float()
    w = torch.stack([q & 15, q >> 4], 1).flatten(0, 1).float()
    w = torch.where(w > 7, w - 16, w) * scale.repeat_interleave(q.shape[1] // scale.shape[1], 1)
    return w * stored.get(name + ".pre_quant_scale", torch.ones(1)).float()


def decoded(folder, base):
    """A float32 model of a folder by ModelOpt, GPTQModel or AutoAWQ."""
    stored, weights = load_file(os.path.join(folder, "model.safetensors")), {}
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        quant = json.load(f).get("quantization_config")
    for name, w in stored.items():
        if name.endswith(".qweight"):
            name = name[:-len(".qweight")]
            weights[name + ".weight"] = unpacked_weight(stored, name, quant)
        if not name.endswith("weight"):
            continue
        if w.dtype == torch.float8_e4m3fn:
            w = w.float() * stored[name + "_scale"].float()
        elif w.dtype == torch.uint8 and "AWQ" in quant["quant_algo"]:
            w = pairs_weight(stored, name[:-len(".weight")])
        elif w.dtype == torch.uint8:
            w = torch.stack([FP4[(w & 15).long()], FP4[(w >> 4).long()]], -1).flatten(-2)
            scale = stored[name + "_scale"].float() * stored[name + "_scale_2"].float()
            w = w * scale.repeat_interleave(16, 1)
        weights[name] = w.float()
    model = load(base, torch.float32)
    model.load_state_dict(weights)
    return model


def write_reference(folder, model):
    rng = torch.Generator().manual_seed(5)
    cases = [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 8)
             for n in (1, 23, 90)]
    with open(os.path.join(folder, "reference.json"), "w", encoding="utf-8") as f:
        json.dump({"model": os.path.basename(folder), "cases": cases,
                   "reference": "tests/golden/make_writers.py"}, f)


def verify(haloctl, folder, *options):
    p = subprocess.run([haloctl, "verify", "-m", folder, *options], stdout=subprocess.PIPE, text=True)
    found = re.search(r"max \|delta logp\| +([\d.]+)", p.stdout)
    return found[1] if found else "refused"


def main(into, haloctl, hip):
    torch.set_num_threads(1)
    base = os.path.join(into, "base")
    make_base(base)
    rows = ["writer\texact\tfast\tfibers\n"]
    for name, write in WRITERS.items():
        folder = os.path.join(into, name.replace(" ", "-").replace(",", ""))
        write(load(base, torch.bfloat16), folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)
        write_reference(folder, load(folder, torch.float32) if name.startswith(READ_BACK)
                        else decoded(folder, base))
        if name in KEPT:
            shutil.copytree(folder, os.path.join(GOLDEN, KEPT[name]), dirs_exist_ok=True)
        rows.append("%s\t%s\t%s\t%s\n" % (
            name, verify(haloctl, folder, "--exact"), verify(haloctl, folder, "--backend", "cpu"),
            verify(haloctl, folder, "--backend", "hip", "--hip-library", hip)))
        print(rows[-1], end="", flush=True)
    with open(OUT, "w", encoding="utf-8") as f:
        f.writelines(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
