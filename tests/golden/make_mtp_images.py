#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MTP layers and an EAGLE-3 head draft behind images.

    pip install torch transformers safetensors       (in a venv outside the repository)
    make_mtp_images.py          (after make_mtp_models.py and make_eagle3.py)

Writes mtp-images.json into folders of theirs. It is as mtp.json, and has images: at which token
each begins, its rows and columns of tokens, and the numbers that stand in place of its tokens'
embeddings. What drafts reads them there too. Positions are those of Qwen3.5 on three axes; of
SmolLM3, which the head is for, those of text."""

import json
import os
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import make_eagle3
from make_hf_models import GOLDEN
from make_mtp_models import LENGTHS, MODELS, QWEN, One, Streams, draft

PAD = 505
SHAPES = ((3, 2, 3), (24, 3, 4))  # first token, rows, columns


def with_layer(folder, class_):
    """The model, its MTP layer, and the tensors around that layer. The layer is read as the last
    one of a deeper model."""
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    n = config["num_hidden_layers"]
    config["num_hidden_layers"] += 1
    config["layer_types"].append(config["layer_types"][-1])
    deep = {k.replace("mtp.layers.0.", "model.layers.%d." % n): t for k, t in tensors.items()}
    around = {k: deep.pop(k) for k in list(deep) if k.startswith("mtp.")}
    with tempfile.TemporaryDirectory() as to:
        save_file(deep, os.path.join(to, "model.safetensors"), {"format": "pt"})
        with open(os.path.join(to, "config.json"), "w") as f:
            json.dump(config, f)
        model = class_.from_pretrained(to, dtype=torch.float32, attn_implementation="eager",
                                       experts_implementation="eager").eval()
    layer = model.model.layers[n]
    model.model.layers = model.model.layers[:n]
    model.config.num_hidden_layers = n
    return model, layer, around


def surroundings(model, tensors):
    if "mtp.fc.weight" in tensors:
        return One({k: tensors[v + ".weight"] for k, v in QWEN.items()}, True)
    around = Streams(model, torch.Generator())
    part = lambda name: tensors["mtp.%s.weight" % name]
    around.fc, around.norms = ([part(k) for k in Streams.PARTS[i:i + 2]] for i in (0, 2))
    mixer = "mtp.hyper_connection_mixer."
    around.mixer.load_state_dict({k[len(mixer):]: t.float() for k, t in tensors.items()
                                  if k.startswith(mixer)})
    return around


def images(rng, d):
    """Of the length of a row of 1 a number."""
    some = lambda n: torch.nn.functional.normalize(torch.randn(n, d, generator=rng)) * d ** 0.5
    return [{"at": at, "n_rows": h, "n_cols": w,
             "rows": [[round(float(x), 4) for x in row] for row in some(h * w)]}
            for at, h, w in SHAPES]


def places(n):
    """(3, 1, n): time, height and width of each token."""
    out, next_ = [], 0
    while len(out) < n:
        shape = [(h, w) for at, h, w in SHAPES if at == len(out)]
        if shape:
            h, w = shape[0]
            out += [(next_, next_ + i // w, next_ + i % w) for i in range(h * w)]
            next_ += max(h, w)
        else:
            out.append((next_,) * 3)
            next_ += 1
    return torch.tensor(out[:n]).T[:, None]


def show(model, seen, has_axes):
    """From now on the model sees the images."""
    def put_rows(module, args, out):
        out = out.clone()
        for m in seen:
            n = max(0, min(len(m["rows"]), out.shape[1] - m["at"]))
            out[0, m["at"]:m["at"] + n] = torch.tensor(m["rows"])[:n]
        return out

    def put_places(module, args, kwargs):
        return args, {**kwargs, "position_ids": places(args[0].shape[1])}

    model.get_input_embeddings().register_forward_hook(put_rows)
    if has_axes:
        model.model.register_forward_pre_hook(put_places, with_kwargs=True)


def write(folder, rng, seen, drafts):
    text = torch.randint(0, 500, (50,), generator=rng).tolist()
    for m in seen:
        text[m["at"]:m["at"] + len(m["rows"])] = [PAD] * len(m["rows"])
    with torch.no_grad():
        found = [{"n": k, "draft": drafts(text[:k + 1])} for k in LENGTHS]
    with open(os.path.join(folder, "mtp-images.json"), "w") as f:
        json.dump({"reference": "tests/golden/make_mtp_images.py", "text": text, "images": seen,
                   "behind": found}, f)
    print(folder, found, "transformers", hf.__version__)


def make(seed, name):
    rng = torch.Generator().manual_seed(seed)
    folder = os.path.join(GOLDEN, name)
    model, layer, tensors = with_layer(folder, MODELS[name][1])
    around = surroundings(model, tensors)
    seen = images(rng, model.config.hidden_size)
    show(model, seen, True)
    write(folder, rng, seen, lambda ids: draft(model, layer, around, ids, places))


def make_head(seed, target, taps):
    rng = torch.Generator().manual_seed(seed)
    folder = os.path.join(make_eagle3.HERE, "drafters", target + "-eagle3")
    model = hf.AutoModelForCausalLM.from_pretrained(
        os.path.join(make_eagle3.HERE, "models", target), dtype=torch.float32,
        attn_implementation="eager").eval()
    w = {k: t if k == "d2t" else t.double()
         for k, t in load_file(os.path.join(folder, "model.safetensors")).items()}
    seen = images(rng, model.config.hidden_size)
    show(model, seen, False)
    write(folder, rng, seen, lambda ids: make_eagle3.draft(model, w, taps, ids))


def main():
    torch.set_num_threads(2)
    for i, name in enumerate(("qwen35-mtp-again", "qwen35moe-mtp", "qwen4exp-mtp")):
        make(91 + i, name)
    make_head(94, "smollm3", (2, 2, 1))


if __name__ == "__main__":
    main()
