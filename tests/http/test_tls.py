#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""https: answers, streams, clients that go away; and certificates that cannot be used.
Skipped without the openssl program, which makes the certificates."""
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile

from halod import PATIENCE, PROGRAM, MODEL, Halod, Stream, read_all, run

if not shutil.which("openssl"):
    print("1..0 # SKIP there is no openssl here")
    sys.exit(0)
where = tempfile.mkdtemp(prefix="halod-tls-")


def make(name, *kind):
    kind = kind or ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    cert, key = (os.path.join(where, name + "." + kind) for kind in ("crt", "key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def make_dated(key, begin, end):
    """A certificate for these days, of which today is none."""
    base = os.path.join(where, end)
    with open(base + ".cnf", "w") as f:
        f.write("[ca]\ndefault_ca = a\n[a]\ndatabase = %s.index\nnew_certs_dir = %s\n"
                "default_md = sha256\nrand_serial = yes\npolicy = p\n"
                "[p]\ncommonName = supplied\n" % (base, where))
    open(base + ".index", "w").close()
    for command in (["req", "-new", "-key", key, "-subj", "/CN=localhost", "-out", base + ".csr"],
                    ["ca", "-batch", "-config", base + ".cnf", "-selfsign", "-notext", "-keyfile",
                     key, "-in", base + ".csr", "-startdate", begin + "000000Z", "-enddate",
                     end + "000000Z", "-out", base + ".crt"]):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return base + ".crt"


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
    with d.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as s:
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
    for begin, end, says in (
            ("20200101", "20210203", "has expired on 2021-02-03: clients will refuse it"),
            ("29000101", "29010101", "begins on 2900-01-01: until then clients will refuse it")):
        dated = make_dated(KEY, begin, end)
        p = subprocess.run([PROGRAM, "--check-config", "--model", MODEL, "--tls-cert", dated,
                            "--tls-key", KEY], capture_output=True, text=True, timeout=PATIENCE)
        t.ok(p.returncode == 0 and says in p.stderr, "a warning: " + says, p.stderr[-500:])
    p = subprocess.run([PROGRAM, "--port", "0", "--model", MODEL, "--tls-cert", CERT,
                        "--tls-key", KEY, "--tls-priorities", "NORMAL:+NONSENSE"],
                       capture_output=True, text=True, timeout=PATIENCE)
    t.ok(p.returncode == 2 and "tls_priorities" in p.stderr and "NONSENSE" in p.stderr,
         "priorities that are none", (p.returncode, p.stderr[-300:]))


def agrees(d, *offer):
    """Whether the server takes what openssl offers: the protocol and the cipher."""
    p = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % d.port,
                        *offer], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=PATIENCE)
    if "no cipher match" in p.stderr or "no ciphers available" in p.stderr:
        return None
    return "Cipher is (NONE)" not in p.stdout and "Cipher is " in p.stdout


OLD = [("TLS 1.0", "-tls1", "-cipher", "ALL:@SECLEVEL=0"),
       ("TLS 1.1", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
       ("static RSA with CBC", "-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"),
       ("static RSA with GCM", "-tls1_2", "-cipher", "AES128-GCM-SHA256:@SECLEVEL=0"),
       ("CBC with SHA-1", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA:@SECLEVEL=0")]
NEW = [("TLS 1.2", "-tls1_2"), ("TLS 1.3", "-tls1_3"),
       ("ChaCha20", "-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"),
       ("AES-GCM", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256")]


def test_ciphers(t, d):
    cert, key = make("rsa", "rsa:2048")
    os.chmod(key, 0o644)
    sound = Tls(tls_cert=cert, tls_key=key, wait=False)
    loose = Tls(tls_cert=cert, tls_key=key, wait=False, tls_priorities="LEGACY:+VERS-TLS1.1"
                ":+VERS-TLS1.0:%COMPAT")
    for name, *offer in OLD:
        t.equal(agrees(sound, *offer), False, "refused by default: " + name)
        t.equal(agrees(loose, *offer), True, "agreed on where tls_priorities says so: " +
                name)
    for name, *offer in NEW:
        t.equal(agrees(sound, *offer), True, "agreed on by default: " + name)
    t.ok("chmod" in sound.wait_log("every user of this machine can read .*rsa.key"),
         "a key that everybody can read is told")
    t.ok(not any("every user" in line for line in d.lines if line), "another is not")
    for halod in (sound, loose):
        halod.process.kill()
        halod.stop()


def test_shared_keys(t, d):
    """A client that offers a key which nobody has shared is answered by the certificate."""
    own = Tls(tls_cert=CERT, tls_key=KEY, wait=False)
    t.equal(agrees(own, "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-psk", "1a2b3c",
                   "-psk_identity", "any"), True, "a pre-shared key is passed over")
    p = subprocess.run(["openssl", "s_client", "-tls1_3", "-ign_eof", "-connect",
                        "127.0.0.1:%d" % own.port],
                       input="GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                       capture_output=True, text=True, timeout=PATIENCE)
    t.ok("HTTP/1.1 200" in p.stdout and "session ticket" not in p.stdout.lower(),
         "no ticket is given, and the server is alive", p.stdout)
    t.equal(own.stop(), 0, "it ends well")


def certificate(d):
    """What a new client is shown."""
    return ssl.get_server_certificate(("127.0.0.1", d.port))


def text_of(path):
    with open(path) as f:
        return f.read()


def hup(d, pattern):
    n = len(d.lines)
    d.process.send_signal(signal.SIGHUP)
    return d.wait_log(pattern, n)


def test_renewal(t, d):
    """A certificate as certbot renews it, while a stream runs: links that are turned, then
    SIGHUP. And renewals that went wrong: the old certificate is shown on."""
    links = [os.path.join(where, name) for name in ("live.crt", "live.key")]

    def turn(*targets):
        for link, target in zip(links, targets):
            os.symlink(target, link + ".new")
            os.rename(link + ".new", link)

    turn(CERT, KEY)
    live = Tls(tls_cert=links[0], tls_key=links[1])
    s = live.long_stream()
    events = s.events()
    turn(OTHER_CERT, OTHER_KEY)
    t.equal(certificate(live), text_of(CERT), "before SIGHUP, the first certificate")
    hup(live, "SIGHUP: new connections get the certificate")
    t.equal(certificate(live), text_of(OTHER_CERT), "behind it, the next one")
    t.ok(all(next(events)["choices"] for _ in range(20)), "the stream goes on")
    broken = os.path.join(where, "broken")
    with open(broken, "w") as f:
        f.write(text_of(CERT)[:300])
    for name, cert, key in (("half a certificate", broken, KEY), ("none", where + "/none", KEY),
                            ("another's key", CERT, OTHER_KEY), ("no key", CERT, "/nowhere"),
                            ("a folder", where, KEY)):
        turn(cert, key)
        line = hup(live, "SIGHUP: the certificate stays")
        t.ok("error" in line and certificate(live) == text_of(OTHER_CERT),
             name + ": an error, and the old certificate", line)
    t.ok(next(events)["choices"], "the stream still goes on")
    turn(CERT, KEY)
    hup(live, "SIGHUP: new connections get the certificate")
    t.equal(certificate(live), text_of(CERT), "a good one heals it")
    s.close()
    t.equal(live.stop(), 0, "it ends well")


def test_half_handshakes(t, d):
    """Clients that begin TLS and stop: header_timeout is 1 s here."""
    quick = Tls(tls_cert=CERT, tls_key=KEY, header_timeout="1s")
    socks = [quick.raw(b"\x16\x03\x01") for _ in range(20)] + [quick.raw(b"")]
    t.ok(all(read_all(s) == b"" for s in socks), "half a handshake is closed")
    t.equal(quick.get("/health").status, 200, "a whole one is not")
    t.equal(quick.stop(), 0, "it ends well")


import halod  # the class that run() starts
halod.Halod = Tls
try:
    run([test_answers, test_leaves, test_plain, test_faults, test_ciphers, test_shared_keys,
         test_renewal, test_half_handshakes], tls_cert=CERT, tls_key=KEY)
finally:
    shutil.rmtree(where, ignore_errors=True)
