#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints with a vision tower, and what Hugging Face Transformers sees of
images with them, in float32 on the CPU.

    pip install torch torchvision transformers safetensors pillow   (in a venv)
    make_vision.py [NAME...]

Writes tests/golden/vision:
  sizes.tsv            smart_resize: factor, least and most pixels, width and height, then
                       the width and height that come out
  NAME/                a checkpoint as they are published
  NAME/pixels.f32      pixel_values of rgb.png, by the image processor on Pillow
  NAME/rows.f32        what the tower makes of them: rows for the text model, then those
                       that are added behind its first layers
  NAME/sight.json      prompts with images: ids, log-probabilities of the prompt's tokens
                       and the likeliest of a greedy answer

mmproj-qwen3vl.gguf and mmproj-qwen4exp.gguf are not made here, but by llama.cpp's own tool:

    convert_hf_to_gguf.py --mmproj --outtype f32 tests/golden/vision/qwen3vl

Says how far the image processor on torchvision is from the one on Pillow."""

import json
import os
import random
import shutil
import sys

import numpy as np
import torch
import transformers as hf
from PIL import Image
from tokenizers import Tokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil)
from transformers.models.qwen2_vl.image_processing_qwen2_vl import (
    Qwen2VLImageProcessor, smart_resize)

from make_hf_models import BASE, DELTA, MROPE, QWEN_VL, QWEN_MOE, QWEN4, randomize, transpose_experts

OUT = "tests/golden/vision"
IMAGES = "tests/golden/images"
SPECIAL = {"<|vision_start|>": 503, "<|vision_end|>": 504, "<|image_pad|>": 505,
           "<|video_pad|>": 506}
PAD = SPECIAL["<|image_pad|>"]
PROCESSOR = {"size": {"shortest_edge": 1024, "longest_edge": 4096}, "patch_size": 4,
             "temporal_patch_size": 2, "merge_size": 2,
             "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
TOWER = {"depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2,
         "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2,
         "out_hidden_size": 32, "num_position_embeddings": 36}
DEEP = {"deepstack_visual_indexes": [0, 1]}
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}"
    "{% if part.type == 'image' or 'image' in part or 'image_url' in part %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% elif part.type == 'video' or 'video' in part %}"
    "{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{% elif 'text' in part %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MODELS = {
    "qwen3vl": (hf.Qwen3VLConfig, hf.Qwen3VLForConditionalGeneration, QWEN_VL, DEEP),
    "qwen3vlmoe": (hf.Qwen3VLMoeConfig, hf.Qwen3VLMoeForConditionalGeneration,
                   {**QWEN_VL, **QWEN_MOE}, DEEP),
    "qwen35": (hf.Qwen3_5Config, hf.Qwen3_5ForConditionalGeneration, {**DELTA, **MROPE}, {}),
    "qwen4exp": (hf.Qwen4ExpConfig, hf.Qwen4ExpForConditionalGeneration,
                 {**QWEN4, **MROPE, "hc_count": 2, "hc_lowrank": 16, "num_hidden_layers": 2,
                  "layer_types": QWEN4["layer_types"][:2], "ple_layer_ids": [1]}, {}),
}
SEE = "<|vision_start|><|image_pad|><|vision_end|>"


def turn(*parts):
    return "<|im_start|>user\n" + "".join(parts) + "<|im_end|>\n<|im_start|>assistant\n"


CASES = [
    (["rgb.png"], turn(SEE, "What is this?")),
    (["wide.png", "rgb.png"], turn("First ", SEE, " and then ", SEE, " of both: say it")),
    (["palette.png"], turn("Before it stands some text that is longer than a page. ", SEE)),
]


def tokenizer_files(folder):
    source = "tests/golden/models/qwen3-bf16"
    with open(os.path.join(source, "tokenizer.json")) as f:
        tokenizer = json.load(f)
    with open(os.path.join(source, "tokenizer_config.json")) as f:
        config = json.load(f)
    for text, i in SPECIAL.items():
        added = {"content": text, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True}
        tokenizer["added_tokens"].append({"id": i, **added})
        config["added_tokens_decoder"][str(i)] = added
    config["chat_template"] = TEMPLATE
    for name, what in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config),
                       ("preprocessor_config.json", PROCESSOR)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(what, f, indent=1)
    return Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))


def load(name):
    img = Image.open(os.path.join(IMAGES, name))
    return img.convert("RGB")


def see(names):
    images = [load(n) for n in names]
    seen = Qwen2VLImageProcessorPil(**PROCESSOR)(images=images, return_tensors="pt")
    other = Qwen2VLImageProcessor(**PROCESSOR)(images=images, return_tensors="pt")
    steps = (seen["pixel_values"] - other["pixel_values"]).abs().max() * 127.5
    assert steps < 1.01, steps
    return seen["pixel_values"], seen["image_grid_thw"], float(steps)


def expand(tokenizer, text, grids):
    ids, i = [], 0
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        n = 1
        if token == PAD:
            n = int(grids[i].prod()) // 4
            i += 1
        ids += [token] * n
    assert i == len(grids)
    return ids


def logits(model, ids, pixels, grids):
    ids = torch.tensor([ids])
    with torch.no_grad():
        out = model(input_ids=ids, pixel_values=pixels, image_grid_thw=grids,
                    mm_token_type_ids=(ids == PAD).int(), use_cache=False)
    return torch.log_softmax(out.logits[0].double(), -1)


def case(model, tokenizer, names, text, n=4):
    pixels, grids, steps_apart = see(names)
    ids = expand(tokenizer, text, grids)
    n_prompt, steps = len(ids), []
    for _ in range(n):
        row = logits(model, ids, pixels, grids)[-1]
        top = row.topk(5)
        assert int(top.indices[0]) < 500, "an answer of special tokens"
        steps.append({"token": int(top.indices[0]),
                      "top": [[int(t), round(float(p), 5)]
                              for p, t in zip(top.values, top.indices)]})
        ids.append(int(top.indices[0]))
    rows = logits(model, ids, pixels, grids)
    print("   ", names, n_prompt, "tokens; torchvision differs by %.2f steps" % steps_apart)
    return {"images": names, "text": text, "grids": grids.tolist(),
            "ids": ids[:n_prompt], "steps": steps,
            "prompt_logprobs": [round(float(rows[i, ids[i + 1]]), 5)
                                for i in range(n_prompt - 1)]}


def write_floats(path, t):
    t.detach().float().numpy().astype(np.float32).tofile(path)


def make(i, name):
    config_class, model_class, text, deep = MODELS[name]
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    rng = torch.Generator().manual_seed(70 + i)
    model = model_class(config_class(
        text_config={**BASE, **text}, vision_config={**TOWER, **deep},
        tie_word_embeddings=False, image_token_id=PAD, video_token_id=506,
        vision_start_token_id=503, vision_end_token_id=504)).eval()
    randomize(model, rng)
    with torch.no_grad():  # answers are of plain tokens
        model.lm_head.weight[500:] *= 0.05
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        os.remove(os.path.join(folder, "generation_config.json"))
    if name == "qwen3vlmoe":
        transpose_experts(folder)
    tokenizer = tokenizer_files(folder)
    model = model_class.from_pretrained(folder, dtype=torch.float32,
                                        attn_implementation="eager",
                                        experts_implementation="eager").eval()
    pixels, grids, _ = see(["rgb.png"])
    write_floats(os.path.join(folder, "pixels.f32"), pixels)
    with torch.no_grad():
        seen = model.model.visual(pixels, grid_thw=grids)
    rows = [seen.pooler_output] + list(getattr(seen, "deepstack_features", None) or [])
    write_floats(os.path.join(folder, "rows.f32"), torch.stack(rows))
    cases = [case(model, tokenizer, *c) for c in CASES]
    with open(os.path.join(folder, "sight.json"), "w") as f:
        json.dump({"model": name, "reference": "tests/golden/make_vision.py",
                   "cases": cases}, f)
    size = sum(os.path.getsize(os.path.join(folder, x)) for x in os.listdir(folder))
    print("%s: %d KB, transformers %s" % (folder, size // 1024, hf.__version__))


def write_sizes():
    rng = random.Random(3)
    with open(os.path.join(OUT, "sizes.tsv"), "w") as f:
        for _ in range(300):
            factor = rng.choice((28, 32, 8))
            least = rng.choice((56 * 56, 65536, 1024))
            most = rng.choice((least, 1 << 20, 1 << 24, 28 * 28 * 1280))
            w = rng.choice((rng.randint(1, 60), rng.randint(1, 9000),
                            factor * rng.randint(1, 50) + factor // 2))
            h = max(1, min(9000, int(w * rng.choice((1, 0.5, 1.7, 0.01, 90)))))
            if max(w, h) > 200 * min(w, h):
                continue
            oh, ow = smart_resize(h, w, factor, least, max(least, most))
            f.write("\t".join(map(str, (factor, least, max(least, most), w, h, ow, oh))) +
                    "\n")


def main():
    torch.set_num_threads(2)
    os.makedirs(OUT, exist_ok=True)
    write_sizes()
    for i, name in enumerate(MODELS):
        if name in sys.argv[1:] or len(sys.argv) == 1:
            make(i, name)


if __name__ == "__main__":
    main()
