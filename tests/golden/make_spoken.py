#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Hugging Face Transformers answers to prompts with audio files, by the checkpoint of
make_omni.py.

    pip install torch torchvision transformers safetensors pillow   (in a venv)
    make_spoken.py

Writes tests/golden/audio/spoken.json; and spoken-gguf.json, for which the tower has a window of 800
frames: a GGUF file says none. The files are tones of tests/http/sounds.py; a case names their
lengths. Their spectrograms are those of WhisperFeatureExtractor."""

import json
import os
import struct
import sys

import numpy as np
import torch
import transformers as hf
from tokenizers import Tokenizer

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../http"))
import make_omni as o
import make_vision as v
import sounds

OUT = {"tests/golden/audio/spoken.json": 200, "tests/golden/audio/spoken-gguf.json": 800}
# Each sound has a chunk of 100 frames: see make_omni.py.
CASES = [  # images, seconds of sounds, text
    ([], [1.305], v.turn(o.HEAR, "What is said?")),
    (["rgb.png"], [1.0, 2.5], v.turn("First ", o.HEAR, " then ", v.SEE, " and ", o.HEAR,
                                     " of all: say it")),
]


def features(seconds):
    wav = sounds.tone(seconds)[44:]
    samples = np.array(struct.unpack("<%dh" % (len(wav) // 2), wav), dtype="f4") / 32768
    whisper = hf.WhisperFeatureExtractor(feature_size=128)
    return torch.from_numpy(whisper._np_extract_fbank_features(samples[None], "cpu")[0])


def main():
    torch.set_num_threads(2)
    model = hf.Qwen3OmniMoeForConditionalGeneration.from_pretrained(
        o.FOLDER, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").thinker.eval()
    tokenizer = Tokenizer.from_file(os.path.join(o.FOLDER, "tokenizer.json"))
    for out, window in OUT.items():
        model.model.audio_tower.n_window_infer, cases = window, []
        for images, seconds, text in CASES:
            clips = {int(s * 16000) // 160: features(s) for s in seconds}
            o.mel = lambda n: clips[n]
            made = o.case(model, tokenizer, images, list(clips), text)
            for key in "frames", "prompt_logprobs":
                made.pop(key)
            cases.append({"seconds": seconds, **made})
        with open(out, "w") as f:
            json.dump({"reference": "tests/golden/make_spoken.py", "cases": cases}, f)


if __name__ == "__main__":
    main()
