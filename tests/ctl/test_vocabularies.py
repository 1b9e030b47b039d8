#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own tests of vocabularies: real GGUF vocabularies, texts, and the ids that the
models' own tokenizers make of them. tests/fetch_models.py fetches them."""
import concurrent.futures
import os
import subprocess
import sys
import unicodedata

BUILD = os.environ.get("HALOD_BUILDDIR", "build")
CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILD, "clients"))
MODELS = os.path.join(CLIENTS, "models")
# Encoders' vocabularies, which halod reads from folders.
NOT_READ = {"bert-bge": '"bert"'}
# In these llama.cpp leaves a text as it is where the model's own tokenizer makes it NFC.
NFC = {"qwen35"}


def haloctl(model, text, *options):
    p = subprocess.run([os.path.join(BUILD, "haloctl"), "tokenize", "-m", model, *options],
                       input=text.encode(), capture_output=True, timeout=120)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def check(name):
    path = os.path.join(MODELS, "ggml-vocab-%s.gguf" % name)
    with open(path + ".inp", encoding="utf-8", newline="") as f:
        texts = f.read().split("\n__ggml_vocab_test__\n")
    with open(path + ".out", encoding="utf-8") as f:
        wanted = [[int(x) for x in line.split()] for line in f.read().split("\n")]
    if name in NOT_READ:
        code, out, err = haloctl(path, "a")
        return code == 2 and NOT_READ[name] in err, "refused by name", err
    n, bad, pairs = 0, [], list(zip(texts, wanted))
    # Reading a vocabulary costs more than a text: one in six, and the last ones, which are long.
    takes_all = "all" in os.environ.get("HALOD_CHECK", "").split(",")
    for text, want in pairs if takes_all else pairs[:-4:6] + pairs[-4:]:
        if not text or (name in NFC and not unicodedata.is_normalized("NFC", text)):
            continue
        n += 1
        code, out, err = haloctl(path, text)
        if code or [int(x) for x in out.split()] != want:
            bad.append("%r: %s%s, want %s" % (text[:60], out.strip()[:200], err, want[:40]))
    return n > 7 and not bad, "%d texts" % n, "\n".join(bad)


def main():
    names = sorted(f[len("ggml-vocab-"):-len(".gguf.inp")] for f in
                   (os.listdir(MODELS) if os.path.isdir(MODELS) else [])
                   if f.startswith("ggml-vocab-") and f.endswith(".gguf.inp"))
    if not names:
        print("1..0 # SKIP no vocabularies in %s: run tests/fetch_models.py %s, which needs a "
              "network" % (MODELS, CLIENTS))
        return
    print("1..%d" % len(names))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for i, (name, (good, words, why)) in enumerate(zip(names, pool.map(check, names)), 1):
            print("%sok %d - %s: %s" % ("" if good else "not ", i, name, words))
            print("".join("# %s\n" % line for line in why.splitlines()[:20] if not good), end="")
            failed += not good
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
