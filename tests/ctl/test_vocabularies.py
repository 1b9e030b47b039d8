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


def refusal(model):
    """Exit status of a command, and what it says."""
    p = subprocess.run([os.path.join(BUILD, "haloctl"), "tokenize", "-m", model, "-p", "a"],
                       capture_output=True, text=True, timeout=120)
    return p.returncode, p.stderr


def ids_of(model, texts):
    """A list of ids for each text, and what is wrong with the program's end. The vocabulary is read
    once: that takes longer than all texts."""
    p = subprocess.run([os.path.join(BUILD, "tests/unit/model/test_gguf_pretok"), model],
                       input="".join(text + "\0" for text in texts).encode(),
                       capture_output=True, timeout=120)
    found = [[int(x) for x in line.split()] for line in p.stdout.decode().splitlines()]
    why = "" if p.returncode == 0 and len(found) == len(texts) else \
        "status %d, ids of %d texts: %s" % (p.returncode, len(found), p.stderr.decode())
    return found, why


def check(name):
    path = os.path.join(MODELS, "ggml-vocab-%s.gguf" % name)
    if name in NOT_READ:
        code, err = refusal(path)
        return code == 2 and NOT_READ[name] in err, "refused by name", err
    with open(path + ".inp", encoding="utf-8", newline="") as f:
        texts = f.read().split("\n__ggml_vocab_test__\n")
    with open(path + ".out", encoding="utf-8") as f:
        wanted = [[int(x) for x in line.split()] for line in f.read().split("\n")]
    pairs = [(text, want) for text, want in zip(texts, wanted) if text and not (
        name in NFC and not unicodedata.is_normalized("NFC", text))]
    found, why = ids_of(path, [text for text, _ in pairs])
    bad = ["%r: %s, want %s" % (text[:60], got[:40], want[:40])
           for (text, want), got in zip(pairs, found) if got != want]
    if why:
        bad.append(why)
    return len(pairs) > 40 and not bad, "%d texts" % len(pairs), "\n".join(bad)


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
