#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints of the formats after int4 on the HIP backend, with the runtime of
tests/hip-on-cpu: NVFP4 and the blocks of GGUF beside their references, FP8 and MXFP4, in
random codes, beside the exact path of the CPU."""
import json
import os
import shutil
import struct
import tempfile

import gguf_file as g
from tap import FIBERS, SRC, done, haloctl, ok

HIP = ["--backend", "hip", "--hip-library", FIBERS]
GOLDEN = os.path.join(SRC, "tests/golden/models")
IDS = [260, 402, 34, 423, 97, 315, 21, 35, 242, 149, 52, 441]


def write_json(path, v):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(v, f)
    return path


def on_hip(model, reference, name):
    code, out, err = haloctl("verify", "--model", model, *HIP, "--json",
                             "--reference", reference)
    v = json.loads(out or b"{}")
    ok(code == 0 and v["backend"] == "hip" and v["tokens"] > 0 and v["max_delta"] <= 0.15
       and v["mean_delta"] <= 0.02, name, (out, err))


def given(model, reference, cases, tmp, name):
    """Against the model's reference: of each case so many tokens of the prompt, and so many
    steps, which the whole prompt must go before."""
    ref = g.read_json(*os.path.split(reference))
    short = []
    for case, (n_prompt, n_next) in zip(ref["cases"], cases):
        if n_prompt < len(case["prompt_ids"]):
            then = case["prompt_ids"][n_prompt]
            step = {"token": then, "top": [[then, case["prompt_logprobs"][n_prompt - 1]]]}
            case["continuation_ids"], case["steps"] = [then], [step]
        short.append({"prompt_ids": case["prompt_ids"][:n_prompt],
                      "prompt_logprobs": case["prompt_logprobs"][:n_prompt - 1],
                      "continuation_ids": case["continuation_ids"][:n_next],
                      "steps": case["steps"][:n_next]})
    on_hip(model, write_json(os.path.join(tmp, "short.json"), {"cases": short}), name)


def measured(model, tmp, name):
    """Against the exact CPU. Of each value alone: beside a recorded zero it is the
    difference."""
    def log_probability(n):
        step = {"token": IDS[n], "top": [[IDS[n], 0]]}
        case = {"prompt_ids": IDS[:n],
                "continuation_ids": IDS[n:n + 1], "steps": [step]}
        path = write_json(os.path.join(tmp, "one.json"), {"cases": [case]})
        code, out, err = haloctl("verify", "--model", model, "--backend", "cpu", "--exact",
                                 "--json", "--max-delta", "99", "--reference", path)
        return -json.loads(out)["max_delta"]

    values = [log_probability(n) for n in range(1, len(IDS))]
    ok(max(values) - min(values) > 0.1, name + ": not all the same", values)
    steps = [{"token": i, "top": [[i, v]]} for i, v in zip(IDS[8:], values[7:])]
    case = {"prompt_ids": IDS[:8], "prompt_logprobs": values[:7],
            "continuation_ids": IDS[8:], "steps": steps}
    path = os.path.join(tmp, "measured.json")
    on_hip(model, write_json(path, {"cases": [case]}), name + " as the exact CPU")
    case["steps"][3]["top"][0][1] += 0.3
    code, out, err = haloctl("verify", "--model", model, *HIP, "--reference",
                             write_json(path, {"cases": [case]}))
    ok(code == 1, name + ": another value is seen", out)


def rewritten(tmp, name, change, quantization):
    """A folder with the model's weights through change(name, dtype, shape, bytes)."""
    source = os.path.join(GOLDEN, name)
    folder = os.path.join(tmp, "model")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(source, file), folder)
    config = g.read_json(source, "config.json")
    write_json(os.path.join(folder, "config.json"),
               {**config, "quantization_config": quantization})
    out = {}
    for n, t in g.load(source).items():
        out.update(change(n, *t))
    g.write_safetensors(os.path.join(folder, "model.safetensors"), out)
    return folder


def to_fp8(name, dtype, shape, raw):
    """Codes of exponents -4 to -1 for all the linear layers, a scale a block of 128."""
    if not name.endswith("_proj.weight"):
        return {name: (dtype, shape, raw)}
    codes = bytes(low & 0x87 | 0x18 | low >> 3 & 0x08 for low in raw[0::2])
    blocks = [-(-n // 128) for n in shape]
    n = blocks[0] * blocks[1]
    scales = struct.pack("<%df" % n, *(0.2 + i / n / 5 for i in range(n)))
    return {name: ("F8_E4M3", shape, codes), name + "_scale_inv": ("F32", blocks, scales)}


def to_mxfp4(name, dtype, shape, raw):
    """Experts (E, K, N) in any codes, (E, N, K / 32, 16), and scales of 2^-6 and 2^-5."""
    if not name.endswith(("gate_up_proj", "down_proj")):
        return {name: (dtype, shape, raw)}
    e, k, n = shape
    return {name + "_blocks": ("U8", [e, n, k // 32, 16], raw[0::4]),
            name + "_scales": ("U8", [e, n, k // 32],
                               bytes(121 + i % 2 for i in range(e * n * k // 32)))}


def nvfp4_gguf(nvfp4, tmp):
    """The same checkpoint as llama.cpp's converter writes it, with the factors apart; without
    them the model is another one."""
    config = {**g.read_json(nvfp4, "config.json")}
    tensors = g.nvfp4_tensors(g.load(nvfp4))
    keys = g.model_keys(config)[1:] + g.tokenizer_keys(nvfp4, config["vocab_size"])
    keys.insert(0, ("general.architecture", g.STRING, "qwen3"))
    path, reference = os.path.join(tmp, "nvfp4.gguf"), os.path.join(nvfp4, "reference.json")
    g.write(path, keys, tensors)
    given(path, reference, [(1, 6), (7, 3)], tmp, "NVFP4 in GGUF")
    for how, limit in (("--exact", 2e-4), ("--threads=2", 0.05)):
        code, out, err = haloctl("verify", "--model", path, "--backend", "cpu", how, "--json",
                                 "--reference", reference)
        ok(code == 0 and json.loads(out)["max_delta"] <= limit, "NVFP4 in GGUF, " + how,
           (out, err))
    odd = "blk.0.attn_q.scale"
    for change, message in ((struct.pack("<f", 0), odd[:-6] + ".scale is 0"),
                            (bytes(8), "is not 1 numbers in f32")):
        g.write(path, keys, {**tensors, odd: ("F32", [len(change) // 4], change)})
        code, out, err = haloctl("verify", "--model", path, "--reference", reference)
        ok(code == 2 and "not" in err and "scale" in err, message, err)
    name = "blk.0.attn_q.weight"
    rows, cols = tensors[name][1]
    for kind, size in ("Q8_0", rows * cols // 32 * 34), ("F16", rows * cols * 2):
        g.write(path, keys, {**tensors, name: (kind, [rows, cols], bytes(size))})
        code, out, err = haloctl("verify", "--model", path, "--reference", reference)
        ok(code == 2 and "self_attn.q_proj.scale is" in err and kind.lower() in err,
           "a factor of another format", err)


with tempfile.TemporaryDirectory() as folder:
    nvfp4 = os.path.join(GOLDEN, "qwen3-nvfp4")
    given(nvfp4, os.path.join(nvfp4, "reference.json"), [(1, 6), (7, 3), (40, 1)], folder,
          "NVFP4")
    nvfp4_gguf(nvfp4, folder)
    blocks = os.path.join(SRC, "tests/golden/formats/llama")
    # Not further into the prompt: these random weights make of the rounding of halves, in
    # arithmetic that is exact but for it, differences of up to 0.28 there.
    given(blocks + ".gguf", blocks + ".json", [(1, 8), (10, 1)], folder,
          "a llama in blocks of every kind")
    fp8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
           "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}
    measured(rewritten(folder, "qwen3-bf16", to_fp8, fp8), folder, "FP8")
    mxfp4 = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
        "lm_head"]}
    measured(rewritten(folder, "gptoss", to_mxfp4, mxfp4), folder, "MXFP4")
done()
