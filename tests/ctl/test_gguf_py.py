#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With the gguf package for Python itself, which test.sh installs below build/clients;
without it this test is skipped. Its decoders on new random blocks of every type, bit for
bit, halo-tiny as it quantizes and writes it, and the numbers in the files of haloctl synth."""
import json
import os
import subprocess
import sys
import tempfile

import gguf_file as g
from tap import BUILD, SRC, TINY, done, eq, haloctl, ok

GOLDEN = os.path.join(SRC, "tests/golden")
# Of its formats how much of the answers stays: the largest mean change of a
# log-probability, and how many of the likeliest tokens agree. F16 only rounds scales; the
# others find other integers for the weights than those of halo-tiny.
TINY_KINDS = (("F16", 1e-4, 1.0), ("Q8_0", 0.05, 0.95), ("Q4_0", 0.5, 0.8))


def find_python():
    clients = os.environ.get("HALOD_CLIENTS", os.path.join(BUILD, "clients"))
    for python in (sys.executable, os.path.join(clients, "venv/bin/python")):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", "import gguf, numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    print("1..0 # SKIP gguf for Python is not there; test.sh installs it")
    sys.exit(0)


# Prints for each matrix of some files: name, type, mean and deviation as shares of what keeps
# activations of order one, and how many of 64 rows differ. Of the other rows some five hundred
# are decoded, from end to end: the package's decoders are slow.
READ = """
import sys
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
tensors = [(ts, t) for ts in ({t.name: t for t in GGUFReader(path).tensors}
                              for path in sys.argv[1:]) for t in ts.values()]
for ts, t in tensors:
    if len(t.shape) < 2:
        continue
    k, out = int(t.shape[0]), 1
    data = t.data.reshape(-1, t.data.shape[-1])
    rows = np.union1d(np.arange(min(64, len(data))), np.linspace(0, len(data) - 1, 512).astype(int))
    w = np.asarray(dequantize(data[rows], t.tensor_type), dtype=np.float64).reshape(-1, k)
    if t.name[:-6] + "scale" in ts:
        factor = np.asarray(ts[t.name[:-6] + "scale"].data, dtype=np.float64)
        w *= factor[rows * len(factor) // len(data)][:, None]
    name = t.name.split(".")[-2]
    if name.startswith(("attn_output", "ffn_down")):
        out = 0.5 * (8 ** 0.5 if name.endswith("_exps") else 1)
    if name == "token_embd":
        out = 1 if "output.weight" in ts else 2
        k = 1 if out == 1 else k
    if name == "output":
        out = 3
    if name == "ffn_gate_inp":
        out = 1.5
    want = out / k ** 0.5
    print(name, t.tensor_type.name, w.mean() / want, w.std() / want,
          len({r.tobytes() for r in w[:64]}))
"""
MIXES = {"q4_0": {"Q4_0", "Q6_K"}, "q4_k_m": {"Q4_K", "Q6_K"}, "q5_k_m": {"Q5_K", "Q6_K"},
         "iq4_xs": {"IQ4_XS", "Q5_K", "Q6_K"}, "ud-q4_k_xl": {"Q4_K", "Q5_K", "Q6_K", "Q8_0"},
         "mxfp4": {"MXFP4", "Q8_0"}, "nvfp4": {"NVFP4", "BF16"}}


def run(*command):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return p.returncode, p.stdout.decode(errors="replace")


def blocks(python, tmp):
    path = os.path.join(tmp, "blocks.gguf")
    for seed in "123":
        code, out = run(python, os.path.join(GOLDEN, "make_blocks.py"), seed, path)
        ok(code == 0, "blocks of seed " + seed, out)
        code, out = run(os.path.join(BUILD, "tests/unit/model/test_gguf"), path)
        ok(code == 0 and out.count("bit for bit") == 25, "decode to the same bits",
           "\n".join(line for line in out.splitlines() if line.startswith("not")))


def tiny(python, tmp):
    some = g.read_json(TINY, "reference.json")
    some["cases"] = some["cases"][:4]
    short, path = os.path.join(tmp, "some.json"), os.path.join(tmp, "tiny.gguf")
    with open(short, "w", encoding="utf-8") as f:
        json.dump(some, f)
    for kind, mean, agree in TINY_KINDS:
        code, out = run(python, os.path.join(GOLDEN, "make_gguf.py"), TINY, kind, path)
        ok(code == 0, "halo-tiny written as " + kind, out)
        code, out, err = haloctl("verify", "--exact", "--model", path, "--json",
                                 "--reference", short)
        v = json.loads(out or b"{}")
        ok(v.get("steps") and v["mean_delta"] <= mean and
           v["top1_agree"] >= agree * v["steps"], "and answers as it does", (out, err))


def synth(python, tmp):
    for mix, types in MIXES.items():
        files = []
        for shape in (["qwen3-0.6b"], ["qwen3-30b-a3b", "--experts", "8"]):
            out = os.path.join(tmp, "%s-%s" % (mix, shape[0]))
            code, text, err = haloctl("synth", "--layers", "2", "--vocab", "3200", "--format",
                                      mix, "--out", out, "--shape", *shape)
            ok(code == 0, "%s in %s" % (shape[0], mix), err)
            files.append(os.path.join(out, "model.gguf"))
        code, text = run(python, "-c", READ, *files)
        rows = [line.split() for line in text.splitlines()]
        found = {row[1] for row in rows} - {"F32"}
        ok(code == 0 and len(rows) > 28 and
           all(abs(float(mean)) < 0.05 and 0.93 < float(dev) < 1.07 and n_rows == "64" or
               name == "ffn_gate_inp" for name, _, mean, dev, n_rows in rows),
           "%s has numbers of the right size" % mix, text)
        for path in files:
            os.remove(path)
        eq(sorted(found), sorted(types), "in its formats")


with tempfile.TemporaryDirectory() as folder:
    program = find_python()
    blocks(program, folder)
    tiny(program, folder)
    synth(program, folder)
done()
