#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU backend beside llama.cpp (of the PyPI package llama-cpp-python), alternating
in one run on the same shapes with random weights.

    tests/bench/peers.py [--build DIR] [--work DIR] [--venv DIR] [--rounds N]
                         [--models D4,E4,D16,E16] [--cases prefill512,decode,…]
                         [--pause SECONDS] [--serve] [--prefix CMD] [--bench FILE]
                                                         (from the top; prints CSV)

Shapes: D is Qwen3-1.7B, E eight layers of Qwen3-30B-A3B with 64 experts; d and e have a quarter
of these layers. 4: int4 in
groups of 32 beside Q4_0, embedding and head too; 16: bf16; Dq4_k_m and so on: both read one
file of GGUF in that mix of formats (haloctl synth), or Dq4_k and so on: in that format. Models and the environment
(built from source for this processor: some minutes) are made once below --work and need
10 GB. Each row is a median; the ratio is that of the medians; the read bandwidth is
measured before every round. Before each run of halod, which loads anew, and
each load of the peer the files are read once, so that they are in the page cache. A load
of halod copies: new-memory is how long one thread takes to get as many new bytes from the
system, in the same round. In a virtual machine that can be most of a load: free memory goes
back to the host after a few seconds, hence the pauses before both. load-again: halod with
the weights that an earlier load has packed and left in the page cache (weight_cache).
Cases of their own: prefill4096, decode16384.
--serve adds what comes of halod over HTTP: eight streams of 128 tokens in and 64 out, beside
what the peer could reach at most by its own prefill and batch of eight, where these are
measured; one stream's TPOT beside that of haloctl bench model; and the worst gap between two
tokens of a stream, over the median, beside one other busy process, halod without --prefix.
--prefix "chrt -f 20" keeps what else runs on the machine off the processors while either
side is measured. --bench FILE: the peer is llama.cpp's program llama-bench, not the package, for
prompts and decoding of mixes alone. On a machine without a checkout, all programs and libraries
may lie in one folder, DIR/haloctl and so on: --prefix "DIR/ld-linux-x86-64.so.2 --library-path DIR"
and --commit."""
import argparse
import contextlib
import http.client
import json
import mmap
import os
import statistics
import subprocess
import sys
import time
import urllib.request

from peers_llama import BLOCKS

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
D = {"layers": 28, "d": 2048, "heads": 16, "kv_heads": 8, "head_dim": 128, "ffn": 6144,
     "experts": 0, "used": 0, "vocab": 151936, "tied": True}
E = {"layers": 8, "d": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128, "ffn": 768,
     "experts": 64, "used": 8, "vocab": 151936, "tied": False}
SHAPES = {"D": D, "E": E, "d": {**D, "layers": 7}, "e": {**E, "layers": 2}}
SYNTH = {"D": ["-s", "qwen3-1.7b"], "E": ["-s", "qwen3-30b-a3b", "-l", "8", "-e", "64"],
         "d": ["-s", "qwen3-1.7b", "-l", "7"],
         "e": ["-s", "qwen3-30b-a3b", "-l", "2", "-e", "64"]}
# Mixes of formats that haloctl synth writes.
MIXES = ("q4_k_m", "q5_k_m", "q6_k", "q8_0", "iq4_xs", "ud-q4_k_xl", "mxfp4", "nvfp4")
CASES = "load,prefill512,decode,decode4096,batch8"
HOST_TAKES = 5  # seconds after which free memory is the host's again


def call(*argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True,
                          **kw).stdout


def read_file(path):
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


def new_memory(n):
    """Seconds until n new bytes, in huge pages where there are some, have been written."""
    time.sleep(HOST_TAKES)
    start = time.monotonic()
    with mmap.mmap(-1, n) as m:
        m.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, n, mmap.PAGESIZE):
            m[at] = 1
        seconds = time.monotonic() - start
    time.sleep(HOST_TAKES)
    return seconds


def macs_per_token(s):
    """Multiply-adds of a prompt's token, attention and the head left out."""
    nq, nkv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    ffn = 3 * s["d"] * s["ffn"] * max(1, s["used"])
    return s["layers"] * (s["d"] * (2 * nq + 2 * nkv) + ffn + s["d"] * s["experts"])


def bytes_per_token(s, name):
    """Of weights read to decode one token, with their scales. Not of a mix."""
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
        return SHAPES[name[0]]

    def prepare(self):
        os.makedirs(self.a.work, exist_ok=True)
        if not self.a.bench and not os.path.exists(self.python):
            call(sys.executable, "-m", "venv", self.a.venv)
            call(self.python, "-m", "pip", "install", "-q", "llama-cpp-python", "gguf",
                 env={**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON"})
        for name in self.a.models:
            ours = os.path.join(self.a.work, name)
            tiny = os.path.join(TOP, "models/halo-tiny")
            if name[1:] in MIXES:
                if not os.path.exists(ours):
                    call(*self.a.prefix, self.haloctl, "synth", *SYNTH[name[0]], "-o", ours,
                         "--tokenizer", tiny, "-f", name[1:])
                if not os.path.exists(ours + ".gguf"):
                    os.link(os.path.join(ours, "model.gguf"), ours + ".gguf")
                continue
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
        return float(call(*self.a.prefix,
                          os.path.join(self.a.build, "tests/bench/bench_read"),
                          str(self.a.threads), stderr=subprocess.DEVNULL))

    def warm(self, path):
        """Into the page cache."""
        for at in ([os.path.join(path, f) for f in os.listdir(path)]
                   if os.path.isdir(path) else [path]):
            read_file(at)

    def ours_at(self, name):
        is_gguf = name[1:] in BLOCKS or name[1:] in MIXES
        return os.path.join(self.a.work, name + ".gguf" * is_gguf)

    def ours(self, name, case, *more):
        """Tokens a second; or, of the case load, seconds and bytes."""
        argv = {"load": ["-p", "", "-n", "1"], "prefill512": ["-p", "512", "-n", "0"],
                "prefill4096": ["-p", "4096", "-n", "0"],
                "decode": ["-p", "", "-n", "32", "-d", "16"],
                "decode4096": ["-p", "", "-n", "16", "-d", "4096"],
                "decode16384": ["-p", "", "-n", "16", "-d", "16384", "--depth-copies"],
                "batch8": ["-p", "", "-n", "24", "-d", "16", "-b", "8"]}[case]
        self.warm(self.ours_at(name))
        out = json.loads(call(*self.a.prefix, self.haloctl, "bench", "model", "--model",
                              self.ours_at(name), "--threads",
                              str(self.a.threads), "--json", "-r", "1", *argv, *more))
        if case == "load":
            return {"load": out["load_s"], "rss": out["rss_bytes"]}
        return {case: out["prefill"][case[7:]] if case.startswith("prefill") else
                out["decode_tps"]}

    def load_again(self, name):
        """What a load takes that maps what one before has packed (weight_cache)."""
        again = self.ours(name, "load", "--weight-cache",
                          os.path.join(self.a.work, "cache"))
        return {"load-again": again["load"], "rss-again": again["rss"]}

    def peer_argv(self, how, name):
        return [*self.a.prefix, self.python, self.peer, how,
                os.path.join(self.a.work, name + ".gguf"), str(self.a.threads)]

    def theirs_by_bench(self, name, case):
        """llama-bench runs each once before the clock, as `haloctl bench model` does."""
        argv = (["-p", case[7:], "-n", "0"] if case.startswith("prefill") else
                ["-p", "0", "-n", "32", "-d", "16"])
        self.warm(os.path.join(self.a.work, name + ".gguf"))
        rows = json.loads(call(*self.a.prefix, self.a.bench, "-m",
                               os.path.join(self.a.work, name + ".gguf"), "-t",
                               str(self.a.threads), "-r", "1", "-o", "json", *argv,
                               stderr=subprocess.DEVNULL))
        return {case: rows[0]["avg_ts"]}

    def theirs(self, name, case, process):
        if self.a.bench:
            return self.theirs_by_bench(name, case)
        if case == "load":
            self.warm(os.path.join(self.a.work, name + ".gguf"))
            return json.loads(call(*self.peer_argv("load", name)))
        process.stdin.write(case + "\n")
        process.stdin.flush()
        return {case: float(process.stdout.readline())}

    def measure(self, name, process):
        """Rounds of the read bandwidth, ours and theirs, by case."""
        mine, peer, bandwidth, memory = {}, {}, {}, []
        for case in self.a.cases:
            if case == "load":
                self.load_again(name) # writes the file
            else:
                self.theirs(name, case, process) # ours runs each once before the clock
            for i in range(self.a.rounds):
                bandwidth.setdefault(case, []).append(self.read_bandwidth())
                if case == "load":
                    memory.append(new_memory(self.weight_bytes(name)))
                a, b = self.ours(name, case), self.theirs(name, case, process)
                if case == "load":
                    a.update(self.load_again(name))
                    b.update({"load-again": b["load"], "rss-again": b["rss"]})
                for who, got in (mine, a), (peer, b):
                    for key, value in got.items():
                        who.setdefault(key, []).append(value)
                time.sleep(self.a.pause)
            print(name, case, "read", bandwidth[case], mine, peer, memory, file=sys.stderr)
        return mine, peer, bandwidth, memory

    def rounds(self, name):
        process = None
        if set(self.a.cases) - {"load"} and not self.a.bench:
            process = subprocess.Popen(self.peer_argv("run", name), stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        mine, peer, bandwidth, memory = self.measure(name, process)
        if process:
            process.stdin.close()
            process.wait()
        if memory:
            yield "new-memory", name, statistics.median(memory), "s"
        if {"prefill512", "batch8"} <= set(peer):
            prefill, batch = (statistics.median(peer[c]) for c in ("prefill512", "batch8"))
            yield ("served-8-streams", name + " peer-bound, 128 in 64 out",
                   8 * 64 / (8 * 128 / prefill + 8 * 64 / batch), "tokens/s")
        for case in mine:
            a, b = (statistics.median(who[case]) for who in (mine, peer))
            unit = {"load": "s", "rss": "bytes"}.get(case.removesuffix("-again"), "tokens/s")
            yield case, name + " halod", a, unit
            yield case, name + " llama.cpp", b, unit
            yield case, name + " ratio", a / b, "1"
            if case.startswith("rss"):
                yield (case.replace("rss", "rss-over-weights"), name + " halod",
                       a / self.weight_bytes(name), "1")
            if case not in bandwidth:
                continue
            read = statistics.median(bandwidth[case])
            yield "read-bandwidth", name + " at " + case, read, "GB/s"
            if case == "decode" and name[1:] not in MIXES:
                each = bytes_per_token(self.shape(name), name) * 1e-9 / read
                yield "decode-share-of-read", name + " halod", a * each, "1"
                yield "decode-share-of-read", name + " llama.cpp", b * each, "1"
            if case == "prefill512":
                yield ("prefill-gmacs", name + " halod",
                       a * macs_per_token(self.shape(name)) * 1e-9, "GMAC/s")

    def weight_bytes(self, name):
        at = self.ours_at(name)
        return os.path.getsize(at if os.path.isfile(at)
                               else os.path.join(at, "model.safetensors"))

    def wait_ready(self, port):
        for _ in range(600):
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d/health?ready" % port):
                    return
            except OSError: # not there yet, or 503
                time.sleep(0.1)
        raise SystemExit("halod does not answer")

    @contextlib.contextmanager
    def halod(self, name, prefix):
        """Runs while the context lasts; its port."""
        port = 18098
        self.warm(self.ours_at(name))
        daemon = subprocess.Popen(
            [*prefix, os.path.join(self.a.build, "halod"), "-c", "/dev/null", "--model",
             self.ours_at(name), "--port", str(port), "--ctx", "2048",
             "--threads", str(self.a.threads), "--log-level", "error",
             "--no-access-log"])
        try:
            self.wait_ready(port)
            yield port
        finally:
            daemon.terminate()
            daemon.wait()

    def bench_serve(self, port, n_in, streams, seed):
        """Of other prompts for each seed: none is cached."""
        return json.loads(call(
            self.haloctl, "bench", "serve", "--url", "http://127.0.0.1:%d" % port,
            "--input-len", str(n_in), "--output-len", "64", "--concurrency", str(streams),
            "--num-prompts", str(max(2, streams)), "--seed", str(seed), "--json"))

    def serve(self, name):
        rounds = range(self.a.rounds)
        with self.halod(name, self.a.prefix) as port:
            rates = [self.bench_serve(port, 128, 8, i)["output_throughput"] for i in rounds]
            served = [self.bench_serve(port, 16, 1, 100 + i)["median_tpot_ms"]
                      for i in rounds]
        alone = [1e3 / self.ours(name, "decode")["decode"] for _ in rounds]
        with self.halod(name, []) as port:
            gap(port, 32)
            with busy_process():
                gaps = [gap(port, 192) for _ in rounds]
        median = statistics.median
        yield ("served-8-streams", name + " halod, 128 in 64 out", median(rates),
               "tokens/s")
        yield "tpot-served", name + " halod", median(served), "ms"
        yield "tpot-bench-model", name + " halod", median(alone), "ms"
        yield "gap-over-median", name + " halod", median(gaps), "1"


@contextlib.contextmanager
def busy_process():
    p = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        p.kill()
        p.wait()


def gap(port, n):
    """The longest time between two of n tokens of a stream, over the median."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("POST", "/v1/completions",
              json.dumps({"prompt": "Once upon a time", "max_tokens": n, "stream": True,
                          "ignore_eos": True, "temperature": 0}),
              {"Content-Type": "application/json"})
    at = [time.monotonic() for line in c.getresponse() if line.startswith(b"data: {")]
    c.close()
    # the first is of the prompt, the last of the stream's end
    gaps = [b - a for a, b in zip(at, at[1:])][1:-1]
    return max(gaps) / statistics.median(gaps)


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
                   "between rounds")
    p.add_argument("--serve", action="store_true")
    p.add_argument("--prefix", default="")
    p.add_argument("--bench", help="llama-bench, in the place of the package")
    p.add_argument("--commit", help="of the rows; that of the checkout")
    a = p.parse_args()
    a.prefix = a.prefix.split()
    a.models, a.cases = a.models.split(","), [c for c in a.cases.split(",") if c]
    if a.bench and (a.serve or set(a.cases) - {"prefill512", "prefill4096", "decode"}):
        p.error("--bench: the cases are prefill512, prefill4096 and decode, without --serve")
    if a.bench and {m[1:] for m in a.models} - set(MIXES):
        p.error("--bench: both sides read one file, a mix: Dq4_k_m, …")
    b = Bench(a)
    b.prepare()
    commit = a.commit or call("git", "rev-parse", "--short", "HEAD", cwd=TOP).strip()
    for name in a.models:
        for rows in [b.rounds(name)] + ([b.serve(name)] if a.serve else []):
            for case, shape, value, unit in rows:
                print("%s,%s,%s,\"%s\",%.4g,%s" % (
                    commit, time.strftime("%Y-%m-%d"), case, shape, value, unit),
                    flush=True)


main()
