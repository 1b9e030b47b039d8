#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gemma 3 270M in Q4_K_M, a trained model of another kind than SmolLM2: layers with a window,
four norms, gelu, a vocabulary of 262,144 by SentencePiece. Beside Transformers' numbers and
llama.cpp's own path (tests/golden/make_gemma3.py). tests/fetch_models.py fetches it."""
import json
import math
import os
import subprocess
import sys
import tempfile

import halod

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(halod.BUILDDIR, "clients"))
MODEL = os.path.join(CLIENTS, "models", "gemma-3-270m-q4_k_m.gguf")
REFERENCE = os.path.join(halod.SRCDIR, "tests/golden/gemma3_270m.json")
LONG = "all" in halod.CHECK


def golden():
    with open(REFERENCE, encoding="utf-8") as f:
        return json.load(f)


def shorten(folder, n):
    """Of the reference the case with the longest prompt, and n tokens behind it."""
    reference = golden()
    case = max(reference["cases"], key=lambda c: len(c["prompt_ids"]))
    case.pop("text", None)
    for key in "continuation_ids", "steps":
        case[key] = case[key][:n]
    path = os.path.join(folder, "reference.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**reference, "cases": [case]}, f)
    return path


def verify(t, name, *options, reference=REFERENCE):
    p = subprocess.run([os.path.join(halod.BUILDDIR, "haloctl"), "verify", "-m", MODEL, "-r",
                        reference, "-j", *options], capture_output=True, text=True, timeout=1800)
    t.ok(p.returncode == 0, name + " keeps its bounds", p.stdout + p.stderr)
    found = json.loads(p.stdout or "{}")
    print("# %s: max %s, mean %s" % (name, found.get("max_delta"), found.get("mean_delta")))
    return found


def test_numbers(t, d):
    with tempfile.TemporaryDirectory() as folder:  # a token takes a third of a second
        reference = REFERENCE if LONG else shorten(folder, 4)
        found = verify(t, "exact", "--backend", "cpu", "--exact", reference=reference)
    t.ok(found.get("max_delta", 1) < 2e-4, "exact is Transformers' float32", found)
    verify(t, "fast", "--backend", "cpu")
    if LONG:
        verify(t, "fibers", "--backend", "hip", "--hip-library", halod.FIBERS)


def test_texts(t, d):
    for case in golden()["cases"]:
        text = case["prompt"].removeprefix("<bos>")
        ids = d.request("POST", "/tokenize", {"content": text, "add_special": True}).json["tokens"]
        t.equal(ids, case["prompt_ids"], "ids of %r" % text[:20])
        a = d.request("POST", "/v1/completions", {"prompt": text, "temperature": 0,
                                                  "max_tokens": 1}).json
        t.equal(a["usage"]["prompt_tokens"], len(ids), "a completion begins with BOS")


def test_perplexity(t, d):
    """Of a text that is longer than the window of 512."""
    text = golden()["text"]
    a = d.request("POST", "/v1/completions", {"prompt": text["ids"], "max_tokens": 0, "echo": True,
                                              "logprobs": 0}).json
    values = a["choices"][0]["logprobs"]["token_logprobs"][1:]
    got = math.exp(-sum(values) / len(values))
    print("# perplexity %.3f, llama.cpp %.3f, in float32 %.3f" % (
        got, text["own"], text["float32"]))
    t.ok(abs(math.log(got / text["float32"])) < 0.015, "perplexity is llama.cpp's", got)


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        print("1..0 # SKIP no %s: run tests/fetch_models.py %s, which needs a network"
              % (MODEL, CLIENTS))
        sys.exit(0)
    halod.run([test_numbers, test_texts, test_perplexity], model=MODEL, threads=2, ctx=2048)
