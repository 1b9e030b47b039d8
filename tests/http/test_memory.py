#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests for which the system has no memory: each ends with 503, and the daemon and the streams
of others go on. The limit of the address space is set while the daemon runs."""
import base64
import json
import os
import re
import resource
import struct
import zlib

from halod import PROGRAM, SRCDIR, Halod, Tap, run

VISION = os.path.join(SRCDIR, "tests/golden/vision/qwen3vl")
MIB = 1 << 20


def chunk(name, payload):
    part = name + payload
    return struct.pack(">I", len(payload)) + part + struct.pack(">I", zlib.crc32(part))


def png(side):
    """A picture of noise in two colours: an honest one, which pays for its pixels."""
    row = b"\0" + os.urandom(side // 8)
    data = zlib.compress(b"".join(row for _ in range(side)), 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)) +
            chunk(b"IDAT", data) + chunk(b"IEND", b""))


def used(d):
    with open("/proc/%d/status" % d.process.pid) as f:
        return int(re.search(r"VmSize:\s+(\d+) kB", f.read()).group(1)) * 1024


class Tight:
    """While it lasts, the daemon may take only so much more address space."""

    def __init__(self, d, more):
        self.pid, self.limit = d.process.pid, used(d) + more

    def __enter__(self):
        resource.prlimit(self.pid, resource.RLIMIT_AS, (self.limit, resource.RLIM_INFINITY))

    def __exit__(self, *_):
        resource.prlimit(self.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)


def ask(d, path, body):
    return d.request("POST", path, json.dumps(body))


def tokens(stream, n):
    """The next n events of a stream."""
    events = stream.events()
    return [next(events) for _ in range(n)]


def check(t, d, stream, bodies):
    refused = 0
    for what, path, body in bodies:
        for more in (2, 8, 20):
            with Tight(d, more * MIB):
                a = ask(d, path, body)
            refused += a.status == 503
            t.ok(a.status in (200, 503), "%s, %d MiB: refused for want of memory, or answered" % (
                what, more), "%d %s" % (a.status, a.body[:300]))
            if a.status == 503:
                t.ok(a.error["code"] in ("out_of_memory", "body_memory") and
                     a.headers["Retry-After"], "and the client is told to come again", a.body)
            t.equal(len(tokens(stream, 2)), 2, "the stream beside it goes on")
        t.equal(ask(d, path, body).status, 200, what + ": answered where there is memory")
    t.ok(refused >= len(bodies), "of them %d were refused" % refused)


def test_bodies(t, d):
    s = d.long_stream()
    ask(d, "/tokenize", {"content": "a"})
    check(t, d, s, (
        ("a long text", "/tokenize", {"content": "ab " * 1500000}),
        ("many numbers", "/tokenize", {"content": "a", "metadata": list(range(600000))}),
        ("one long word", "/tokenize", {"content": "x" * 3000000}),
        ("a long answer", "/tokenize", {"content": "1 " * 400000, "with_pieces": True}),
        ("a long chat", "/apply-template", {"messages": [{"role": "user", "content": "é" * 800000}]}),
        ("many messages", "/apply-template", {"messages": [
            {"role": ("user", "assistant")[i % 2], "content": "hi " * 50} for i in range(9000)]})))
    s.close()


def test_image(t, _):
    d = Halod(model=VISION)
    try:
        s = d.stream("Tell me a story.", ignore_eos=True, temperature=0, max_tokens=400)
        url = "data:image/png;base64," + base64.b64encode(png(4000)).decode()
        parts = [{"type": "image_url", "image_url": {"url": url}}]
        check(t, d, s, (("a large image", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": parts}], "max_tokens": 1}),))
        s.close()
    finally:
        t.equal(d.stop(), 0, "halod ends well")


if os.path.exists(PROGRAM) and b"__asan_init" in open(PROGRAM, "rb").read():
    t = Tap()
    t.skip("AddressSanitizer's memory is beyond the limit")
    t.done()
run([test_bodies, test_image], max_seqs=2)
