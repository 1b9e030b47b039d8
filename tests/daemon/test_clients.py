#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight clients at once: plain, streaming, with bodies that worker threads parse, and
gone in the middle. Meant for ThreadSanitizer above all; the sums must be right anyway."""
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests"))
from halod import TIMEOUT, Halod, done, equal, events, ok

N_CLIENTS = 8
LARGE = {"user": "x" * 40000}  # beyond what is parsed on the io thread


def client(d, faults):
    try:
        status, _, body = d.chat("Hello", max_tokens=8)
        if status != 200 or not 0 < body["usage"]["completion_tokens"] <= 8:
            faults.append(body)
        chunks = list(events(d.stream("Hello", max_tokens=8, n=2, **LARGE)))
        if chunks[-1] != "[DONE]":
            faults.append(chunks)
        gone = d.stream("Hello", ignore_eos=True)
        next(events(gone))
        gone.close()
        status, _, body = d.chat("Hello", max_tokens=-1, **LARGE)
        if status != 400:
            faults.append(body)
    except Exception as e:  # a thread's own exception would go unseen
        faults.append(repr(e))


def metric(d, name, label=""):
    page = d.get("/metrics")[2].decode()
    return sum(float(v) for v in re.findall(rf"^halod_{name}\{{.*{label}.*\}} (\S+)$",
                                            page, re.M))


def wait_idle(d):
    deadline = time.monotonic() + TIMEOUT
    while metric(d, "num_requests_running") or metric(d, "num_requests_waiting"):
        if time.monotonic() > deadline:
            raise TimeoutError("requests of clients that went away run on")


def main():
    with Halod() as d:
        faults = []
        threads = [threading.Thread(target=client, args=(d, faults))
                   for _ in range(N_CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        ok(not faults, "eight clients get what they ask for", *faults)
        wait_idle(d)
        equal(metric(d, "client_disconnects_total"), N_CLIENTS,
              "each client that went away is noticed")
        equal(metric(d, "request_success_total"), 3 * N_CLIENTS,
              "and every request is accounted for: plain, streamed, cut off")
        equal(metric(d, "request_success_total", "abort"), N_CLIENTS, "as abort")
        d.kill()
        equal(d.wait_exit(), 0, "the daemon stops")
    done()


main()
