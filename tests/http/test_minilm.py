#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trained model that reads: all-MiniLM-L6-v2, beside Sentence Transformers' numbers
(tests/golden/make_minilm.py). tests/fetch_models.py fetches it."""
import json
import os
import sys

import halod

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(halod.BUILDDIR, "clients"))
MODEL = os.path.join(CLIENTS, "models", "all-MiniLM-L6-v2")
LONGEST = 256


def golden():
    with open(os.path.join(halod.SRCDIR, "tests/golden/minilm.json"), encoding="utf-8") as f:
        return json.load(f)


def vectors(d, texts):
    a = d.request("POST", "/v1/embeddings", {"input": texts})
    return [e["embedding"] for e in a.json["data"]], a.json["usage"]["prompt_tokens"]


def against(name, bound):
    def test(t, d):
        g = golden()
        short = [i for i, ids in enumerate(g["ids"]) if len(ids) < LONGEST]
        got, n = vectors(d, [g["texts"][i] for i in short])
        t.equal(n, sum(len(g["ids"][i]) for i in short), name + ": as many tokens")
        far = max(abs(x - y) for v, i in zip(got, short) for x, y in zip(v, g["vectors"][i]))
        alike = max(abs(sum(x * y for x, y in zip(v, w)) - g["alike"][i][j])
                    for v, i in zip(got, short) for w, j in zip(got, short))
        print("# %s: numbers of vectors %.2g, how alike texts are %.2g" % (name, far, alike))
        t.ok(far < bound and alike < 4 * bound, name + " is Sentence Transformers'", (far, alike))
        # What Sentence Transformers cuts.
        whole, n = vectors(d, g["ids"])
        t.equal(n, sum(map(len, g["ids"])), "ids, the longest too")
        far = max(abs(x - y) for v, w in zip(whole, g["vectors"]) for x, y in zip(v, w))
        t.ok(far < bound, "and of ids", far)
    return test


def test_long(t, d):
    """A text is never cut in silence."""
    g = golden()
    long = next(x for x, ids in zip(g["texts"], g["ids"]) if len(ids) == LONGEST)
    a = d.request("POST", "/v1/embeddings", {"input": [long]})
    t.equal(a.status, 400, "a text that is too long is refused")
    t.ok("402 tokens" in a.json["error"]["message"] and "at most 256" in
         a.json["error"]["message"], "with both lengths", a.body)


def test_fast(t, _):
    d = halod.Halod(**{**halod.QUICK, "embedding_model": MODEL, "threads": 2})
    against("fast", 1e-3)(t, d)
    t.equal(d.stop(), 0, "that daemon ends well")


if __name__ == "__main__":
    if not os.path.exists(os.path.join(MODEL, "model.safetensors")):
        print("1..0 # SKIP no %s: run tests/fetch_models.py %s, which needs a network"
              % (MODEL, CLIENTS))
        sys.exit(0)
    halod.run([against("exact", 1e-6), test_long, test_fast], embedding_model=MODEL, exact="yes")
