#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct as llama.cpp quantizes it: the same bytes (tests/golden/requantize.py),
beside llama.cpp's numbers in float32 (tests/golden/make_trained.py quants). The fast path may be a
quarter further away on average than llama.cpp's own. One mix of formats, the exact path with one
prompt and four steps behind it; HALOD_CHECK=all takes all of all six, and fibers (make
smollm2-long). IQ4_XS, whose quantizer takes a minute, is in corners/test_writers.py."""
import json
import os
import subprocess
import sys
import tempfile

from tap import BUILD, FIBERS, SRC, done, haloctl, ok

sys.path.insert(0, os.path.join(SRC, "tests/corners"))
from corner import python_with  # noqa: E402

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILD, "clients"))
MODEL = os.path.join(CLIENTS, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
LONG = "all" in os.environ.get("HALOD_CHECK", "").split()
FEW = ("Q4_K_M",)


def one_of(cases):
    """The longest prompt, and some steps: a token of the exact path takes a quarter of a second."""
    case = max(cases, key=lambda c: len(c["prompt_ids"]))
    return [{**case, "steps": case["steps"][:4], "continuation_ids": case["continuation_ids"][:4]}]


def check(name, path, of, folder):
    ways = [("exact", ["--backend", "cpu", "--exact"]), ("fast", ["--backend", "cpu"])]
    if LONG:
        ways.append(("fibers", ["--backend", "hip", "--hip-library", FIBERS]))
    reference = os.path.join(folder, "reference.json")
    for way, options in ways:
        cases = one_of(of["cases"]) if way == "exact" and not LONG else of["cases"]
        with open(reference, "w", encoding="utf-8") as f:
            json.dump({"cases": cases, "peer": of["peer"]}, f)
        code, out, err = haloctl("verify", "-j", "-m", path, "-r", reference, *options)
        found = json.loads(out or "{}")
        print("# %s, %s: max %.2g, mean %.2g" % (name, way, found.get("max_delta", 9),
                                                 found.get("mean_delta", 9)))
        ok(code == 0, "%s, %s: keeps its bounds" % (name, way), out.decode() + err)
        if way == "exact":
            ok(found.get("max_delta", 1) < 2e-4, name + ": exact is llama.cpp's float32", found)


def main():
    python = python_with("gguf", "numpy", "libgguf")
    if not python or not os.path.exists(MODEL):
        print("1..0 # SKIP no %s or no package libgguf: test.sh installs them, with a network"
              % MODEL)
        return
    with open(os.path.join(SRC, "tests/golden/smollm2_quants.json"), encoding="utf-8") as f:
        formats = json.load(f)["formats"]
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "model.gguf")
        for name in formats if LONG else FEW:
            made = subprocess.run([python, os.path.join(SRC, "tests/golden/requantize.py"), MODEL,
                                   name, path], capture_output=True, text=True, timeout=600)
            ok(made.returncode == 0, name + ": the bytes are llama.cpp's", made.stderr)
            check(name, path, formats[name], tmp)
    done()


if __name__ == "__main__":
    main()
