#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU backend beside llama.cpp (of the PyPI package llama-cpp-python), alternating
in one run on the same shapes with random weights.

    tests/bench/peers.py [--build DIR] [--work DIR] [--venv DIR] [--rounds N]
                         [--models D4,E4,D16,E16] [--cases prefill512,decode,…]
                         [--pause SECONDS]
                         [--serve]                       (from the top; prints CSV)

Shapes: D is Qwen3-1.7B, E eight layers of Qwen3-30B-A3B with 64 experts. 4: int4 in
groups of 32 beside Q4_0, embedding and head too; 16: bf16; Dq4_k and so on: both read one
file of GGUF in that format. Models and the environment
(built from source for this processor: some minutes) are made once below --work and need
10 GB. Each row is a median; the ratio is that of the medians; the read bandwidth is
measured before every round. --serve adds eight streams over HTTP through halod."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from peers_llama import BLOCKS

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
D = {"layers": 28, "d": 2048, "heads": 16, "kv_heads": 8, "head_dim": 128, "ffn": 6144,
     "experts": 0, "used": 0, "vocab": 151936, "tied": True}
E = {"layers": 8, "d": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128, "ffn": 768,
     "experts": 64, "used": 8, "vocab": 151936, "tied": False}
SYNTH = {"D": ["-s", "qwen3-1.7b"], "E": ["-s", "qwen3-30b-a3b", "-l", "8", "-e", "64"]}
CASES = "load,prefill512,decode,decode4096"


def call(*argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True,
                          **kw).stdout


def macs_per_token(s):
    """Multiply-adds of a prompt's token, attention and the head left out."""
    nq, nkv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    ffn = 3 * s["d"] * s["ffn"] * max(1, s["used"])
    return s["layers"] * (s["d"] * (2 * nq + 2 * nkv) + ffn + s["d"] * s["experts"])


def bytes_per_token(s, name):
    """Of weights read to decode one token, with their scales."""
    n = macs_per_token(s) + s["vocab"] * s["d"]
    weights, size, _ = BLOCKS.get(name[1:], (1, 2 if name.endswith("16") else 0.5625, 0))
    return n * size / weights


class Bench:
    def __init__(self, a):
        self.a = a
        self.haloctl = os.path.join(a.build, "haloctl")
        self.python = os.path.join(a.venv, "bin", "python")
        self.peer = os.path.join(HERE, "peers_llama.py")

    def shape(self, name):
        return D if name[0] == "D" else E

    def prepare(self):
        os.makedirs(self.a.work, exist_ok=True)
        if not os.path.exists(self.python):
            call(sys.executable, "-m", "venv", self.a.venv)
            call(self.python, "-m", "pip", "install", "-q", "llama-cpp-python", "gguf",
                 env={**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON"})
        for name in self.a.models:
            ours = os.path.join(self.a.work, name)
            tiny = os.path.join(TOP, "models/halo-tiny")
            if name[1:] in BLOCKS:
                if not os.path.exists(ours + ".gguf"):
                    call(self.python, self.peer, "make", json.dumps(self.shape(name)),
                         name[1:], ours + ".gguf", tiny)
                continue
            if not os.path.exists(os.path.join(ours, "config.json")):
                call(self.haloctl, "synth", *SYNTH[name[0]], "-o", ours, "--tokenizer",
                     tiny, "-f",
                     "bf16" if name.endswith("16") else "w4a16-g32-all")
            if not os.path.exists(ours + ".gguf"):
                call(self.python, self.peer, "make", json.dumps(self.shape(name)),
                     "bf16" if name.endswith("16") else "q4_0", ours + ".gguf")

    def read_bandwidth(self):
        return float(call(os.path.join(self.a.build, "tests/bench/bench_read"),
                          str(self.a.threads), stderr=subprocess.DEVNULL))

    def ours(self, name, cases):
        model = os.path.join(self.a.work, name + ".gguf" * (name[1:] in BLOCKS))
        base = [self.haloctl, "bench", "model", "--model", model, "--threads",
                str(self.a.threads), "--json", "-r", "1"]
        prompts = ["-p", "512" if "prefill512" in cases else ""]
        out = json.loads(call(*base, *prompts, "-n", "32" if "decode" in cases else "0",
                              "-d", "16"))
        got = {"load": out["load_s"], "rss": out["rss_bytes"]}
        if "prefill512" in cases:
            got["prefill512"] = out["prefill"]["512"]
        if "decode" in cases:
            got["decode"] = out["decode_tps"]
        if "decode4096" in cases:
            deep = json.loads(call(*base, "-p", "", "-n", "24", "-d", "4096"))
            got["decode4096"] = deep["decode_tps"]
        return got

    def theirs(self, name, cases):
        out = json.loads(call(self.python, self.peer, "run",
                              os.path.join(self.a.work, name + ".gguf"),
                              str(self.a.threads), ",".join(cases)))
        out["load"], out["rss"] = out.pop("load_s"), out.pop("rss_bytes")
        return out

    def rounds(self, name):
        mine, peer, bandwidth = [], [], []
        for i in range(self.a.rounds):
            bandwidth.append(self.read_bandwidth())
            mine.append(self.ours(name, self.a.cases))
            time.sleep(self.a.pause)
            peer.append(self.theirs(name, self.a.cases))
            print(name, i, "read %.1f" % bandwidth[-1], mine[-1], peer[-1],
                  file=sys.stderr)
            time.sleep(self.a.pause)
        read = statistics.median(bandwidth)
        yield "read-bandwidth", name, read, "GB/s"
        for key in ["load"] + [c for c in self.a.cases if c != "load"] + ["rss"]:
            a, b = (statistics.median(r[key] for r in who) for who in (mine, peer))
            unit = {"load": "s", "rss": "bytes"}.get(key, "tokens/s")
            yield key, name + " halod", a, unit
            yield key, name + " llama.cpp", b, unit
            yield key, name + " ratio", a / b, "1"
            if key == "decode":
                share = a * bytes_per_token(self.shape(name), name) * 1e-9 / read
                yield "decode-share-of-read", name + " halod", share, "1"
            if key == "prefill512":
                yield ("prefill-gmacs", name + " halod",
                       a * macs_per_token(self.shape(name)) * 1e-9, "GMAC/s")

    def serve(self, name):
        port = 18098
        daemon = subprocess.Popen(
            [os.path.join(self.a.build, "halod"), "-c", "/dev/null", "--model",
             os.path.join(self.a.work, name), "--port", str(port), "--ctx", "2048",
             "--threads", str(self.a.threads), "--log-level", "error",
             "--no-access-log"])
        try:
            time.sleep(5)
            rates = []
            for _ in range(self.a.rounds):
                s = json.loads(call(
                    self.haloctl, "bench", "serve", "--url",
                    "http://127.0.0.1:%d" % port, "--input-len", "128",
                    "--output-len", "64", "--concurrency", "8", "--num-prompts", "8",
                    "--json"))
                rates.append(s["output_throughput"])
            yield ("served-8-streams", name + " halod, 128 in 64 out",
                   statistics.median(rates), "tokens/s")
        finally:
            daemon.terminate()
            daemon.wait()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--work", default="build/peers")
    p.add_argument("--venv", default="build/peers/venv")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--models", default="D4,E4,D16,E16")
    p.add_argument("--cases", default=CASES)
    p.add_argument("--pause", type=float, default=0, help="seconds left to others "
                   "between the parts of a round")
    p.add_argument("--serve", action="store_true")
    a = p.parse_args()
    a.models, a.cases = a.models.split(","), a.cases.split(",")
    b = Bench(a)
    b.prepare()
    commit = call("git", "rev-parse", "--short", "HEAD", cwd=TOP).strip()
    for name in a.models:
        for rows in [b.rounds(name)] + ([b.serve(name)] if a.serve else []):
            for case, shape, value, unit in rows:
                print("%s,%s,%s,\"%s\",%.4g,%s" % (
                    commit, time.strftime("%Y-%m-%d"), case, shape, value, unit),
                    flush=True)


main()
