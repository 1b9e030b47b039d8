#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tiny random forced aligner of Qwen3-ASR's kind, and the words, classes and times that Hugging
Face Transformers makes of clips and texts with it, in float32 on the CPU.

    pip install torch torchvision transformers safetensors pillow soynlp   (in a venv)
    make_aligner.py

Writes tests/golden/vision/qwen3aligner, a checkpoint as they are published, and qwen3aligner-hf,
the same one as Transformers saves it. Each has align.json:
  cases   a text, its language, the frames of a clip (make_omni.mel), the prompt's ids, the logits
          of its tokens of time, and its words with their times in ms
  words   texts and their words
  mended  times before and after they are made to go forward"""

import json
import os
import random
import types

import torch
import transformers as hf
from transformers.models.qwen3_asr import processing_qwen3_asr as ref

import make_omni as o
import make_vision as v
from make_hf_models import BASE, randomize

FOLDER = os.path.join(v.OUT, "qwen3aligner")
TIME, CLASSES, STEP_MS = 510, 100, 80
TEXTS = [
    ("English", "It's well-known: the 2nd, \"fast\" \u00c5ngstr\u00f6m \u2014 re\u0301sum\u00e9\u2026"),
    ("Chinese", "\u4f60\u597d\uff0c world\u4e16\u754c\u3002 3\u4e2a\u3000\U00020000x"),
    ("Korean", "\uc548\ub155\ud558\uc138\uc694, \ub9cc\ub098\uc11c 'AB\u6f22\u5b57!"),
    (None, "  one\x1ctwo\u00a0three \u00b2 \u2163 _ \u0939\u093f\u0928\u094d\u0926\u0940 \n"),
    ("French", "\u2026 !"),
]
CASES = [([130], "English", "One two, three four five. Six: it's seven!"),
         ([460], "Chinese", "\u4f60\u597d world\u4e16\u754c"),
         ([790], None, " ".join("word%d" % i for i in range(20)))]


def split(text, language):
    return ref.Qwen3ASRProcessor.split_words_for_alignment(None, text, language)


def case(model, tokenizer, frames, language, text):
    words = split(text, language)
    prompt = o.HEAR + "".join(w + "<timestamp><timestamp>" for w in words)
    ids = o.expand(tokenizer, prompt, [], frames)
    seen = [o.chunks(n) for n in frames]
    tensor = torch.tensor([ids])
    with torch.no_grad():
        logits = model(input_ids=tensor, attention_mask=torch.ones_like(tensor), use_cache=False,
                       input_features=torch.stack([f for f, _ in seen]),
                       input_features_mask=torch.stack([m for _, m in seen])).logits
    at = types.SimpleNamespace(timestamp_segment_time=STEP_MS)
    items = ref.Qwen3ASRProcessor.decode_forced_alignment(at, logits, tensor, [words], TIME)[0]
    rows = logits[0][tensor[0] == TIME]
    print("   ", language, frames, len(ids), "tokens,", len(words), "words")
    return {"frames": frames[0], "language": language, "text": text, "ids": ids,
            "logits": [[round(float(x), 5) for x in row] for row in rows[:8]],
            "words": [[w["text"], round(w["start_time"] * 1000), round(w["end_time"] * 1000)]
                      for w in items]}


def mended():
    rng, out = random.Random(5), []
    for n in (1, 2, 3, 4, 6, 9, 14, 25):
        for most in (3, 2 * n):
            t = [float(STEP_MS * rng.randrange(most)) for _ in range(n)]
            out.append([t, ref._fix_timestamps(torch.tensor(t).numpy())])
    for t in ([0, 9e3, 8e3, 1e3, 2e3, 3e3], [5e3, 1e3, 2e3, 0, 9e3], [1e3, 7e3, 6e3, 5e3, 2e3, 3e3],
              [1e3, 7e3, 6e3, 5e3, 2e3, 3e3, 4e3], [3e3, 2e3, 1e3]):
        out.append([t, ref._fix_timestamps(torch.tensor(t).numpy())])
    return out


def main():
    torch.set_num_threads(2)
    v.SPECIAL.update({**o.SOUND, "<timestamp>": TIME})
    v.TEMPLATE = o.TEMPLATE
    v.PROCESSOR = {k: x for k, x in o.EXTRACTOR.items() if k != "image_processor_type"}
    text = {**BASE, "model_type": "qwen3", "num_hidden_layers": 2, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    ears = {k: w for k, w in o.EARS.items() if k != "max_source_positions"}
    model = hf.Qwen3ASRForTokenClassification(hf.Qwen3ASRConfig(
        text_config=text, audio_config=ears, audio_token_id=509, timestamp_token_id=TIME,
        pad_token_id=501, eos_token_id=500, num_labels=CLASSES)).eval()
    randomize(model, torch.Generator().manual_seed(92))
    model = model.to(torch.bfloat16)
    model.save_pretrained(FOLDER + "-hf")
    with open(os.path.join(FOLDER + "-hf", "config.json")) as f:
        config = json.load(f)
    state = dict(model.state_dict())
    o.write_model(FOLDER + "-hf", config, state)
    inner = {k: config[k] for k in ("audio_config", "text_config", "audio_token_id")}
    inner["text_config"] = {**inner["text_config"], "rope_theta": 1e6,
                            "tie_word_embeddings": False, "rope_scaling": {
                                "interleaved": True, "mrope_interleaved": True,
                                "mrope_section": [4, 2, 2], "rope_type": "default",
                                "type": "default"}}
    inner["text_config"].pop("rope_parameters")
    names = {n: "thinker.lm_head.weight" if n == "score.weight" else o.published_asr(n)
             for n in state}
    tokenizer = o.write_model(
        FOLDER, {"architectures": ["Qwen3ASRForConditionalGeneration"], "model_type": "qwen3_asr",
                 "timestamp_token_id": TIME, "timestamp_segment_time": STEP_MS,
                 "thinker_config": {**inner, "model_type": "qwen3_forced_aligner",
                                    "classify_num": CLASSES}},
        {names[n]: t for n, t in state.items()})
    with open(os.path.join(FOLDER + "-hf", "processor_config.json"), "w") as f:
        json.dump({"feature_extractor": v.PROCESSOR, "timestamp_segment_time": STEP_MS}, f)
    os.remove(os.path.join(FOLDER + "-hf", "preprocessor_config.json"))
    model = hf.Qwen3ASRForTokenClassification.from_pretrained(
        FOLDER + "-hf", dtype=torch.float32, attn_implementation="eager").eval()
    out = {"cases": [case(model, tokenizer, *c) for c in CASES],
           "words": [[language, t, split(t, language)] for language, t in TEXTS],
           "mended": mended()}
    for folder in (FOLDER, FOLDER + "-hf"):
        with open(os.path.join(folder, "align.json"), "w") as f:
            json.dump({"reference": "tests/golden/make_aligner.py", **out}, f)
    print("transformers %s" % hf.__version__)


if __name__ == "__main__":
    main()
