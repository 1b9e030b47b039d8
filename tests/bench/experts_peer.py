#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode speed with less memory than the model needs: halod with expert_memory beside
llama.cpp with its file mapped, alternating, both in a memory cgroup of the same limit.

    tests/bench/experts_peer.py -b build --work DIR --venv DIR [--layers 12] [--shares 50,25]
                                [--zipf]

The file is Qwen3-30B-A3B's shape in Q4_0 with so many layers and random weights, which both
read. --zipf: its routers choose by Zipf's law. Both are fed the same random tokens, in several
sequences, behind another sequence that warms up. The limit is what is dense, the share of the
experts, and REST for the programs. The environment needs llama-cpp-python and gguf. Prints
CSV: medians of the rounds. Wants root, and cgroups of version 1 or 2. --prefix "chrt -f 20"
keeps other programs off.

"read rate while waiting to fio" is what halod read by the time that it waited for it, in
multiples of fio's rate on the same file with the same size of blocks and as many at a time."""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from experts import disk_rates

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


def write_tokens(a, f):
    """The sequences that both are fed: one to warm up, and then others."""
    rng = random.Random(1)
    for n in [a.warm] + [a.tokens] * a.sequences:
        f.write(",".join(str(rng.randrange(SHAPE["vocab"])) for _ in range(n)) + "\n")
    f.flush()


def ours(a, group, path, stores, size, tokens):
    """Tokens a second, the share of uses that were in memory, bytes read a token, and bytes
    by second of waiting (None: nothing was read)."""
    forget(path)
    more = ["--expert-memory", str(size), "--expert-dir", stores] if size else []
    r = group.run([*a.prefix, os.path.join(a.build, "haloctl"), "bench", "model", "--model",
                   path, "--backend", "cpu", "-p", "", "-n", "0", "--threads",
                   str(a.threads), "--json", "--feed", tokens, *more])
    v = json.loads(r.stdout)
    x = v.get("experts", {"hit_rate": 1, "bytes_a_token": 0, "wait_ms_a_token": 0})
    rate = x["wait_ms_a_token"] and x["bytes_a_token"] / x["wait_ms_a_token"] * 1e3
    return v["feed_tps"], x["hit_rate"], x["bytes_a_token"], rate or None


def peer(a, group, path, tokens):
    forget(path)
    r = group.run([*a.prefix, os.path.join(a.venv, "bin/python"),
                   os.path.join(HERE, "peers_llama.py"), "feed", path, str(a.threads),
                   tokens])
    return float(r.stdout.split()[-1])


def share_of(a, path, stores, tokens, share, experts, fio):
    """Rows of a share of the experts. fio(): the disk's rate now, or None."""
    group = Group(os.path.getsize(path) - experts + experts * share // 100 + REST)
    try:
        size = experts * share // 100 if share < 100 else 1 << 40
        all_of = [(*ours(a, group, path, stores, size, tokens), fio(),
                   None if a.no_peer else peer(a, group, path, tokens))
                  for _ in range(a.rounds)]
    finally:
        group.close()
    us, hits, read, rates, disk, them = zip(*all_of)
    yield "halod", statistics.median(us), "tokens/s"
    yield "hit rate", statistics.median(hits), "1"
    yield "read a token", statistics.median(read) / 1e6, "MB"
    if None not in rates and None not in disk:
        yield "fio", statistics.median(disk) / 1e9, "GB/s"
        yield ("read rate while waiting to fio",
               statistics.median(x / y for x, y in zip(rates, disk)), "1")
    if a.no_peer:
        return
    yield "llama.cpp, mmap", statistics.median(them), "tokens/s"
    yield "times as fast", statistics.median(u / t for u, t in zip(us, them)), "1"


def when_all_fit(a, path, stores, tokens):
    """Speed with expert_memory for all of the experts to that without it, by turns."""
    group = Group(1 << 62)
    try:
        both = [[ours(a, group, path, stores, size, tokens)[0] for size in (1 << 40, 0)]
                for _ in range(max(a.rounds, 5))]
    finally:
        group.close()
    yield "all fit: expert_memory to without", statistics.median(x / y for x, y in both), "1"


def rows(a, path, stores, tokens):
    shape = dict(SHAPE, layers=a.layers)
    experts = int(a.layers * 3 * shape["experts"] * shape["ffn"] * shape["d"] * Q4_0)
    slot = experts // (a.layers * shape["experts"])
    yield "file", os.path.getsize(path) / 1e9, "GB"

    def fio():
        rates = disk_rates(stores, slot, a.prefix)
        return rates and rates[1]

    for share in a.shares:
        for name, value, unit in share_of(a, path, stores, tokens, share, experts, fio):
            yield "%d %% of the experts: %s" % (share, name), value, unit
    if not a.no_fit:
        yield from when_all_fit(a, path, stores, tokens)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--build", default="build")
    p.add_argument("--work", required=True)
    p.add_argument("--venv", required=True)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--shares", default="100,50,25,10")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--sequences", type=int, default=4)
    p.add_argument("--tokens", type=int, default=16, help="of each sequence")
    p.add_argument("--warm", type=int, default=32, help="tokens of the one that warms up")
    p.add_argument("--zipf", action="store_true")
    p.add_argument("--no-peer", action="store_true", help="halod alone")
    p.add_argument("--no-fit", action="store_true", help="not the cost where all fit")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--prefix", default="")
    a = p.parse_args()
    a.shares = [int(s) for s in a.shares.split(",") if s]
    a.prefix = a.prefix.split()
    a.model = os.path.join(a.work, "experts-%d%s.gguf" % (a.layers, "-zipf" * a.zipf))
    os.makedirs(a.work, exist_ok=True)
    path = a.model
    if not os.path.exists(path):
        subprocess.run([os.path.join(a.venv, "bin/python"),
                        os.path.join(HERE, "peers_llama.py"), "make",
                        json.dumps(dict(SHAPE, layers=a.layers, zipf=a.zipf)), "q4_0", path,
                        os.path.join(TOP, "models/halo-tiny")], check=True)
    with tempfile.TemporaryDirectory(dir=a.work) as stores, \
            tempfile.NamedTemporaryFile("w", dir=a.work) as tokens:
        write_tokens(a, tokens)
        _, said = ours_once(a, path, stores)
        print("# " + (re.findall(r"experts: .*", said) or ["no experts in a file"])[0])
        for name, value, unit in rows(a, path, stores, tokens.name):
            print("experts,\"qwen3-30b-a3b shape, %d layers%s, %s\",%.4g,%s"
                  % (a.layers, ", Zipf" * a.zipf, name, value, unit), flush=True)


def ours_once(a, path, stores):
    """The store is made here, outside of any limit."""
    r = subprocess.run([*a.prefix, os.path.join(a.build, "haloctl"), "bench", "model",
                        "--model", path,
                        "--backend", "cpu", "-p", "16", "-n", "2", "--repeat", "1", "--json",
                        "--expert-memory", str(1 << 30), "--expert-dir", stores],
                       capture_output=True, text=True)
    if r.returncode:
        sys.exit("experts_peer.py: haloctl: " + r.stderr[-600:])
    return json.loads(r.stdout), r.stderr


if __name__ == "__main__":
    main()
