#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the package qwen-asr cuts long audio into pieces: drawn sounds, words of noise between
pauses.

    pip install numpy librosa soundfile; pip install --no-deps qwen-asr    (in a venv)
    make_cuts.py

Writes tests/golden/audio/cuts.tsv. A line is a sound: its seed, its pauses' loudness at most, its
seconds, the longest piece in ms, and the samples at which pieces end. The package would cut on
until a rest has the usual length; its places are noted as long as a rest is longer than a piece may
be."""

import importlib.util
import os

import numpy as np

RATE = 16000
CASES = [(1, 0, 20, 8000), (2, 6, 20, 8000), (3, 3, 61, 8000), (4, 0, 310, 300000),
         (5, 6, 700, 300000), (6, 200, 25, 8000)]


def draw(seed, loud, n):
    """n samples. A generator modulo 2^32 makes lengths, loudness and noise; tests/unit/audio draws
    the same."""
    x, out = seed, np.zeros(n, np.float32)
    at, is_word = 0, False

    def step():
        nonlocal x
        x = (x * 1664525 + 1013904223) & 0xffffffff
        return x >> 16
    while at < n:
        is_word = not is_word
        length = 1600 + step() % 8000 if is_word else 480 + step() % 4000
        loudness = 20 + step() % 236 if is_word else step() % (loud + 1)
        end = min(n, at + length)
        while at < end:
            out[at] = ((step() - 32768) * loudness >> 8) / 32768
            at += 1
    return out


def reference():
    spec = importlib.util.find_spec("qwen_asr")
    path = os.path.join(os.path.dirname(spec.origin), "inference", "utils.py")
    inner = importlib.util.spec_from_file_location("utils", path)
    module = importlib.util.module_from_spec(inner)
    inner.loader.exec_module(module)
    return module.split_audio_into_chunks


def main():
    split = reference()
    with open("tests/golden/audio/cuts.tsv", "w") as f:
        for seed, loud, seconds, most_ms in CASES:
            n, most = seconds * RATE, most_ms * RATE // 1000
            usual = most_ms * 3 / 5000
            around = min(5, most_ms / 1000 - usual, usual / 2)
            pieces = split(draw(seed, loud, n), RATE, usual, search_expand_sec=around)
            ends = [round(offset * RATE) for _, offset in pieces[1:]]
            kept = [e for i, e in enumerate(ends) if n - (ends[i - 1] if i else 0) > most]
            f.write("\t".join(map(str, [seed, loud, seconds, most_ms, *kept, n])) + "\n")


if __name__ == "__main__":
    main()
