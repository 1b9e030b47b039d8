#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints with the vision towers of Mistral 3, Gemma 3 and Gemma 4, and what
Hugging Face Transformers sees of images with them, in float32 on the CPU. Needs what
make_vision.py needs, and writes beside its folders:

  NAME/                a checkpoint as they are published
  NAME/pixels.f32      pixel_values of rgb.png (3, height, width), by the image processor on
                       Pillow
  NAME/rows.f32        what the tower makes of them: rows for the text model
  NAME/sight.json      prompts with images, as make_vision.py has them
  sizes-pixtral.tsv    longest edge, pixels of a token's side, width and height, then the
                       width and height that come out
  sizes-gemma4.tsv     tokens at most, pixels of a token's side, width and height, then the
                       width and height that come out

    make_vision_kinds.py [NAME...]

mmproj-NAME.gguf of mistral3, gemma3 and each gemma4 are made by llama.cpp's own tool:

    convert_hf_to_gguf.py --mmproj --outtype f32 tests/golden/vision/NAME"""

import json
import os
import random
import shutil
import sys

import numpy as np
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers.models.gemma3.image_processing_gemma3 import Gemma3ImageProcessor
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma4 import image_processing_gemma4 as gemma4_processing
from transformers.models.gemma4 import image_processing_pil_gemma4 as gemma4_on_pillow
from transformers.models.gemma4_unified import (
    image_processing_gemma4_unified as unified_processing)
from transformers.models.pixtral.image_processing_pil_pixtral import (
    PixtralImageProcessorPil)
from transformers.models.pixtral.image_processing_pixtral import (
    PixtralImageProcessor, get_resize_output_image_size)

from make_hf_models import BASE, GEMMA, GEMMA4_ROPE, LATE, MISTRAL, MISTRAL4, randomize
from make_vision import OUT, load, write_floats

IMG, IMG_BREAK, IMG_END = 505, 503, 504


def template(image):
    return (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
        "{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for part in m.content %}"
        "{% if part.type == 'image' or part.type == 'image_url' %}{{ '" + image + "' }}"
        "{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
        "{{ '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def turn(*parts):
    return "<|im_start|>user\n" + "".join(parts) + "<|im_end|>\n<|im_start|>assistant\n"


class Pixtral:
    special = {"[IMG_BREAK]": IMG_BREAK, "[IMG_END]": IMG_END, "[IMG]": IMG}
    see = "[IMG]"
    processor = {"size": {"longest_edge": 64}, "patch_size": {"height": 8, "width": 8}}
    published = {**processor, "patch_size": {"height": 4, "width": 4}, "resample": 3,
                 "image_mean": PixtralImageProcessor.image_mean,
                 "image_std": PixtralImageProcessor.image_std}
    tower = {"model_type": "pixtral", "hidden_size": 32, "intermediate_size": 48,
             "num_hidden_layers": 3, "num_attention_heads": 2, "head_dim": 16,
             "patch_size": 4, "image_size": 64, "hidden_act": "silu"}
    model_class = hf.Mistral3ForConditionalGeneration

    def __init__(self, text, **more):
        self.config = hf.Mistral3Config(
            text_config={**BASE, "num_hidden_layers": 2, **text}, vision_config=self.tower,
            tie_word_embeddings=False, image_token_index=IMG, spatial_merge_size=2, **more)

    def process(self, images):
        seen = PixtralImageProcessorPil(**self.processor)(images, return_tensors="pt")
        other = PixtralImageProcessor(**self.processor)(images, return_tensors="pt")
        step = 1 / 255 / min(PixtralImageProcessor.image_std)
        apart = (seen["pixel_values"] - other["pixel_values"]).abs().max() / step
        assert apart < 1.01, apart
        return {k: torch.as_tensor(np.array(seen[k])) for k in ("pixel_values", "image_sizes")}

    def shape(self, seen, i):
        h, w = (int(x) // 8 for x in seen["image_sizes"][i])
        return [h, w]

    def tokens(self, shape):
        h, w = shape
        return (([IMG] * w + [IMG_BREAK]) * h)[:-1] + [IMG_END]

    def before(self, text):
        return text

    def rows(self, model, seen):
        return torch.cat(list(model.model.get_image_features(**seen).pooler_output))

    def more(self, ids):
        return {}


class Gemma3:
    special = {"<start_of_image>": IMG_BREAK, "<end_of_image>": IMG_END,
               "<image_soft_token>": IMG}
    see = "<start_of_image>"
    processor = {"size": {"height": 32, "width": 32}, "do_pan_and_scan": False,
                 "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    published = {**processor, "resample": 2, "image_seq_length": 16}
    tower = {"model_type": "siglip_vision_model", "hidden_size": 32,
             "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2,
             "patch_size": 4, "image_size": 32, "vision_use_head": False}
    model_class = hf.Gemma3ForConditionalGeneration

    def __init__(self, text):
        # The window is shorter than an image.
        text = {**text, "num_hidden_layers": 3, "layer_types": text["layer_types"][:3],
                "sliding_window": 12}
        self.config = hf.Gemma3Config(
            text_config={**BASE, **text}, vision_config=self.tower, mm_tokens_per_image=16,
            boi_token_index=IMG_BREAK, eoi_token_index=IMG_END, image_token_index=IMG,
            tie_word_embeddings=text["tie_word_embeddings"])

    def process(self, images):
        seen = Gemma3ImageProcessorPil(**self.processor)(images, return_tensors="pt")
        other = Gemma3ImageProcessor(**self.processor)(images, return_tensors="pt")
        apart = (seen["pixel_values"] - other["pixel_values"]).abs().max() * 127.5
        assert apart < 1.01, apart
        return {"pixel_values": seen["pixel_values"]}

    def shape(self, seen, i):
        return [4, 4]

    def tokens(self, shape):
        return [IMG] * 16

    def before(self, text):
        return text.replace(self.see, "\n\n<start_of_image><image_soft_token>"
                                      "<end_of_image>\n\n")

    def rows(self, model, seen):
        return torch.cat(list(model.model.get_image_features(**seen).pooler_output))

    def more(self, ids):
        return {"token_type_ids": (torch.tensor([ids]) == IMG).int()}


class Gemma4:
    special = {"<|image>": IMG_BREAK, "<image|>": IMG_END, "<|image|>": IMG}
    see = "<|image|>"
    processor = {"max_soft_tokens": 16, "patch_size": 4, "pooling_kernel_size": 3}
    published = {**processor, "resample": 3, "do_normalize": False,
                 "image_mean": [0.0, 0.0, 0.0], "image_std": [1.0, 1.0, 1.0]}
    tower = {"model_type": "gemma4_vision", "hidden_size": 32, "intermediate_size": 48,
             "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2,
             "head_dim": 16, "patch_size": 4, "pooling_kernel_size": 3,
             "position_embedding_size": 48}
    model_class = hf.Gemma4ForConditionalGeneration
    config_class = hf.Gemma4Config

    def __init__(self, text, sound=None, **tower):
        # The window is shorter than an image.
        text = {**BASE, **GEMMA4_ROPE, "num_hidden_layers": 4, "sliding_window": 12,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "global_head_dim": 24, "hidden_size_per_layer_input": 0,
                "vocab_size_per_layer_input": 512, "final_logit_softcapping": 4.0,
                "tie_word_embeddings": True, **text}
        self.config = self.config_class(
            text_config=text, vision_config={**self.tower, **tower}, audio_config=sound,
            boi_token_id=IMG_BREAK, eoi_token_id=IMG_END, image_token_id=IMG, video_token_id=506, audio_token_id=507,
            tie_word_embeddings=True)
        for module in (gemma4_processing, gemma4_on_pillow):
            module._SUPPORTED_SOFT_TOKENS = (16,)  # published models have 70 and more

    def prepare(self, model, rng):
        """What is no parameter: ranges that cut, and a standard that is not the identity."""
        for name, b in model.named_buffers():
            if name.endswith(("put_min", "put_max")):
                size = 0.9 + 0.8 * torch.rand((), generator=rng)
                b.copy_(size if name.endswith("max") else -size)
            elif name.endswith("std_bias"):
                b.copy_(3 * torch.randn(b.shape, generator=rng))
            elif name.endswith("std_scale"):
                b.copy_(0.2 + torch.rand(b.shape, generator=rng))

    def process(self, images):
        seen = gemma4_on_pillow.Gemma4ImageProcessorPil(**self.processor)(
            images, return_tensors="pt")
        other = gemma4_processing.Gemma4ImageProcessor(**self.processor)(
            images, return_tensors="pt")
        apart = (seen["pixel_values"] - other["pixel_values"]).abs().max() * 255
        assert apart < 1.01, apart
        return {k: torch.as_tensor(np.array(seen[k]))
                for k in ("pixel_values", "image_position_ids")}

    def shape(self, seen, i):
        w, h = (int(x) + 1 for x in seen["image_position_ids"][i].max(0).values)
        return [h // 3, w // 3]

    def planes(self, seen):
        """As the model's own scaling leaves it, (3, height, width) of the first image."""
        h, w = (3 * x for x in self.shape(seen, 0))
        patches = seen["pixel_values"][0][:h * w].reshape(h, w, 4, 4, 3)
        return 2 * (patches.permute(4, 0, 2, 1, 3).reshape(3, 4 * h, 4 * w) - 0.5)

    def tokens(self, shape):
        h, w = shape
        return [IMG] * (h * w)

    def before(self, text):
        return text.replace(self.see, "<|image><|image|><image|>")

    def rows(self, model, seen):
        return torch.cat(list(model.model.get_image_features(**seen).pooler_output))

    def more(self, ids):
        return {"mm_token_type_ids": (torch.tensor([ids]) == IMG).int()}


class Gemma4Unified(Gemma4):
    """Tokens of pixels, without a tower."""
    tower = {"model_type": "gemma4_unified_vision", "mm_embed_dim": 40, "patch_size": 4,
             "pooling_kernel_size": 3, "mm_posemb_size": 20, "output_proj_dims": 40}
    model_class = hf.Gemma4UnifiedForConditionalGeneration
    config_class = hf.Gemma4UnifiedConfig

    def process(self, images):
        """The processor is on torchvision only; Pillow makes the size first."""
        unified_processing._SUPPORTED_SOFT_TOKENS = (16,)
        process = unified_processing.Gemma4UnifiedImageProcessor(**self.processor)
        sized = []
        for image in images:
            h, w = gemma4_on_pillow.get_aspect_ratio_preserving_size(
                image.height, image.width, 4, 9 * 16, 3)
            sized.append(image.resize((w, h), Image.Resampling.BICUBIC))
        seen = process(sized, do_resize=False, return_tensors="pt")
        other = process(images, return_tensors="pt")
        apart = (seen["pixel_values"] - other["pixel_values"]).abs().max() * 255
        assert apart < 1.01, apart
        return {k: torch.as_tensor(np.array(seen[k]))
                for k in ("pixel_values", "image_position_ids")}

    def shape(self, seen, i):
        w, h = (int(x) + 1 for x in seen["image_position_ids"][i].max(0).values)
        return [h, w]

    def planes(self, seen):
        h, w = self.shape(seen, 0)
        patches = seen["pixel_values"][0][:h * w].reshape(h, w, 12, 12, 3)
        return patches.permute(4, 0, 2, 1, 3).reshape(3, 12 * h, 12 * w)

    def masks(self, model, ids):
        """Those that generation takes; without them a forward pass has others."""
        return model.create_masks_for_generate(
            config=model.config, attention_mask=None, cache=None,
            inputs_embeds=torch.zeros(1, len(ids), 1),
            position_ids=torch.arange(len(ids))[None], **self.more(ids))


# As E2B: embeddings of each layer, shared keys and values, ranges of a matrix's numbers, and a
# tower for sound, which nobody reads; and tokens of an image see only what is before them.
GEMMA4_SMALL = {"hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2,
                "use_double_wide_mlp": True}
SOUND = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
         "subsampling_conv_channels": [4, 2], "output_proj_dims": 8}
MODELS = {
    "mistral3": lambda: Pixtral(MISTRAL),
    "ministral3": lambda: Pixtral(LATE, multimodal_projector_bias=True),
    "mistral4": lambda: Pixtral(MISTRAL4),
    "gemma3": lambda: Gemma3({**GEMMA, "tie_word_embeddings": False}),
    "gemma4": lambda: Gemma4({"use_bidirectional_attention": "vision"}, standardize=True),
    "gemma4clip": lambda: Gemma4(GEMMA4_SMALL, SOUND, use_clipped_linears=True),
    "gemma4unified": lambda: Gemma4Unified({}, {"audio_embed_dim": 8, "output_proj_dims": 8}),
}


def cases(see):
    return [
        (["rgb.png"], turn(see, "What is this?")),
        (["wide.png", "rgb.png"], turn("First ", see, " and then ", see,
                                       " of both: say it")),
        (["palette.png"], turn("Before it stands some text that is longer than a page. ",
                               see)),
    ]


def tokenizer_files(folder, kind):
    source = "tests/golden/models/qwen3-bf16"
    with open(os.path.join(source, "tokenizer.json")) as f:
        tokenizer = json.load(f)
    with open(os.path.join(source, "tokenizer_config.json")) as f:
        config = json.load(f)
    for text, i in kind.special.items():
        added = {"content": text, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True}
        tokenizer["added_tokens"].append({"id": i, **added})
        config["added_tokens_decoder"][str(i)] = added
    config["chat_template"] = template(kind.see)
    for name, what in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config),
                       ("preprocessor_config.json", kind.published)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(what, f, indent=1)
    return Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))


def name_as_published(folder):
    """Gemma's tower has one more level in its names."""
    path = os.path.join(folder, "model.safetensors")
    inner = "vision_tower.vision_model."
    save_file({name.replace("vision_tower.", inner): t
               for name, t in load_file(path).items()}, path, {"format": "pt"})


def logits(kind, model, ids, seen):
    more = kind.more(ids)
    if hasattr(kind, "masks"):
        more["attention_mask"] = kind.masks(model, ids)
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), use_cache=False, **seen, **more)
    return torch.log_softmax(out.logits[0].double(), -1)


def case(kind, model, tokenizer, names, text, n=4):
    seen = kind.process([load(name) for name in names])
    shapes = [kind.shape(seen, i) for i in range(len(names))]
    ids, i = [], 0
    for token in tokenizer.encode(kind.before(text), add_special_tokens=False).ids:
        ids += kind.tokens(shapes[i]) if token == IMG else [token]
        i += token == IMG
    assert i == len(names)
    n_prompt, steps = len(ids), []
    for _ in range(n):
        row = logits(kind, model, ids, seen)[-1]
        top = row.topk(5)
        assert int(top.indices[0]) < 500, "an answer of special tokens"
        steps.append({"token": int(top.indices[0]),
                      "top": [[int(t), round(float(p), 5)]
                              for p, t in zip(top.values, top.indices)]})
        ids.append(int(top.indices[0]))
    rows = logits(kind, model, ids, seen)
    print("   ", names, shapes, n_prompt, "tokens")
    return {"images": names, "text": text, "shapes": shapes, "ids": ids[:n_prompt],
            "steps": steps, "prompt_logprobs": [round(float(rows[i, ids[i + 1]]), 5)
                                                for i in range(n_prompt - 1)]}


def make(i, name):
    kind = MODELS[name]()
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    rng = torch.Generator().manual_seed(170 + i)
    model = kind.model_class(kind.config).eval()
    randomize(model, rng)
    with torch.no_grad():
        model.lm_head.weight[500:] *= 0.05  # answers are of plain tokens
        if hasattr(kind, "prepare"):
            kind.prepare(model, rng)
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        os.remove(os.path.join(folder, "generation_config.json"))
    tokenizer = tokenizer_files(folder, kind)
    model = kind.model_class.from_pretrained(folder, dtype=torch.float32,
                                             attn_implementation="eager").eval()
    # As with weights in bfloat16, which scale embeddings by a number of that type.
    for name_of, b in model.named_buffers():
        if name_of.endswith("embed_scale"):
            b.copy_(b.to(torch.bfloat16))
    seen = kind.process([load("rgb.png")])
    pixels = kind.planes(seen) if hasattr(kind, "planes") else seen["pixel_values"]
    write_floats(os.path.join(folder, "pixels.f32"), pixels)
    with torch.no_grad():
        write_floats(os.path.join(folder, "rows.f32"), kind.rows(model, seen))
    with open(os.path.join(folder, "sight.json"), "w") as f:
        json.dump({"model": name, "reference": "tests/golden/make_vision_kinds.py",
                   "cases": [case(kind, model, tokenizer, *c) for c in cases(kind.see)]}, f)
    if name == "gemma3":
        name_as_published(folder)
    size = sum(os.path.getsize(os.path.join(folder, x)) for x in os.listdir(folder))
    print("%s: %d KB, transformers %s" % (folder, size // 1024, hf.__version__))


def write_sizes():
    rng = random.Random(4)
    with open(os.path.join(OUT, "sizes-pixtral.tsv"), "w") as f:
        for _ in range(200):
            side, most = rng.choice((28, 16, 8)), rng.choice((1540, 1024, 64))
            w = rng.choice((rng.randint(1, 60), rng.randint(1, 9000), most, most + 1))
            h = max(1, min(9000, int(w * rng.choice((1, 0.5, 1.7, 0.02, 40)))))
            image = np.broadcast_to(np.uint8(0), (3, h, w))
            oh, ow = get_resize_output_image_size(image, most, side,
                                                  hf.image_utils.ChannelDimension.FIRST)
            if oh and ow:
                f.write("\t".join(map(str, (most, side, w, h, ow, oh))) + "\n")
    with open(os.path.join(OUT, "sizes-gemma4.tsv"), "w") as f:
        for _ in range(200):
            most, patch = rng.choice((70, 280, 1120)), rng.choice((16, 14, 4))
            w = rng.choice((rng.randint(1, 60), rng.randint(1, 9000), 48 * rng.randint(1, 50)))
            h = max(1, min(9000, int(w * rng.choice((1, 0.5, 1.7, 0.01, 90)))))
            if max(w, h) <= 200 * min(w, h):
                oh, ow = gemma4_on_pillow.get_aspect_ratio_preserving_size(h, w, patch,
                                                                           9 * most, 3)
                f.write("\t".join(map(str, (most, 3 * patch, w, h, ow, oh))) + "\n")


def main():
    torch.set_num_threads(2)
    write_sizes()
    for i, name in enumerate(MODELS):
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(i, name)


main()
