#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode speed with less memory than the model needs: halod with expert_memory beside
llama.cpp with its file mapped, alternating, both in a memory cgroup of the same limit.

    tests/bench/experts_peer.py -b build --work DIR --venv DIR [--layers 12] [--shares 50,25]

The file is Qwen3-30B-A3B's shape in Q4_0 with so many layers and random weights, which both
read. The limit is what is dense, the share of the experts, and REST for the programs. The
environment needs llama-cpp-python and gguf. Prints CSV: medians of the rounds. Wants root,
and cgroups of version 1 or 2. --prefix "chrt -f 20" keeps other programs off."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from experts import Daemon

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SHAPE = {"d": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128, "ffn": 768, "experts": 128,
         "used": 8, "vocab": 151936, "tied": False, "signs": True}
REST = 768 << 20  # bytes: caches of 8,192 tokens, scratch, the programs
Q4_0 = 18 / 32


def group_folder():
    for folder, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                          ("/sys/fs/cgroup", "memory.max")):
        if os.path.exists(os.path.join(folder, "cgroup.procs")):
            return os.path.join(folder, "halod-bench-%d" % os.getpid()), limit
    sys.exit("experts_peer.py: there are no memory cgroups")


class Group:
    """A memory cgroup; what is run in it is within the limit, its page cache too."""

    def __init__(self, n_bytes):
        self.folder, limit = group_folder()
        os.mkdir(self.folder)
        with open(os.path.join(self.folder, limit), "w") as f:
            f.write(str(n_bytes))

    def join(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as f:
            f.write("0")

    def run(self, argv, text=None):
        r = subprocess.run(argv, input=text, capture_output=True, text=True,
                           preexec_fn=self.join)
        if r.returncode:
            sys.exit("experts_peer.py: %s: %d %s" % (argv, r.returncode, r.stderr[-600:]))
        return r

    def close(self):
        for _ in range(100):
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.1)


def forget(path):
    """The file's pages are charged to who reads them next."""
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ours(a, group, path, stores, size):
    """Tokens a second, and the share of uses that were in memory. Random tokens: those of the
    greatest logit would soon repeat themselves, and their experts. The second answer counts,
    as for the peer."""
    forget(path)
    d = Daemon(a, stores, size, a.prefix, preexec_fn=group.join)
    try:
        body = {"prompt": [i * 7919 % SHAPE["vocab"] for i in range(16)], "temperature": 1,
                "max_tokens": a.tokens, "ignore_eos": True}
        d.write({**body, "seed": 1})
        before = d.counters()
        tps = d.write({**body, "seed": 2})["timings"]["predicted_per_second"]
        hits, misses, _ = (y - x for x, y in zip(before, d.counters()))
        return tps, hits / max(hits + misses, 1)
    finally:
        d.end()


def peer(a, group, path):
    """The second run counts: by then the pages that fit are there."""
    forget(path)
    r = group.run([*a.prefix, os.path.join(a.venv, "bin/python"),
                   os.path.join(HERE, "peers_llama.py"), "run", path, str(a.threads), "mapped"],
                  "decode\ndecode\n")
    return float(r.stdout.split()[-1])


def rows(a, path, stores):
    shape = dict(SHAPE, layers=a.layers)
    experts = int(a.layers * 3 * shape["experts"] * shape["ffn"] * shape["d"] * Q4_0)
    dense = os.path.getsize(path) - experts
    yield "file", os.path.getsize(path) / 1e9, "GB"
    for share in a.shares:
        group = Group(dense + experts * share // 100 + REST)
        try:
            all_of = [(*ours(a, group, path, stores, experts * share // 100),
                       peer(a, group, path)) for _ in range(a.rounds)]
        finally:
            group.close()
        us, hits, them = (statistics.median(x) for x in zip(*all_of))
        yield "%d %% of the experts: halod" % share, us, "tokens/s"
        yield "%d %% of the experts: hit rate" % share, hits, "1"
        yield "%d %% of the experts: llama.cpp, mmap" % share, them, "tokens/s"
        yield "%d %% of the experts: times as fast" % share, us / them, "1"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--build", default="build")
    p.add_argument("--work", required=True)
    p.add_argument("--venv", required=True)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--shares", default="50,25,10")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tokens", type=int, default=32)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--prefix", default="")
    a = p.parse_args()
    a.shares = [int(s) for s in a.shares.split(",")]
    a.prefix = a.prefix.split()
    a.model = os.path.join(a.work, "experts-%d.gguf" % a.layers)
    os.makedirs(a.work, exist_ok=True)
    path = a.model
    if not os.path.exists(path):
        subprocess.run([os.path.join(a.venv, "bin/python"),
                        os.path.join(HERE, "peers_llama.py"), "make",
                        json.dumps(dict(SHAPE, layers=a.layers)), "q4_0", path,
                        os.path.join(TOP, "models/halo-tiny")], check=True)
    with tempfile.TemporaryDirectory(dir=a.work) as stores:
        _, said = ours_once(a, path, stores)
        print("# " + (re.findall(r"experts: .*", said) or ["no experts in a file"])[0])
        for name, value, unit in rows(a, path, stores):
            print("experts,\"qwen3-30b-a3b shape, %d layers, %s\",%.4g,%s"
                  % (a.layers, name, value, unit), flush=True)


def ours_once(a, path, stores):
    """The store is made here, outside of any limit."""
    r = subprocess.run([os.path.join(a.build, "haloctl"), "bench", "model", "--model", path,
                        "--backend", "cpu", "-p", "16", "-n", "2", "--repeat", "1", "--json",
                        "--expert-memory", str(1 << 30), "--expert-dir", stores],
                       capture_output=True, text=True)
    if r.returncode:
        sys.exit("experts_peer.py: haloctl: " + r.stderr[-600:])
    return json.loads(r.stdout), r.stderr


if __name__ == "__main__":
    main()
