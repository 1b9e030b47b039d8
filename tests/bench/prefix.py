#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TTFT of a follow-up turn: its history warm in memory, on disk after a restart, or cold.

    prefix.py [--build DIR] [--rounds N] [--new N] [--set KEY=VALUE]… [--bench ARGUMENTS]
              [--store DIR] --model DIR [--name NAME] TOKENS…

Each round, for each number of TOKENS: a history of so many tokens is computed (cold), and a
turn of --new tokens behind it is answered from memory (warm), when all has been written.
halod is restarted, the page cache gives up the files, and another turn is answered from disk
(disk). In the same round the new tokens are computed behind so many tokens without a daemon
(alone: `haloctl bench model -d TOKENS`, with --bench, "no": left out), and the files' bytes are
read by themselves (read), past the page cache where the disk allows it. So the ratios are of
alternating runs. With --store the files stay in DIR. A later run with the same DIR computes no
history again: it measures the disk, and then the memory. --set is a line of halod.conf. Prints
CSV: medians of the rounds in ms, and of the ratios within a round."""
import argparse
import contextlib
import json
import mmap
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
    """To read about so many bytes of the files, in pieces of 16 MiB."""
    room = mmap.mmap(-1, 1 << 24)
    room.write(b"1" * len(room))
    start, left = time.monotonic(), n_bytes
    for name in sorted(os.listdir(folder)):
        path, at = os.path.join(folder, name), 0
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            fd = os.open(path, os.O_RDONLY)
        while left > 0 and (n := os.preadv(fd, [room], at)):
            at, left = at + n, left - n
            if n % 4096: # the file's end
                break
        os.close(fd)
    return (time.monotonic() - start) * 1e3


def alone_ms(o, n):
    out = subprocess.run([os.path.join(o.build, "haloctl"), "bench", "model", "-m", o.model,
                          "-p", str(o.new), "-d", str(n), "-n", "1", "-r", "1", "--json",
                          "--depth-copies",
                          *o.bench.split()], check=True, capture_output=True, text=True)
    return o.new / json.loads(out.stdout)["prefill"][str(o.new)] * 1e3


def settle(d):
    """Until all that is to be written is written."""
    before = -1
    while (m := d.metrics())["kv_disk_queued_bytes"] or before != m["kv_disk_files"]:
        before = m["kv_disk_files"]
        time.sleep(0.3)


def warm_turn(d, history, turn):
    """What has just been computed or read is in memory."""
    ms, t = ttft(d, history + turn)
    assert t["cache_n"] >= len(history) - 16 and t["disk_n"] == 0, t
    settle(d)
    return ms


def draw(o, rnd, n):
    return [rnd.randrange(o.vocab) for _ in range(n)]


def one_round(o, seed):
    """Histories are those of the seed. Turns differ each time, as a store keeps old ones."""
    histories = {n: draw(o, random.Random("%d %d" % (seed, n)), n) for n in o.tokens}
    turns = random.Random()
    out = {n: {} for n in o.tokens}
    with contextlib.ExitStack() as stack:
        folder = o.store or stack.enter_context(tempfile.TemporaryDirectory())
        is_new = not o.store or not os.path.isdir(folder)
        settings = {"model": o.model, "kv_dir": folder, "max_seqs": 1,
                    "ctx": max(o.tokens) + o.new + 64, "kv_disk_limit": "60G",
                    **dict(s.split("=", 1) for s in o.set)}
        if is_new:
            d = Halod(**settings)
            ttft(d, draw(o, turns, 64)) # the first request finds cold caches of other kinds
            for n, history in histories.items():
                out[n]["cold"], t = ttft(d, history)
                assert t["cache_n"] == 0, t
                settle(d)
                out[n]["warm"] = warm_turn(d, history, draw(o, turns, o.new))
            d.stop()
        drop(folder)
        d = Halod(**settings)
        ttft(d, draw(o, turns, 64))
        for n, history in histories.items():
            before = d.metrics()["kv_disk_read_bytes_total"]
            out[n]["disk"], t = ttft(d, history + draw(o, turns, o.new))
            if t["disk_n"] < n - 16: # computing was thought to be faster
                print("# of %d tokens %d came from the disk" % (n, t["disk_n"]), flush=True)
            n_bytes = d.metrics()["kv_disk_read_bytes_total"] - before
            out[n]["mib"] = n_bytes / (1 << 20)
            if not is_new:
                settle(d)
                out[n]["warm"] = warm_turn(d, history, draw(o, turns, o.new))
        d.stop()
        for n in o.tokens:
            drop(folder)
            out[n]["read"] = read_ms(folder, out[n]["mib"] * (1 << 20))
    for n in o.tokens if o.bench != "no" else []:
        out[n]["alone"] = alone_ms(o, n)
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
    p.add_argument("--store")
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--bench", default="")
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
    rounds = [one_round(o, 0 if o.store else i) for i in range(o.rounds)]
    for n in o.tokens:
        got = [r[n] for r in rounds]
        def row(case, unit, value):
            print("%s,%s,%s behind %d,%.4g,%s"
                  % (commit, case, name, n, statistics.median(map(value, got)), unit))
        for case in ("cold", "warm", "disk", "read", "alone"):
            if case in got[0]:
                row(case, "ms", lambda r, case=case: r[case])
        row("disk-bytes", "MiB", lambda r: r["mib"])
        if "cold" in got[0]:
            row("cold/disk", "ratio", lambda r: r["cold"] / r["disk"])
        row("disk/(read+warm)", "ratio", lambda r: r["disk"] / (r["read"] + r["warm"]))
        if "alone" in got[0]:
            row("disk/(read+alone)", "ratio", lambda r: r["disk"] / (r["read"] + r["alone"]))
            row("warm/alone", "ratio", lambda r: r["warm"] / r["alone"])


if __name__ == "__main__":
    main()
