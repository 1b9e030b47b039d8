#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that others wrote (of_writers.py): every format of llama.cpp's package for Python, what
its writer can do, and a folder by safetensors. Each is computed exactly, on the fast path, and
by a chip's machine code, or by the HIP kernels on fibers where there is none."""
import concurrent.futures
import json
import os
import subprocess
import tempfile

from corner import EXACT, FAST, deviates, haloctl, python_with, refused
from tap import BUILD, FIBERS, done, ok

GFX11 = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
CODE = os.path.join(BUILD, "kernels/gfx1151.hsaco")
HERE = os.path.dirname(os.path.abspath(__file__))


def ways():
    yield "exact", EXACT, ["--exact"], {}
    yield "fast", FAST, [], {}
    if not os.path.exists(GFX11) or not os.path.exists(CODE):
        yield "fibers", FAST, ["--backend", "hip", "--hip-library", FIBERS], {}
    else:
        yield "machine code", FAST, ["--backend", "hip", "--hip-library", GFX11], {
            "HALOD_GFX11": "code=" + CODE}


def check(folder):
    """What was found, and what is wrong, or ""."""
    reference = os.path.join(folder, "reference.json")
    with open(os.path.join(folder, "opened"), encoding="utf-8") as f:
        path = os.path.join(folder, f.read())
    with open(reference, encoding="utf-8") as f:
        wanted = json.load(f)
    if isinstance(wanted, str):
        return "refused", refused(path, os.path.join(folder, "../reference.json"), wanted)
    found = []
    for name, bound, options, environment in ways():
        delta, why = deviates(path, reference, bound, *options, **environment)
        if why:
            return name, why
        found.append("%s %.2g" % (name, delta))
    code, out, err = haloctl("tokenize", "-m", path, "-p", "Hello world!")
    return ", ".join(found), "" if out == "12 13 14 15 8\n" else out + err


def main():
    python = python_with("gguf", "numpy")
    if not python:
        print("1..0 # SKIP gguf for Python is not there; test.sh installs it")
        return
    with tempfile.TemporaryDirectory() as tmp:
        made = subprocess.run([python, os.path.join(HERE, "of_writers.py"), tmp], timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        ok(made.returncode == 0, "the packages write", made.stdout.decode())
        print("".join("# %s\n" % line for line in made.stdout.decode().splitlines()), end="")
        names = sorted(os.listdir(tmp))
        with open(os.path.join(tmp, "reference.json"), "w", encoding="utf-8") as f:
            json.dump({"cases": [{"prompt_ids": [1], "continuation_ids": [], "steps": []}]}, f)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, (found, why) in zip(names, pool.map(
                    check, [os.path.join(tmp, name) for name in names])):
                ok(not why, "%s: %s" % (name, found), why)
    done()


if __name__ == "__main__":
    main()
