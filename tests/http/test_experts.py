#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""expert_memory: answers are those of a daemon that keeps all experts in memory. A file that
was cut short under a daemon fails the requests that need it, and nothing else."""
import os
import shutil
import sys
import tempfile

from halod import Halod, Tap

TAP = Tap()
ASK = {"prompt": [5, 17, 3, 40, 8, 120, 77], "max_tokens": 24, "temperature": 0,
       "ignore_eos": True, "logprobs": 1}


def answer(d):
    r = d.request("POST", "/v1/completions", ASK)
    return r.status, r.json


def numbers(reply):
    return reply["choices"][0]["logprobs"]["token_logprobs"]


def test_answers(t, folder, want):
    with tempfile.TemporaryDirectory() as empty:
        d = Halod(backend="cpu", expert_memory="1500K", expert_dir=empty, profile="yes")
        made = sorted(os.path.splitext(f)[1] for f in os.listdir(empty))
        t.equal(made[-1], ".halod-experts", "the file was made")
        t.ok(set(made[:-1]) <= {".depth"}, "beside it at most what the disk can do", made)
        d.stop()
    d = Halod(backend="cpu", expert_memory="1500K", expert_dir=folder, profile="yes")
    status, reply = answer(d)
    t.equal(status, 200, "an answer")
    t.equal(numbers(reply), want, "with the bits of experts that stay in memory")
    m = d.metrics()
    t.ok(m["expert_misses_total"] > 0 and m["expert_hits_total"] > 0 and
         m["expert_read_bytes_total"] > 0 and 4 < m["expert_slots"] < 60,
         "/metrics counts uses and bytes")
    io = [v for k, v in m.items() if k.startswith("stage_") and 'stage="io"' in k]
    t.ok(len(io) == 2 and all(v > 0 for v in io),
         "the stage io has time and bytes", io)
    d.stop()


def test_fault(t, folder, want):
    d = Halod(backend="cpu", expert_memory="1500K", expert_dir=folder, prefix_cache="no")
    path = [os.path.join(folder, f) for f in os.listdir(folder)
            if f.endswith(".halod-experts")][0]
    t.equal(numbers(answer(d)[1]), want, "a second start uses the file")
    with open(path, "rb") as f:
        kept = f.read()
    os.truncate(path, len(kept) // 8)
    for i in range(5):  # more often than a broken backend may fail
        status, reply = answer(d)
        t.equal(status, 500, "cut short: the request fails")
        t.ok("expert" in reply["error"]["message"] and folder not in str(reply),
             "the message says why, and no path", reply)
    t.equal(d.request("GET", "/health").status, 200, "the daemon is well")
    t.ok(d.metrics()["expert_read_errors_total"] > 0, "/metrics counts the errors")
    with open(path, "r+b") as f:
        f.write(kept)
    status, reply = answer(d)
    t.equal(status, 200, "the bytes are back: an answer")
    t.equal(numbers(reply), want, "and the right one")
    shutil.copy(path, path + ".new")
    os.truncate(path + ".new", 4096)
    os.replace(path + ".new", path)
    t.equal(numbers(answer(d)[1]), want, "replaced under the daemon: it keeps the old file")
    d.stop()
    d = Halod(backend="cpu", expert_memory="1500K", expert_dir=folder)
    t.equal(numbers(answer(d)[1]), want, "the next start makes it anew")
    d.stop()


def main():
    d = Halod(backend="cpu")
    want = numbers(answer(d)[1])
    d.stop()
    with tempfile.TemporaryDirectory() as folder:
        test_answers(TAP, folder, want)
        test_fault(TAP, folder, want)
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())
