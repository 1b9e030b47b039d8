#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""https: answers, streams, clients that go away; and certificates that cannot be used.
Skipped without the openssl program, which makes the certificates."""
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile

from halod import PATIENCE, PROGRAM, MODEL, Halod, Stream, run

if not shutil.which("openssl"):
    print("1..0 # SKIP there is no openssl here")
    sys.exit(0)
where = tempfile.mkdtemp(prefix="halod-tls-")


def make(name):
    cert, key = (os.path.join(where, name + "." + kind) for kind in ("crt", "key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


CERT, KEY = make("one")
OTHER_CERT, OTHER_KEY = make("two")


class Tls(Halod):
    def connect(self):
        trust = ssl.create_default_context(cafile=CERT)
        conn = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                           context=trust)
        conn.connect()
        return conn


def test_answers(t, d):
    t.equal(d.get("/health?ready").status, 200, "a page")
    a = d.chat("Hello", max_tokens=8, temperature=0)
    t.equal(a.status, 200, "a chat")
    s = d.stream("Hello", max_tokens=8, temperature=0)
    text = "".join(c["delta"].get("content") or "" for e in s.events() if e != "[DONE]"
                   for c in e["choices"])
    s.close()
    t.ok(text in a.json["choices"][0]["message"]["content"] or not text, "a stream", text)
    big = d.request("POST", "/tokenize", {"content": "word " * 200000})
    t.equal((big.status, big.json["count"] > 100000), (200, True), "a megabyte both ways")
    conn = d.connect()
    for _ in range(3):
        conn.request("GET", "/v1/models")
        t.equal(conn.getresponse().read() != b"", True, "one connection, several requests")
    conn.close()
    t.ok("https://127.0.0.1:" in d.wait_log("listening on"), "the log says https")


def test_leaves(t, d):
    s = d.long_stream()
    d.wait_metrics(num_requests_running=1)
    s.close()
    d.wait_metrics(num_requests_running=0)
    t.ok(True, "a client that goes away ends its request")


def test_plain(t, d):
    with d.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as s:
        try:
            data = s.recv(100)
        except OSError:
            data = b""
    t.ok(not data.startswith(b"HTTP/"), "without TLS there is no answer", data)
    t.equal(d.get("/health").status, 200, "and the others do not mind")


def test_faults(t, d):
    empty = os.path.join(where, "empty")
    open(empty, "w").close()
    for args, says in (
            ((CERT, ""), "tls_key is not set"), (("", KEY), "tls_cert is not set"),
            (("/nowhere", KEY), "/nowhere"), ((CERT, empty), "not in PEM"),
            ((KEY, KEY), "no \"-----BEGIN CERTIFICATE"),
            ((CERT, OTHER_KEY), "not of each other")):
        p = subprocess.run([PROGRAM, "--port", "0", "--model", MODEL, "--tls-cert",
                            args[0], "--tls-key", args[1]], capture_output=True,
                           text=True, timeout=PATIENCE)
        t.ok(p.returncode != 0 and says in p.stderr, "refused: " + says,
             (p.returncode, p.stderr[-300:]))


import halod  # the class that run() starts
halod.Halod = Tls
try:
    run([test_answers, test_leaves, test_plain, test_faults], tls_cert=CERT, tls_key=KEY)
finally:
    shutil.rmtree(where, ignore_errors=True)
