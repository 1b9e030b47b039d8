#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tiny random checkpoint of Voxtral, and what Hugging Face Transformers hears with it, in
float32 on the CPU.

    pip install torch torchvision transformers safetensors pillow mistral-common   (in a venv)
    make_tekken.py, then make_voxtral.py

Writes tests/golden/vision/voxtral, a checkpoint as they are published, but for the original files
of Mistral AI beside it, and in it
  heard.f32    the audio tower's rows of clips of FRAMES frames, one behind the other; a clip is
               mel(n) of make_omni.py
  hear.json    prompts with such clips
  spoken.json  prompts with tones of tests/http/sounds.py, whose ids are mistral-common's
  wide.f32     of a tower with Voxtral's widths, one layer and a short window: every 16th number of
               a clip's rows. Weights are those of make_omni.py's noise()"""

import json
import os
import shutil
import struct
import sys

import numpy as np
import torch
import transformers as hf
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from safetensors.torch import save_file

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../http"))
import make_omni as o
import make_tekken as k
import make_vision as v
import sounds
from make_hf_models import randomize

FOLDER = os.path.join(v.OUT, "voxtral")
PLACES = 60  # of a window: 1.2 s
WINDOW = 2 * PLACES
FRAMES = [WINDOW, 2 * WINDOW, 4 * WINDOW]
EARS = {"activation_dropout": 0.0, "activation_function": "gelu", "attention_dropout": 0.0,
        "dropout": 0.0, "head_dim": 16, "hidden_size": 32, "initializer_range": 0.02,
        "intermediate_size": 128, "layerdrop": 0.0, "max_source_positions": PLACES,
        "model_type": "voxtral_encoder", "num_attention_heads": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_mel_bins": 128, "scale_embedding": False,
        "vocab_size": 51866}
TEXT = {"attention_bias": False, "attention_dropout": 0.0, "head_dim": 16, "hidden_act": "silu",
        "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48,
        "max_position_embeddings": 4096, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None,
        "rope_theta": 100000000.0, "sliding_window": None, "use_cache": True,
        "vocab_size": k.VOCAB}
CONFIG = {"architectures": ["VoxtralForConditionalGeneration"], "audio_config": EARS,
          "audio_token_id": 24, "hidden_size": 32, "model_type": "voxtral",
          "projector_hidden_act": "gelu", "text_config": TEXT, "torch_dtype": "bfloat16",
          "transformers_version": "4.54.0.dev0", "vocab_size": k.VOCAB}
EXTRACTOR = {"chunk_length": 30, "dither": 0.0,
             "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128,
             "hop_length": 160, "n_fft": 400, "n_samples": 480000, "nb_max_frames": 3000,
             "padding_side": "right", "padding_value": 0.0,
             "processor_class": "VoxtralProcessor", "return_attention_mask": False,
             "sampling_rate": 16000}
GENERATION = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 11}


def published_name(name):
    for of, by in (("model.language_model.", "language_model.model."),
                   ("lm_head.", "language_model.lm_head."), ("model.", "")):
        if name.startswith(of):
            return by + name[len(of):]
    raise KeyError(name)


def write(name, value):
    with open(os.path.join(FOLDER, name), "w") as f:
        json.dump(value, f, indent=1)


def save(model):
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    path = os.path.join(FOLDER, "model.safetensors")
    save_file({published_name(n): t.contiguous() for n, t in model.state_dict().items()}, path,
              {"format": "pt"})
    os.chmod(path, 0o644)
    write("config.json", CONFIG)
    write("preprocessor_config.json", EXTRACTOR)
    write("generation_config.json", GENERATION)
    with open(os.path.join(k.FOLDER, "tekken.json")) as f:
        tekken = json.load(f)
    tekken["config"]["version"] = "v7"
    tekken["audio"] = k.SOUND
    with open(os.path.join(FOLDER, "tekken.json"), "w") as f:
        json.dump(tekken, f)


def windows(mel):
    """As VoxtralProcessor has them."""
    return mel.reshape(128, -1, WINDOW).transpose(0, 1)


def features(seconds):
    wav = sounds.tone(seconds)[44:]
    samples = np.array(struct.unpack("<%dh" % (len(wav) // 2), wav), dtype="f4") / 32768
    whisper = hf.WhisperFeatureExtractor(**EXTRACTOR)
    return whisper(samples, sampling_rate=16000, padding=True, truncation=False,
                   pad_to_multiple_of=WINDOW * 160, return_tensors="pt")["input_features"][0]


def rows(model, ids, mels):
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), use_cache=False,
                    input_features=torch.cat([windows(m) for m in mels]))
    return torch.log_softmax(out.logits[0].double(), -1)


def steps_of(model, ids, mels, n):
    ids, steps = list(ids), []
    for _ in range(n):
        row = rows(model, ids, mels)[-1]
        top = row.topk(5)
        steps.append({"token": int(top.indices[0]),
                      "top": [[int(t), round(float(p), 5)]
                              for p, t in zip(top.values, top.indices)]})
        ids.append(int(top.indices[0]))
    return steps


def clips(model):
    cases = []
    for frames in ([WINDOW], [3 * WINDOW, WINDOW]):
        ids = [1, 3]
        for n in frames:
            ids += [25] + [24] * (n // 8) + [100 + n % 7, 200, 300]
        ids += [4, 70, 80]
        mels = [o.mel(n) for n in frames]
        all_rows = rows(model, ids, mels)
        cases.append({"images": [], "frames": frames, "text": "", "ids": ids,
                      "steps": steps_of(model, ids, mels, 1),
                      "prompt_logprobs": [round(float(all_rows[i, ids[i + 1]]), 5)
                                          for i in range(len(ids) - 1)]})
    return cases


def spoken(model):
    t = MistralTokenizer.from_file(os.path.join(FOLDER, "tekken.json"))
    cases = []
    for messages in k.SOUNDS:
        seconds = [p["seconds"] for m in messages if m["role"] == "user" for p in m["content"]
                   if "seconds" in p]
        request = ChatCompletionRequest.from_openai(k.with_files(messages))
        ids = t.encode_chat_completion(request).tokens
        cases.append({"messages": messages, "ids": ids,
                      "steps": steps_of(model, ids, [features(s) for s in seconds], 3)})
    for seconds, language in (0.3, "en"), (2.5, None):
        case = k.transcript(t, seconds, language)
        cases.append({**case, "steps": steps_of(model, case["ids"], [features(seconds)], 3)})
    return cases


WIDE = {**EARS, "hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20,
        "head_dim": 64, "num_hidden_layers": 1, "max_source_positions": 32}
WIDE_OUT, WIDE_FRAMES = 256, 64


def make_wide():
    config = hf.VoxtralConfig(audio_config=WIDE, audio_token_id=24, text_config={
        **TEXT, "hidden_size": WIDE_OUT, "num_hidden_layers": 1})
    model = hf.VoxtralModel._from_config(config, attn_implementation="eager").eval()
    parts = {n: p for n, p in model.named_parameters() if not n.startswith("language_model.")}
    with torch.no_grad():
        for t, (name, p) in enumerate(sorted(parts.items())):
            x = torch.from_numpy(o.noise(t, p.numel())).reshape(p.shape)
            if p.dim() > 1:  # near the root of the inputs' number, as a power of two
                x = x * 2.0 ** -round(np.log2(p[0].numel()) / 2 - 0.5)
            p.copy_(1 + x / 4 if name.endswith("norm.weight") else x)
        out = model.get_audio_features(o.mel(WIDE_FRAMES)[None]).pooler_output
    v.write_floats(os.path.join(FOLDER, "wide.f32"), out[:, ::o.WIDE_EVERY])
    print("wide: %d rows, largest %.2f, like %.2f" % (len(out), out.abs().max(), out.std()))


def main():
    torch.set_num_threads(2)
    model = hf.VoxtralForConditionalGeneration(hf.VoxtralConfig(
        audio_config=EARS, text_config=TEXT, audio_token_id=24)).eval()
    randomize(model, torch.Generator().manual_seed(92))
    with torch.no_grad():  # answers are of plain tokens
        model.lm_head.weight[:k.N_SPECIAL] *= 0.05
    save(model.to(torch.bfloat16))
    model = hf.VoxtralForConditionalGeneration.from_pretrained(
        FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        heard = [model.get_audio_features(windows(o.mel(n))).pooler_output for n in FRAMES]
    v.write_floats(os.path.join(FOLDER, "heard.f32"), torch.cat(heard))
    print("frames %s: tokens %s, like %.2f" % (FRAMES, [len(h) for h in heard],
                                               heard[0].std()))
    for name, cases in ("hear.json", clips(model)), ("spoken.json", spoken(model)):
        with open(os.path.join(FOLDER, name), "w") as f:
            json.dump({"reference": "tests/golden/make_voxtral.py", "cases": cases}, f)
    make_wide()
    size = sum(os.path.getsize(os.path.join(FOLDER, x)) for x in os.listdir(FOLDER))
    print("%s: %d KB, transformers %s" % (FOLDER, size // 1024, hf.__version__))


if __name__ == "__main__":
    main()
