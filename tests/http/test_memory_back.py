#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that many requests took comes back when they are over: with unified memory the GPU
needs it."""
import json
import threading
import time

from halod import PATIENCE, Halod, Tap

THREADS, EACH = 16, 12
MARGIN = 1.4


def resident(d):
    with open("/proc/%d/status" % d.process.pid, encoding="ascii") as f:
        return next(int(l.split()[1]) / 1024 for l in f if l.startswith("RssAnon"))


def schema(i):
    names = {"k%d_%d" % (i, j): {"type": "string", "pattern": "^[a-z]{%d,%d}$" % (1 + j, 20 + j)}
             for j in range(20)}
    return {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "object", "properties": names}}}


def ask(d, i):
    """One request of each kind that takes much memory on a worker, or little for long."""
    if i % 4 == 0:  # refused as too long, after it was read
        d.chat([{"type": "text", "text": "a"}] * 20000)
    elif i % 4 == 1:
        d.chat("x" * 1000000)
    elif i % 4 == 2:
        d.chat("Hi", max_tokens=4, response_format=schema(i % 8))
    else:
        d.request("POST", "/v1/responses", json.dumps({"input": "Hi " * 100,
                                                       "max_output_tokens": 4}),
                  {"Content-Type": "application/json"})


def at_once(calls, watch=lambda: time.sleep(0.05)):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        watch()


def wave(d):
    seen = []

    def run():
        for i in range(EACH):
            ask(d, i)

    def watch():
        seen.append(resident(d))
        time.sleep(0.05)
    at_once([run] * THREADS, watch)
    return max(seen)


def main():
    t = Tap()
    d = Halod(max_queue=256, prefix_cache="no", kv_cache="20M")
    # Fills what stays on purpose: the KV cache, by eight long prompts at once, and other caches.
    at_once([lambda: d.chat("word " * 1500, max_tokens=2)] * 8)
    for i in range(8):
        ask(d, i)
    before, most, deadline = resident(d), 0, time.monotonic() + PATIENCE
    # How many calls are inside at once is the machine's choice: waves until their memory shows.
    while most <= MARGIN * before and time.monotonic() < deadline:
        most = max(most, wave(d))
    t.ok(most > MARGIN * before, "requests take more memory than may stay", (before, most))
    after, deadline = resident(d), time.monotonic() + PATIENCE
    while after > MARGIN * before and time.monotonic() < deadline:
        time.sleep(0.1)
        after = resident(d)
    t.ok(after <= MARGIN * before, "and give it back, but for two fifths", (before, most, after))
    print("# MB before, at most, after: %.1f, %.1f, %.1f" % (before, most, after))
    t.equal(d.stop(), 0, "halod ends well")
    t.done()


main()
