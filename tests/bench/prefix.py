#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TTFT of a follow-up turn: its history warm in memory, on disk after a restart, or cold.

    prefix.py [--build DIR] [--rounds N] [--new N] --model DIR [--name NAME] TOKENS…

Each round, for each number of TOKENS: a history of so many tokens is computed (cold), and a
turn of --new tokens behind it is answered from memory (warm). halod is restarted, the page
cache gives up the files, and the same turn is answered from disk (disk). The new tokens alone
(alone) and reading the files' bytes by themselves (read) are measured in the same round, so
the ratios are of alternating runs. Prints CSV: medians of the rounds in ms, and of the ratios
within a round."""
import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


def ttft(d, prompt):
    t = d.request("POST", "/v1/completions", {
        "prompt": prompt, "max_tokens": 1, "temperature": 0}).json["timings"]
    return t["ttft_ms"], t


def drop(folder):
    """The files are to come from the disk again."""
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read_ms(folder, n_bytes):
    """To read about so many bytes of the files, which are not in the page cache."""
    start, left = time.monotonic(), n_bytes
    for name in sorted(os.listdir(folder)):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        while left > 0 and (piece := os.read(fd, 1 << 24)):
            left -= len(piece)
        os.close(fd)
    return (time.monotonic() - start) * 1e3


def one_round(o, n, rnd):
    draw = lambda k: [rnd.randrange(o.vocab) for _ in range(k)]
    history, new = draw(n), draw(o.new)
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"model": o.model, "kv_dir": folder, "max_seqs": 1, "ctx": n + o.new + 64}
        d = Halod(**settings)
        ttft(d, draw(64)) # the first request finds cold caches of other kinds
        out["cold"], t = ttft(d, history + draw(o.new))
        assert t["cache_n"] == 0, t
        out["warm"], t = ttft(d, history + new)
        assert t["cache_n"] >= n - 16 and t["disk_n"] == 0, t
        out["alone"], _ = ttft(d, draw(o.new))
        d.stop()
        drop(folder)
        d = Halod(**settings)
        ttft(d, draw(64))
        out["disk"], t = ttft(d, history + new)
        assert t["disk_n"] >= n - 16, t
        n_bytes = d.metrics()["kv_disk_read_bytes_total"]
        out["mib"] = n_bytes / (1 << 20)
        d.stop()
        drop(folder)
        out["read"] = read_ms(folder, n_bytes)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(TOP, "build"))
    p.add_argument("--model", required=True)
    p.add_argument("--name", default="")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--new", type=int, default=128)
    p.add_argument("--vocab", type=int, default=300)
    p.add_argument("tokens", type=int, nargs="+")
    o = p.parse_args()
    os.environ["HALOD_BUILDDIR"], os.environ["HALOD_SRCDIR"] = o.build, TOP
    sys.path.insert(0, os.path.join(TOP, "tests", "http"))
    global Halod
    import halod
    halod.PATIENCE = 1800 # a prompt may be long and the machine slow
    Halod = halod.Halod
    commit = subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%h,%cs"], check=True,
                            capture_output=True, text=True).stdout.strip()
    name = o.name or os.path.basename(os.path.abspath(o.model))
    rounds = {n: [] for n in o.tokens}
    for i in range(o.rounds):
        for n in o.tokens:
            rounds[n].append(one_round(o, n, random.Random(1000 * i + n)))
    for n, got in rounds.items():
        def row(case, unit, value):
            print("%s,%s,%s behind %d,%.4g,%s"
                  % (commit, case, name, n, statistics.median(map(value, got)), unit))
        for case in ("cold", "warm", "disk", "alone", "read"):
            row(case, "ms", lambda r, case=case: r[case])
        row("disk-bytes", "MiB", lambda r: r["mib"])
        row("cold/disk", "ratio", lambda r: r["cold"] / r["disk"])
        row("disk/(read+warm)", "ratio", lambda r: r["disk"] / (r["read"] + r["warm"]))
        row("disk/read", "ratio", lambda r: r["disk"] / r["read"])
        row("warm/alone", "ratio", lambda r: r["warm"] / r["alone"])


if __name__ == "__main__":
    main()
