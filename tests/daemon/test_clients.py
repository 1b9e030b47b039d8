#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight clients at once: plain, streaming, with bodies that worker threads parse, and
gone in the middle. Meant for ThreadSanitizer above all; the sums must be right anyway."""
import threading

from daemon import Daemon, Tap

N_CLIENTS = 8
LARGE = {"user": "x" * 40000}  # beyond what is parsed on the io thread


def client(d, faults):
    try:
        a = d.chat(max_tokens=8)
        if a.status != 200:
            faults.append(a.body)
        events = list(d.stream(max_tokens=8, n=2, **LARGE).events())
        if events[-1] != "[DONE]":
            faults.append(events)
        d.long_stream().close()
        a = d.chat(max_tokens=-2, **LARGE)
        if a.status != 400:
            faults.append(a.body)
    except Exception as e:  # a thread's own exception would go unseen
        faults.append(repr(e))


def main():
    t = Tap()
    with Daemon() as d:
        faults = []
        threads = [threading.Thread(target=client, args=(d, faults))
                   for _ in range(N_CLIENTS)]
        for c in threads:
            c.start()
        for c in threads:
            c.join()
        t.equal(faults, [], "eight clients get what they ask for")
        # The engine is rid of a request before the io thread has counted its end.
        d.wait_metrics(client_disconnects_total=N_CLIENTS, num_requests_running=0,
                       num_requests_waiting=0)
        m = d.metrics()
        t.equal(m["client_disconnects_total"], N_CLIENTS,
                "each client that went away is noticed")
        t.equal(m['request_success_total{finished_reason="abort"}'], N_CLIENTS,
                "its request is ended")
        t.equal(sum(v for k, v in m.items() if k.startswith("request_success_total")),
                3 * N_CLIENTS, "every request is accounted for")
        d.terminate()
        t.equal(d.wait(), 0, "the daemon stops")
    t.done()


main()
