#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small audio files of each format, what FFmpeg and soxr read from them, and what Transformers
makes of one.

    pip install numpy soundfile soxr av transformers     (in a venv outside the repository)
    make_audio.py

Writes tests/golden/audio: NAME.wav, .mp3, .flac or .ogg; samples.tsv, a line for a file: its
name, how many samples it has as one channel of 16 kHz, and every 16th of them times 8192; and
mel.tsv: the log-mel spectrogram of mel.wav, a line for every seventh frame, its number and its
128 bands. short.wav and nan.wav are to be refused, and many.flac has many channels of nothing."""

import os

import av
import numpy as np
import soundfile
import soxr
from transformers import WhisperFeatureExtractor

OUT = "tests/golden/audio"


def sound(rate, seconds, channels=1):
    """A rising tone, silence in its middle, and some noise."""
    t = np.arange(int(rate * seconds)) / rate
    noise = np.random.default_rng(1).standard_normal((len(t), channels))
    tone = np.sin(2 * np.pi * (200 * t + 2500 * t * t))
    tone[len(t) // 3:len(t) // 2] = 0
    return (0.5 * tone[:, None] * np.linspace(1, 0.3, channels) + 0.003 * noise).astype("f4")


def write(name, rate, channels, fmt, subtype, seconds=0.2):
    path = os.path.join(OUT, name)
    soundfile.write(path, sound(rate, seconds, channels), rate, format=fmt, subtype=subtype)
    return path


def by_ffmpeg(path):
    """One channel of 16 kHz."""
    parts = []
    with av.open(path) as f:
        stream = f.streams.audio[0]
        rate = stream.rate
        as_float = av.AudioResampler(format="fltp")
        for frame in f.decode(stream):
            parts += [x.to_ndarray() for x in as_float.resample(frame)]
    mono = np.concatenate(parts, axis=1).mean(axis=0)
    return soxr.resample(mono, rate, 16000, quality="HQ") if rate != 16000 else mono


def main():
    os.makedirs(OUT, exist_ok=True)
    files = [("pcm16.wav", 16000, 1, "WAV", "PCM_16"), ("stereo.wav", 11025, 2, "WAV", "PCM_24"),
             ("float.wav", 8000, 1, "WAV", "FLOAT"), ("alaw.wav", 8000, 1, "WAV", "ALAW"),
             ("mpeg.mp3", 44100, 2, "MP3", "MPEG_LAYER_III"),
             ("speech.mp3", 16000, 1, "MP3", "MPEG_LAYER_III"),
             ("flac.flac", 22050, 1, "FLAC", "PCM_16"),
             ("opus.ogg", 48000, 1, "OGG", "OPUS")]
    with open(os.path.join(OUT, "samples.tsv"), "w") as f:
        for file in files:
            samples = by_ffmpeg(write(*file))
            f.write("%s\t%d\t%s\n" % (file[0], len(samples), " ".join(
                "%d" % x for x in np.round(samples[::16] * 8192))))

    # Transformers' own code, in numpy and double.
    path = write("mel.wav", 16000, 1, "WAV", "PCM_16", seconds=0.33)
    samples, _ = soundfile.read(path, dtype="float32")
    whisper = WhisperFeatureExtractor(feature_size=128)
    made = whisper._np_extract_fbank_features(samples[None], "cpu")[0]
    with open(os.path.join(OUT, "mel.tsv"), "w") as f:
        for t in sorted({*range(0, made.shape[1], 7), made.shape[1] - 1}):
            f.write("%d\t%s\n" % (t, " ".join("%.5f" % x for x in made[:, t])))

    write("short.wav", 16000, 1, "WAV", "PCM_16", 0.05)
    wrong = sound(8000, 0.2)
    wrong[700] = np.nan
    soundfile.write(os.path.join(OUT, "nan.wav"), wrong, 8000, subtype="FLOAT")
    soundfile.write(os.path.join(OUT, "many.flac"), np.zeros((48000, 8), "f4"), 96000)


main()
