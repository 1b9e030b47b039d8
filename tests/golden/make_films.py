#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small films with sound, what PyAV (FFmpeg) hears in them, and what Hugging Face Transformers
answers when Qwen3-Omni sees and hears them, by the checkpoint of make_omni.py.

    pip install torch torchvision transformers safetensors pillow av   (in a venv)
    make_films.py

Writes tests/golden/video:
  film-*.mp4, .webm, .mkv
  films.json    of each file: samples a second, how many, and the root of the mean square of each
                tenth of them
and tests/golden/vision/qwen3omni/films.json: prompts as Qwen3OmniMoeProcessor writes them, with the
sound of the films between their frames, and answers."""

import json
import os
import types

import av
import numpy as np
import torch
import transformers as hf
from PIL import Image
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as omni

import make_omni as o
import make_video as video
import make_vision as v

OUT = "tests/golden/video"
# Name, codecs, frames a second, how many, their size, samples a second, seconds, channels. A file of
# whole samples at 16,000 a second, without loss, is what the reference is compared with.
FILMS = [
    ("talk.mkv", "libx264", "flac", 2, 6, (128, 64), 16000, 2.21, "mono"),
    ("wide.mkv", "libx264", "flac", 2, 2, (512, 16), 16000, 1.3, "mono"),
    ("slow.mkv", "libx264", "pcm_s16le", 1, 6, (128, 64), 16000, 1.05, "mono"),
    ("quick.mkv", "libx264", "flac", 3, 6, (128, 64), 16000, 2.1, "mono"), # pairs between tokens
    ("aac.mp4", "libx264", "aac", 4, 2, (64, 48), 44100, 0.5, "stereo"),
    ("mp3.mp4", "libx264", "libmp3lame", 4, 2, (64, 48), 44100, 0.5, "stereo"),
    ("opus.webm", "libvpx-vp9", "libopus", 4, 2, (64, 48), 48000, 0.5, "stereo"),
    ("vorbis.webm", "libvpx-vp9", "vorbis", 4, 2, (64, 48), 48000, 0.5, "stereo"),
    ("float.mkv", "libx264", "pcm_f32le", 4, 2, (64, 48), 8000, 0.5, "mono"),
    ("bytes.mkv", "libx264", "pcm_u8", 4, 2, (64, 48), 8000, 0.5, "stereo"),
    ("deep.mkv", "libx264", "pcm_s24le", 4, 2, (64, 48), 8000, 0.5, "mono"),
    ("ac3.mkv", "libx264", "ac3", 4, 2, (64, 48), 32000, 0.2, "mono"), # halod reads none such
    ("mute.mkv", "libx264", "flac", 4, 2, (64, 48), 16000, 0, "mono"),
]
CASES = [  # films, and frames a second that the request asks for; text
    ([("talk.mkv", 2)], v.turn(video.SHOWN, "What is said?")),
    ([("wide.mkv", 2), ("talk.mkv", 2)], v.turn("First ", video.SHOWN, " and then ", video.SHOWN,
                                               " of both: say it")),
    ([("slow.mkv", 1)], v.turn("Look: ", video.SHOWN, "How long?")),
    ([("wide.mkv", 2)], v.turn(video.SHOWN)),
]
# Pairs of frames at fractions of positions. halod rounds these down, as vLLM does; Transformers
# rotates by the fractions. So only the order of tokens is compared.
BETWEEN = [([("quick.mkv", 3)], v.turn(video.SHOWN, "How fast?"))]


def picture(i, width, height):
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([(40 + 30 * i + x) % 256, (200 - 25 * i + 2 * y) % 256,
                     (60 + x + 9 * i + y) % 256], -1).astype(np.uint8)


def write(name, codec, ear, fps, n, size, rate, seconds, layout):
    """A sweep, on the right at half the loudness."""
    with av.open(os.path.join(OUT, "film-" + name), "w", options={"fflags": "+bitexact"}) as f:
        s = f.add_stream(codec, rate=fps, options={"crf": "30"})
        s.width, s.height, s.pix_fmt = *size, "yuv420p"
        a = f.add_stream(ear, rate=rate, layout=layout, options={"strict": "experimental"})
        for x in s, a:
            x.codec_context.flags |= 1 << 23  # bitexact
        for i in range(n):
            f.mux(s.encode(av.VideoFrame.from_ndarray(picture(i, *size), format="rgb24")))
        f.mux(s.encode(None))
        if seconds == 0:
            return # a track of sound without a packet, as a muted recorder leaves it
        t = np.arange(round(seconds * rate)) / rate
        x = (9000 * np.sin(2 * np.pi * (300 * t + 200 * t * t))).astype(np.int16)
        x = np.stack([x, x // 2], -1) if layout == "stereo" else x
        frame = av.AudioFrame.from_ndarray(x.reshape(1, -1), format="s16", layout=layout)
        frame.sample_rate, frame.pts = rate, 0
        change = av.AudioResampler(format=a.codec_context.format, layout=layout, rate=rate,
                                   frame_size=a.codec_context.frame_size or None)
        for piece in [*change.resample(frame), *change.resample(None)]:
            f.mux(a.encode(piece))
        f.mux(a.encode(None))


def hear(name):
    """Samples, the mean of the channels."""
    out = []
    with av.open(os.path.join(OUT, "film-" + name)) as f:
        for frame in f.decode(audio=0):
            x = frame.to_ndarray()
            if not frame.format.is_planar:
                x = x.reshape(-1, len(frame.layout.channels)).T
            if x.dtype == np.uint8:
                x = (x.astype("f8") - 128) / 128
            elif x.dtype != np.float32:
                x = x / 2.0 ** (8 * x.dtype.itemsize - 1)
            out.append(x.mean(0))
        return f.streams.audio[0].rate, np.concatenate(out).astype(np.float32)


def frames(name):
    with av.open(os.path.join(OUT, "film-" + name)) as f:
        return [Image.fromarray(p.to_ndarray(format="rgb24")) for p in f.decode(video=0)]


def features(samples):
    whisper = hf.WhisperFeatureExtractor(feature_size=128)
    return torch.from_numpy(whisper._np_extract_fbank_features(samples[None], "cpu")[0])


def spell(grid, n_heard, fps):
    """The reference's own words for a film."""
    ns = types.SimpleNamespace
    me = ns(audio_bos_token="<|audio_start|>", audio_eos_token="<|audio_end|>",
            audio_token="<|audio_pad|>", video_token="<|video_pad|>",
            video_processor=ns(merge_size=2))
    return hf.Qwen3OmniMoeProcessor.replace_video_with_audio_token(
        me, {"video_grid_thw": grid, "video_second_per_grid": [2 / fps]}, 0,
        {"num_audio_tokens": [n_heard]}, 0, position_id_per_seconds=13.0)


def case(model, tokenizer, films, text):
    shown, heard, words = [], [], text
    for name, fps in films:
        shown.append(video.see(frames(name), Qwen2VLVideoProcessor))
        heard.append(features(hear(name)[1]))
        n = int(omni._get_feat_extract_output_lengths(torch.tensor(heard[-1].shape[1])))
        words = words.replace("<|video_pad|>", spell(shown[-1][1], n, fps).replace(
            "<|video_pad|>", "\0"), 1)
    most = max(x.shape[1] for x in heard)
    extra = {"pixel_values_videos": torch.cat([p for p, _ in shown]),
             "video_grid_thw": torch.cat([g for _, g in shown]),
             "video_second_per_grid": torch.tensor([2 / fps for _, fps in films]),
             "input_features": torch.stack([torch.nn.functional.pad(x, (0, most - x.shape[1]))
                                            for x in heard]),
             "feature_attention_mask": torch.tensor(
                 [[1] * x.shape[1] + [0] * (most - x.shape[1]) for x in heard]),
             "use_audio_in_video": True}
    ids = v.expand(tokenizer, words.replace("\0", "<|video_pad|>"), [])
    made = video.answer(ids, [], [], text, lambda t: model(
        input_ids=t, attention_mask=torch.ones_like(t), use_cache=False, **extra))
    return {"films": films, **{k: made[k] for k in ("text", "ids", "steps")}}


def main():
    torch.set_num_threads(2)
    for film in FILMS:
        write(*film)
    sounds = {}
    for name, *_ in FILMS[:-2]:
        rate, x = hear(name)
        sounds["film-" + name] = {"rate": rate, "n": len(x), "loud": [
            round(float(np.sqrt((p.astype("f8") ** 2).mean())), 6)
            for p in np.split(x[:len(x) // 10 * 10], 10)]}
        print(name, rate, len(x), os.path.getsize(os.path.join(OUT, "film-" + name)))
    with open(os.path.join(OUT, "films.json"), "w") as f:
        json.dump(sounds, f)
    video.PROCESSOR["size"] = {"shortest_edge": 128 * 64, "longest_edge": 768 * 64}
    v.load = lambda image: image
    with open(os.path.join(o.FOLDER, "tokenizer.json")) as f:
        tokenizer = v.Tokenizer.from_str(f.read())
    model = hf.Qwen3OmniMoeForConditionalGeneration.from_pretrained(
        o.FOLDER, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").thinker.eval()
    with open(os.path.join(o.FOLDER, "films.json"), "w") as f:
        json.dump({"model": "qwen3omni", "reference": "tests/golden/make_films.py",
                   "cases": [case(model, tokenizer, *c) for c in CASES],
                   "between": [{k: x for k, x in case(model, tokenizer, *c).items() if k != "steps"}
                               for c in BETWEEN]}, f)


if __name__ == "__main__":
    main()
