#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small files of video of each codec, and what PyAV (FFmpeg) decodes of them.

    pip install av numpy     (in a venv outside the repository)
    make_video_files.py

Writes tests/golden/video:
  NAME.mp4, .webm, .mkv
  frames.json   of each file: size, frames a second, and of each frame the mean red, green and
                blue of its four quarters
A bright square goes over a background that changes its colour, so no two frames are alike. The
file turned.mp4 is shown a quarter of a turn to the right, as a phone writes it."""

import io
import json
import os

import av
import numpy as np

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "video")
WIDTH, HEIGHT, N = 64, 48, 24
FILES = [  # name, codec, frames a second, options; Motion JPEG is large, and has a third of them
    ("h264.mp4", "libx264", 12, {"bf": "2", "g": "8", "crf": "30"}),
    ("late.mp4", "libx264", 12, {"g": "100", "crf": "30", "movflags": "faststart"}),
    ("hevc.mp4", "libx265", 6, {"crf": "32", "x265-params": "log-level=none:keyint=10"}),
    ("vp8.webm", "libvpx", 12, {"crf": "30", "auto-alt-ref": "1", "lag-in-frames": "8"}),
    ("vp9.webm", "libvpx-vp9", 12, {"crf": "40", "lag-in-frames": "8"}),
    ("av1.mkv", "libsvtav1", 12, {"crf": "45", "preset": "10"}),
    ("mjpeg.mp4", "mjpeg", 12, {"q:v": "31"}),
    ("turned.mp4", "libx264", 12, {"crf": "30"}),
]


def picture(i):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    p = np.stack([40 + 6 * i + 0 * x, 200 - 5 * i + y, 60 + x + 2 * i], -1).clip(0, 255)
    p[8 + i % 8:24 + i % 8, 2 * i:2 * i + 14] = (230, 30 + 8 * i, 220)
    return p.astype(np.uint8)


def write(name, codec, fps, options):
    path, n = os.path.join(OUT, name), N // 3 if codec == "mjpeg" else N
    muxer = {k: options.pop(k) for k in ("movflags",) if k in options}
    with av.open(path, "w", options={"fflags": "+bitexact", **muxer}) as f:
        s = f.add_stream(codec, rate=fps, options=options)
        s.width, s.height, s.pix_fmt = WIDTH, HEIGHT, "yuvj420p" if codec == "mjpeg" else "yuv420p"
        s.codec_context.flags |= 1 << 23  # bitexact
        for i in range(n):
            f.mux(s.encode(av.VideoFrame.from_ndarray(picture(i), format="rgb24")))
        f.mux(s.encode(None))
    with open(path, "rb") as f:
        data = f.read()
    if name == "turned.mp4":  # the matrix of the track's header, of 16.16 numbers
        at = data.index(b"tkhd") + 4 + 40
        matrix = [0, 1, 0, -1, 0, 0, HEIGHT, 0, 0x4000]
        data = data[:at] + b"".join((v << 16).to_bytes(4, "big", signed=True)
                                    for v in matrix) + data[at + 36:]
    with open(path, "wb") as f:
        f.write(data)
    return data


def read(data):
    with av.open(io.BytesIO(data)) as f:
        s = f.streams.video[0]
        frames = [fr.to_ndarray(format="rgb24") for fr in f.decode(s)]
        return float(s.average_rate), frames


def main():
    os.makedirs(OUT, exist_ok=True)
    all_files = {}
    for name, codec, fps, options in FILES:
        rate, frames = read(write(name, codec, fps, options))
        assert len(frames) in (N, N // 3) and frames[0].shape == (HEIGHT, WIDTH, 3), (name, len(frames))
        if name == "turned.mp4":
            frames = [np.rot90(p, -1) for p in frames]
        h, w = frames[0].shape[:2]
        blocks = [p.reshape(2, h // 2, 2, w // 2, 3).mean((1, 3)).round(1) for p in frames]
        all_files[name] = {"width": w, "height": h, "fps": rate,
                           "blocks": [b.ravel().tolist() for b in blocks]}
        print(name, os.path.getsize(os.path.join(OUT, name)), rate)
    with open(os.path.join(OUT, "frames.json"), "w") as f:
        json.dump(all_files, f, separators=(",", ":"))


main()
