#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With the gguf package for Python itself, which test.sh installs below build/clients;
without it this test is skipped. Its decoders on new random blocks of every type, bit for
bit, and halo-tiny as it quantizes and writes it."""
import json
import os
import subprocess
import sys
import tempfile

import gguf_file as g
from tap import BUILD, SRC, TINY, done, haloctl, ok

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


with tempfile.TemporaryDirectory() as folder:
    program = find_python()
    blocks(program, folder)
    tiny(program, folder)
done()
