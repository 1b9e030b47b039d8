#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight clients at once, each with a fixed list of requests of every kind: whole and
streamed, left in the middle, broken, large, and looks at /metrics and /health. Small
enough for ThreadSanitizer, under which test.sh runs it."""
import random
import threading

from halod import CHECK, USUAL, run

CLIENTS = 8
EACH = 7 if "races" in CHECK else 12  # seven: of every kind one


def whole(d, r):
    return d.chat("Count to %d." % r.randrange(99), max_tokens=6).status == 200


def stream(d, r):
    s = d.stream("Say %d." % r.randrange(99), max_tokens=6)
    return s.status == 200 and list(s.events())[-1] == "[DONE]"


def left(d, r):
    s = d.stream("Tell me a story.", max_tokens=2000, ignore_eos=True)
    for _, _ in zip(range(r.randrange(1, 5)), s.events()):
        pass
    s.close()
    return True


def broken(d, r):
    return d.request("POST", "/v1/chat/completions", "{" * r.randrange(9)).status == 400


def large(d, r):
    """Parsed on another thread."""
    return d.request("POST", "/v1/completions",
                     '{"prompt":"a","max_tokens":2}' + " " * 100000).status == 200


def left_large(d, r):
    body = b'{"prompt":"a"}' + b" " * 200000
    d.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" %
          (len(body), body)).close()
    return True


def look(d, r):
    return d.metrics() and d.get("/health").status == 200


KINDS = [whole, stream, left, broken, large, left_large, look]


def test_load(t, d):
    bad = []

    def client(n):
        r = random.Random(n)
        for i in range(EACH):
            kind = KINDS[(n + i) % len(KINDS)]
            try:
                if not kind(d, r):
                    bad.append(kind.__name__)
            except Exception as e:
                bad.append("%s: %r" % (kind.__name__, e))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    t.equal(bad, [], "%d requests of %d clients" % (CLIENTS * EACH, CLIENTS))
    d.wait_metrics(num_requests_running=0, num_requests_waiting=0)
    t.ok(True, "nothing is left of them")
    t.equal(d.chat("Hi", max_tokens=2).status, 200, "and it still answers")


run([test_load], **USUAL)
