#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints of Qwen3-Omni (the thinker alone) and Qwen3-ASR, and what Hugging Face
Transformers sees and hears with them, in float32 on the CPU.

    pip install torch torchvision transformers safetensors pillow   (in a venv)
    make_omni.py

Writes tests/golden/vision/qwen3omni, a checkpoint as they are published, and in it
  pixels.f32, rows.f32, sight.json   as make_vision.py does
  heard.f32   the audio tower's rows of clips of FRAMES frames, one behind the other
  hear.json   prompts with sounds, and with sounds and images
  wide.f32    of a tower with the widths of Qwen3-Omni, one layer and a short mlp: every 16th
              number of a clip's rows. Its weights are not kept: number i of tensor t is noise()

And tests/golden/vision/qwen3asr, a checkpoint as they are published, and qwen3asr-hf, the same
one as Transformers saves it, with heard.f32 and hear.json.

A clip of f frames is not of a file: number i of its spectrogram (128, f) is mel(i), so that a
test makes the same."""

import json
import os
import shutil

import numpy as np
import torch
import transformers as hf
from safetensors.torch import save_file
from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as omni

import make_vision as v
from make_hf_models import BASE, QWEN_MOE, QWEN_VL, randomize

FOLDER = os.path.join(v.OUT, "qwen3omni")
ASR = os.path.join(v.OUT, "qwen3asr")
SOUND = {"<|video_pad|>": 506, "<|audio_start|>": 507, "<|audio_end|>": 508,
         "<|audio_pad|>": 509}
HEAR = "<|audio_start|><|audio_pad|><|audio_end|>"
FRAMES = [1, 9, 57, 99, 100, 101, 130, 460, 1010]
EARS = {"num_mel_bins": 128, "encoder_layers": 2, "encoder_attention_heads": 2,
        "encoder_ffn_dim": 48, "d_model": 32, "n_window": 50, "n_window_infer": 200,
        "output_dim": 32, "downsample_hidden_size": 8, "max_source_positions": 1500}
EXTRACTOR = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128,
             "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "chunk_length": 300,
             "n_samples": 4800000, "nb_max_frames": 30000, "padding_side": "right",
             "padding_value": 0.0, "dither": 0.0, "return_attention_mask": True,
             "image_processor_type": "Qwen2VLImageProcessor"}
TEMPLATE = v.TEMPLATE.replace(
    "{% elif 'text' in part %}",
    "{% elif part.type == 'audio' or 'audio' in part or 'audio_url' in part %}"
    "{{ '" + HEAR + "' }}{% elif 'text' in part %}")
# Transformers fills a clip shorter than a chunk with zeros only beside a longer one, so all sounds
# of a prompt have a chunk.
CASES = [  # images, frames of sounds, text
    ([], [130], v.turn(HEAR, "What is said?")),
    (["rgb.png"], [157, 230], v.turn("First ", HEAR, " and then ", v.SEE, " and ", HEAR,
                                    " of all: say it")),
    (["wide.png"], [460], v.turn("Some text stands before the image: ", v.SEE, "\n", HEAR)),
]


def mel(n_frames):
    i = np.arange(128 * n_frames, dtype=np.uint32)
    x = (i * np.uint32(2654435761)) >> np.uint32(16)
    return torch.from_numpy((x.astype(np.float32) / 32768 - 1).reshape(128, n_frames))


def published_names(state):
    """The names that published checkpoints have."""
    out = {}
    for name, t in state.items():
        name = name.replace("model.language_model.", "model.")
        for tower in ("visual", "audio_tower"):
            name = name.replace("model.%s." % tower, tower + ".")
        if ".mlp.experts." not in name:
            out["thinker." + name] = t.contiguous()
            continue
        base, what = name.split(".mlp.experts.")
        for i, w in enumerate(t):
            parts = {"down_proj": [w]} if what == "down_proj" else dict(
                zip(("gate_proj", "up_proj"), ([x] for x in w.chunk(2))))
            for part, (x,) in parts.items():
                out["thinker.%s.mlp.experts.%d.%s.weight" % (base, i, part)] = x.contiguous()
    return out


def write_model(folder, config, state):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    path = os.path.join(folder, "model.safetensors")
    save_file(state, path, {"format": "pt"})
    os.chmod(path, 0o644)
    return v.tokenizer_files(folder)


def save(model):
    config = {"architectures": ["Qwen3OmniMoeForConditionalGeneration"],
              "model_type": "qwen3_omni_moe", "enable_audio_output": False,
              "dtype": "bfloat16", "thinker_config": model.config.to_dict()}
    for key in ("transformers_version", "architectures"):
        config["thinker_config"].pop(key, None)
    return write_model(FOLDER, config, published_names(model.state_dict()))


def expand(tokenizer, text, grids, frames):
    ids, image, sound = [], 0, 0
    for token in tokenizer.encode(text, add_special_tokens=False).ids:
        n = 1
        if token == v.PAD:
            n = int(grids[image].prod()) // 4
            image += 1
        elif token == SOUND["<|audio_pad|>"]:
            n = int(omni._get_feat_extract_output_lengths(torch.tensor(frames[sound])))
            sound += 1
        ids += [token] * n
    return ids


def logits(model, ids, seen, frames):
    extra = {}
    if seen:
        extra.update(pixel_values=seen[0], image_grid_thw=seen[1])
    if frames:
        most = max(frames)
        mask = torch.tensor([[1] * n + [0] * (most - n) for n in frames])
        features = torch.stack([torch.nn.functional.pad(mel(n), (0, most - n))
                                for n in frames])
        extra.update(input_features=features, feature_attention_mask=mask)
    ids = torch.tensor([ids])
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **extra)
    return torch.log_softmax(out.logits[0].double(), -1)


def case(model, tokenizer, names, frames, text, n=2):
    seen = v.see(names)[:2] if names else None
    ids = expand(tokenizer, text, seen[1] if seen else [], frames)
    n_prompt, steps = len(ids), []
    for _ in range(n):
        row = logits(model, ids, seen, frames)[-1]
        top = row.topk(5)
        steps.append({"token": int(top.indices[0]),
                      "top": [[int(t), round(float(p), 5)]
                              for p, t in zip(top.values, top.indices)]})
        ids.append(int(top.indices[0]))
    rows = logits(model, ids, seen, frames)
    print("   ", names, frames, n_prompt, "tokens")
    return {"images": names, "frames": frames, "text": text, "ids": ids[:n_prompt],
            "steps": steps,
            "prompt_logprobs": [round(float(rows[i, ids[i + 1]]), 5)
                                for i in range(n_prompt - 1)]}


def write_json(name, cases, folder=FOLDER):
    with open(os.path.join(folder, name), "w") as f:
        json.dump({"model": os.path.basename(folder),
                   "reference": "tests/golden/make_omni.py", "cases": cases}, f)


def chunks(n):
    """A clip's spectrogram with zeros behind, in whole chunks, and which of it is the clip."""
    most = (n + 99) // 100 * 100
    return (torch.nn.functional.pad(mel(n), (0, most - n)),
            torch.tensor([1] * n + [0] * (most - n)))


def asr_logits(model, ids, frames):
    most = max((n + 99) // 100 * 100 for n in frames)
    seen = [chunks(n) for n in frames]
    ids = torch.tensor([ids])
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False,
                    input_features=torch.stack(
                        [torch.nn.functional.pad(f, (0, most - f.shape[1])) for f, _ in seen]),
                    input_features_mask=torch.stack(
                        [torch.nn.functional.pad(m, (0, most - len(m))) for _, m in seen]))
    return torch.log_softmax(out.logits[0].double(), -1)


def published_asr(name):
    """The names that Qwen's own checkpoints have."""
    for of, by in (("model.audio_tower.", "thinker.audio_tower."),
                   ("model.multi_modal_projector.linear_", "thinker.audio_tower.proj"),
                   ("model.language_model.", "thinker.model."), ("lm_head.", "thinker.lm_head.")):
        if name.startswith(of):
            return by + name[len(of):]
    raise KeyError(name)


def make_asr():
    text = {**BASE, "model_type": "qwen3", "num_hidden_layers": 2, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    ears = {k: w for k, w in EARS.items() if k != "max_source_positions"}
    model = hf.Qwen3ASRForConditionalGeneration(hf.Qwen3ASRConfig(
        text_config=text, audio_config=ears, audio_token_id=509, timestamp_token_id=1,
        pad_token_id=501, eos_token_id=500)).eval()
    randomize(model, torch.Generator().manual_seed(91))
    model = model.to(torch.bfloat16)
    config, state = model.config.to_dict(), dict(model.state_dict())
    state.pop("lm_head.weight")
    config.update(architectures=["Qwen3ASRForConditionalGeneration"], dtype="bfloat16")
    write_model(ASR + "-hf", config, state)
    inner = {k: config[k] for k in ("audio_config", "text_config", "audio_token_id")}
    inner["text_config"] = {**inner["text_config"], "rope_theta": 1e6, "rope_scaling": {
        "interleaved": True, "mrope_interleaved": True, "mrope_section": [4, 2, 2],
        "rope_type": "default", "type": "default"}}
    inner["text_config"].pop("rope_parameters")
    tokenizer = write_model(
        ASR, {"architectures": config["architectures"], "model_type": "qwen3_asr",
              "thinker_config": {**inner, "model_type": "qwen3_asr_thinker"}},
        {published_asr(name): t for name, t in state.items()})
    model = hf.Qwen3ASRForConditionalGeneration.from_pretrained(
        ASR + "-hf", dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        heard = [model.model.get_audio_features(f[None], m[None]).pooler_output
                 for f, m in map(chunks, FRAMES)]
    cases = []
    for frames, words in (([130], v.turn(HEAR)), ([57, 460], v.turn(HEAR, " and ", HEAR))):
        ids = expand(tokenizer, words, [], frames)
        rows = asr_logits(model, ids, frames)
        top = rows[-1].topk(5)
        cases.append({"images": [], "frames": frames, "text": words, "ids": ids, "steps": [{
            "token": int(top.indices[0]),
            "top": [[int(t), round(float(p), 5)] for p, t in zip(top.values, top.indices)]}],
            "prompt_logprobs": [round(float(rows[i, ids[i + 1]]), 5)
                                for i in range(len(ids) - 1)]})
    for folder in (ASR, ASR + "-hf"):
        v.write_floats(os.path.join(folder, "heard.f32"), torch.cat(heard))
        write_json("hear.json", cases, folder)
    print("asr: tokens %s" % [len(h) for h in heard])


WIDE = {**EARS, "encoder_layers": 1, "encoder_attention_heads": 20, "encoder_ffn_dim": 640,
        "d_model": 1280, "n_window_infer": 800, "output_dim": 256,
        "downsample_hidden_size": 480}
WIDE_FRAMES, WIDE_EVERY = 130, 16


def noise(t, n):
    """n numbers from -1 to 1, in steps of 1/128."""
    x = np.arange(n, dtype=np.uint32) + np.uint32(t * 100000007 % 2**32)
    x *= np.uint32(2654435761)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    return ((x >> np.uint32(24)).astype(np.float32) - 128) / 128


def make_wide():
    tower = omni.Qwen3OmniMoeAudioEncoder._from_config(
        hf.Qwen3OmniMoeThinkerConfig(audio_config=WIDE).audio_config,
        attn_implementation="eager").eval()
    with torch.no_grad():
        for t, (name, p) in enumerate(sorted(tower.named_parameters())):
            x = torch.from_numpy(noise(t, p.numel())).reshape(p.shape)
            if p.dim() > 1:  # near the root of the inputs' number, as a power of two
                x = x * 2.0 ** -round(np.log2(p[0].numel()) / 2 - 0.5)
            p.copy_(1 + x / 4 if name.endswith("norm.weight") or name == "ln_post.weight" else x)
        rows = tower(mel(WIDE_FRAMES), feature_lens=torch.tensor([WIDE_FRAMES])).pooler_output
    v.write_floats(os.path.join(FOLDER, "wide.f32"), rows[:, ::WIDE_EVERY])
    print("wide: %d rows, largest %.2f, like %.2f" % (len(rows), rows.abs().max(), rows.std()))


def main():
    torch.set_num_threads(2)
    v.SPECIAL.update(SOUND)
    v.TEMPLATE = TEMPLATE
    v.PROCESSOR.update(EXTRACTOR)
    make_asr()
    text = {**BASE, **QWEN_VL, **QWEN_MOE, "num_hidden_layers": 3}
    config = hf.Qwen3OmniMoeThinkerConfig(
        text_config=text, vision_config={**v.TOWER, **v.DEEP}, audio_config=EARS,
        image_token_id=v.PAD, video_token_id=506, vision_start_token_id=503,
        vision_end_token_id=504, audio_token_id=509, audio_start_token_id=507,
        audio_end_token_id=508, position_id_per_seconds=13)
    model = hf.Qwen3OmniMoeThinkerForConditionalGeneration(config).eval()
    randomize(model, torch.Generator().manual_seed(90))
    with torch.no_grad():  # answers are of plain tokens
        model.lm_head.weight[500:] *= 0.05
    model = model.to(torch.bfloat16)
    tokenizer = save(model)
    model = hf.Qwen3OmniMoeForConditionalGeneration.from_pretrained(
        FOLDER, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").thinker.eval()
    pixels, grids, _ = v.see(["rgb.png"])
    v.write_floats(os.path.join(FOLDER, "pixels.f32"), pixels)
    with torch.no_grad():
        seen = model.model.visual(pixels, grid_thw=grids)
        heard = [model.model.audio_tower(mel(n), feature_lens=torch.tensor([n])).pooler_output
                 for n in FRAMES]
    v.write_floats(os.path.join(FOLDER, "rows.f32"),
                   torch.stack([seen.pooler_output] + list(seen.deepstack_features)))
    v.write_floats(os.path.join(FOLDER, "heard.f32"), torch.cat(heard))
    print("frames %s: tokens %s" % (FRAMES, [len(h) for h in heard]))
    make_wide()
    write_json("sight.json", [case(model, tokenizer, names, [], text)
                              for names, text in v.CASES])
    write_json("hear.json", [case(model, tokenizer, *c) for c in CASES])
    size = sum(os.path.getsize(os.path.join(FOLDER, x)) for x in os.listdir(FOLDER))
    print("%s: %d KB, transformers %s" % (FOLDER, size // 1024, hf.__version__))


if __name__ == "__main__":
    main()
