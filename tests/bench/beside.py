#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A prompt beside streams: its tokens a second, and the worst gap between two tokens of the
streams while it is read.

    tests/bench/beside.py PORT TOKENS [STREAMS...]     (0 1 4)

A halod must listen on the port, with prefix_cache = off. Prompts are random letters, and
answers go on past their end. Two prompts go first, so that halod knows what a step costs."""
import http.client
import json
import random
import sys
import threading
import time

PORT, TOKENS = int(sys.argv[1]), int(sys.argv[2])
STREAMS = [int(n) for n in sys.argv[3:]] or [0, 1, 4]
ANSWER, BEFORE, LETTERS = 1500, 40, "abcdefghijklmnopqrstuvwxyz"
RANDOM = random.Random(3)


def words(n):
    return " ".join("".join(RANDOM.choices(LETTERS, k=4)) for _ in range(n))


def ask(text, n, **more):
    conn = http.client.HTTPConnection("127.0.0.1", PORT, timeout=600)
    body = {"prompt": text, "max_tokens": n, "temperature": 0, **more}
    conn.request("POST", "/v1/completions", json.dumps(body),
                 {"Content-Type": "application/json"})
    return conn.getresponse()


def stream(times):
    for line in ask(words(8), ANSWER, stream=True, ignore_eos=True):
        if line.startswith(b"data: {"):
            times.append(time.monotonic())


def prompt():
    begin = time.monotonic()
    usage = json.loads(ask(words(TOKENS // 3), 1).read())["usage"]
    return begin, time.monotonic(), usage["prompt_tokens"]


def beside(n_streams):
    times = [[] for _ in range(n_streams)]
    threads = [threading.Thread(target=stream, args=(t,)) for t in times]
    for t in threads:
        t.start()
    while any(t.is_alive() and len(seen) < BEFORE for t, seen in zip(threads, times)):
        time.sleep(0.005)
    begin, end, n = prompt()
    for t in threads:
        t.join()
    gaps = [b - a for t in times for a, b in zip(t, t[1:]) if a <= end and b >= begin]
    rows = [("prompt", n / (end - begin), "tokens/s")]
    if gaps:
        rows.append(("worst gap", max(gaps) * 1e3, "ms"))
    for what, value, unit in rows:
        print('beside,"%d streams, %s of %d tokens",%.4g,%s' % (n_streams, what, n, value, unit),
              flush=True)


prompt()
prompt()
for streams in STREAMS:
    beside(streams)
