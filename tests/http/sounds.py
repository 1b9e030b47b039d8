# SPDX-License-Identifier: Apache-2.0
"""Audio for tests: WAV files by a formula, and messages with them."""
import base64
import math
import os
import struct

FOLDER = os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests/golden/audio")


def is_built(builddir):
    """Was halod built with the libraries that read audio?"""
    try:
        with open(os.path.join(builddir, "build-config.h")) as f:
            return "#define HAVE_AUDIO 1" in f.read()
    except FileNotFoundError:
        return True


def tone(seconds, rate=16000, low=300.0, high=2500.0):
    """A rising tone, as a WAV file of one channel and 16 bits."""
    n = int(seconds * rate)
    samples = [int(9000 * math.sin(2 * math.pi * (low + (high - low) * i / n / 2) * i / rate))
               for i in range(n)]
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 2 * n, b"WAVE", b"fmt ", 16, 1, 1,
                       rate, 2 * rate, 2, 16, b"data", 2 * n)
    return head + struct.pack("<%dh" % n, *samples)


def raw(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        return f.read()


def form(file=None, **fields):
    """A form and its headers; a list is a field of several values."""
    parts = [(k + "[]" * isinstance(v, list), x.encode(), b"") for k, v in fields.items()
             for x in (v if isinstance(v, list) else [v])]
    if file is not None:
        parts.append(("file", file, b'; filename="a.wav"\r\nContent-Type: audio/wav'))
    body = b"".join(b'--edge\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' %
                    (name.encode(), more, data) for name, data, more in parts)
    return body + b"--edge--\r\n", {"Content-Type": "multipart/form-data; boundary=edge"}


def spelled(data):
    return base64.b64encode(data).decode()


def sound(data, kind="wav"):
    return {"type": "input_audio", "input_audio": {"data": spelled(data), "format": kind}}
