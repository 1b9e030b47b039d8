#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode speed with experts in a file (expert_memory), as a ratio to all experts in memory.

Runs haloctl bench model in alternation: all in memory, then each share of the experts. The
median of the ratios counts, so that what else the machine does matters less. Hit rate, bytes
a token, and the rate of reading come from one run of a daemon that writes as many tokens: by
all of its time, and by the time that steps waited.

    tests/bench/experts.py -b build -m models/halo-tiny >experts.csv
"""
import argparse
import http.client
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SHARES = (100, 50, 25, 10)


def bench(a, folder, size):
    """What haloctl printed, as JSON, and what it said on stderr."""
    more = ["--expert-memory", str(size), "--expert-dir", folder] if size else []
    r = subprocess.run([os.path.join(a.build, "haloctl"), "bench", "model", "--model", a.model,
                        "--backend", "cpu", "-p", "64", "-n", str(a.tokens), "--repeat", "1",
                        "--json", *more], capture_output=True, text=True)
    if r.returncode:
        sys.exit("experts.py: haloctl: " + r.stderr)
    return json.loads(r.stdout), r.stderr


def slots(a, folder):
    """(bytes of a slot, experts) from the head of the store."""
    _, said = bench(a, folder, 1 << 40)
    m = re.search(r"experts: (\d+) of .*; (\d+) experts of", said)
    path = [f for f in os.listdir(folder) if f.endswith(".halod-experts")][0]
    n = int(m.group(1))
    return os.path.getsize(os.path.join(folder, path)) // n, n


def note_of(folder):
    """(file of the experts, depth and size of reads, bytes a second that halod measured with
    them). None: no fio, or nothing was measured."""
    note = [f for f in os.listdir(folder) if f.endswith(".depth")]
    if not note or not shutil.which("fio"):
        return None
    path = os.path.join(folder, note[0])
    with open(path) as f:
        m = re.match(r"store \S+ depth (\d+) piece (\d+) bytes_a_second (\d+)", f.read())
    return path[:-len(".depth")], *map(int, m.groups())


def fio(path, depth, size, before=()):
    """Bytes a second of random reads of so many bytes, so many at a time."""
    r = subprocess.run([*before, "fio", "--name=experts", "--filename=" + path,
                        "--readonly", "--direct=1", "--rw=randread", "--bs=%d" % size,
                        "--iodepth=%d" % depth, "--ioengine=io_uring", "--runtime=4",
                        "--fixedbufs=1", "--registerfiles=1",
                        "--time_based", "--output-format=terse"], capture_output=True,
                       text=True)
    return float(r.stdout.split(";")[6]) * 1024  # KiB a second of reads


def disk_rates(folder, slot, before=()):
    """Bytes a second: the rate that halod measured when it chose depth and size of its reads,
    and fio's on the same file with the same two. None: no fio, or nothing was measured."""
    note = note_of(folder)
    if not note:
        return None
    path, depth, piece, rate = note
    return float(rate), fio(path, depth, min(slot // 4096 * 4096, piece), before)


def layer_rate(a, folder, slot, misses):
    """(reads, fio's rate with so many at a time) as a layer asks for, which waits for all of
    them before the next one asks. None: as above."""
    note = note_of(folder)
    with open(os.path.join(a.model, "config.json")) as f:
        layers = json.load(f)["num_hidden_layers"]
    if not note or not misses:
        return None
    size = min(slot // 4096 * 4096, note[2])
    reads = math.ceil(misses / layers / a.tokens) * math.ceil(slot // 4096 * 4096 / size)
    return reads, fio(note[0], min(reads, note[1]), size)


class Daemon:
    """halod with expert_memory, for its metrics."""

    def __init__(self, a, folder, size, before=(), **more):
        self.p = subprocess.Popen(
            [*before, os.path.join(a.build, "halod"), "-c", "/dev/null", "--model", a.model,
             "--port", "0", "--backend", "cpu", "--expert-memory", str(size), "--expert-dir",
             folder, "--no-prefix-cache"], stderr=subprocess.PIPE, text=True, **more)
        self.port = 0
        for line in self.p.stderr:
            m = re.search(r"127\.0\.0\.1:(\d+)", line)
            self.port = int(m.group(1)) if m else self.port
            if self.port and self.is_ready():
                break
        # Nobody reads what it says afterwards.
        threading.Thread(target=self.p.stderr.read, daemon=True).start()

    def is_ready(self):
        for _ in range(600):
            if json.loads(self.ask("GET", "/health")[1])["ready"]:
                return True
            time.sleep(0.1)
        return False

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request(method, path, json.dumps(body) if body else None,
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, r.read().decode()

    def write(self, body):
        status, text = self.ask("POST", "/v1/completions", body)
        if status != 200:
            sys.exit("experts.py: halod: %d %s" % (status, text))
        return json.loads(text)

    def metrics(self, *names):
        text = self.ask("GET", "/metrics")[1]
        return [float(re.search(r"^halod_%s\S* (\S+)$" % n, text, re.M).group(1))
                for n in names]

    def end(self):
        self.p.terminate()
        self.p.wait()

    def counters(self):
        return self.metrics("expert_hits_total", "expert_misses_total",
                            "expert_read_bytes_total", "expert_wait_seconds_total")


def use(a, folder, size):
    """(hit rate, bytes a token, bytes a second, bytes by second of waiting, misses, seconds
    until a step that waits goes on) of a daemon with so much expert_memory."""
    d = Daemon(a, folder, size)
    try:
        return use_of(d, a)
    finally:
        d.end()


def use_of(d, a):
    """The same, of text that the model writes."""
    body = {"prompt": "Once upon a time there was a small town by the sea.",
            "max_tokens": a.tokens, "ignore_eos": True, "temperature": 1, "seed": 1}
    d.write(body)  # fills the slots
    before, begin = d.counters(), time.monotonic()
    d.write({**body, "seed": 2})
    seconds = time.monotonic() - begin
    hits, misses, read, wait = (y - x for x, y in zip(before, d.counters()))
    uses = hits + misses  # none are counted where all experts have room
    return (hits / uses if uses else 1, read / a.tokens, read / seconds, wait and read / wait,
            misses, *d.metrics("expert_wake_seconds"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--build", default="build")
    p.add_argument("-m", "--model", default="models/halo-tiny")
    p.add_argument("-n", "--tokens", type=int, default=256)
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("-d", "--dir", help="folder for the experts' file")
    a = p.parse_args()
    name = os.path.basename(os.path.normpath(a.model))
    with tempfile.TemporaryDirectory(dir=a.dir) as folder:
        slot, n = slots(a, folder)
        rates = disk_rates(folder, slot)
        if rates:
            print("experts,%s read rate to fio,%.3f,1" % (name, rates[0] / rates[1]))
        ratios = {s: [] for s in SHARES}
        for _ in range(a.rounds):
            for s in SHARES:
                plain = bench(a, folder, 0)[0]["decode_tps"]
                size = max(n * s // 100, 1) * slot + slot // 2
                ratios[s].append(bench(a, folder, size)[0]["decode_tps"] / plain)
        for s in SHARES:
            size = max(n * s // 100, 1) * slot + slot // 2
            hits, read, rate, waiting, misses, wake = use(a, folder, size)
            print("experts,%s %d %% hit rate,%.4f,1" % (name, s, hits))
            print("experts,%s %d %% bytes a token,%.0f,B" % (name, s, read))
            if read:
                print("experts,%s %d %% median wake,%.1f,us" % (name, s, wake * 1e6))
            if rates and read:
                print("experts,%s %d %% read rate while decoding to fio,%.3f,1"
                      % (name, s, rate / rates[1]))
                print("experts,%s %d %% read rate while waiting to fio,%.3f,1"
                      % (name, s, waiting / rates[1]))
            layer = layer_rate(a, folder, slot, misses)
            if layer:
                print("experts,%s %d %% read rate while waiting to fio with %d at a time,%.3f,1"
                      % (name, s, layer[0], waiting / layer[1]))
            print("experts,%s %d %% decode to all in memory,%.3f,1"
                  % (name, s, statistics.median(ratios[s])))


if __name__ == "__main__":
    main()
