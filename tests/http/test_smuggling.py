#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that two parsers could take apart in two ways. Behind each stands another
request, GET /smuggled: it must never be heard where the first one was refused. All of
them go to halod itself, then through HAProxy and nginx, which let nobody pass to
/smuggled: if halod hears it there, it went past them. Skipped, and said so, are the
proxies that are not installed."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from halod import PATIENCE, Halod, Tap, free_port, read_all

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
N = b"%d" % len(SMUGGLED)
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
EMPTY = b"0\r\n\r\n"

REFUSED = []  # (what, bytes, status), and nothing is heard behind them
SERVED = []   # (what, bytes, statuses)


def refuse(what, head, status=400, tail=SMUGGLED):
    REFUSED.append((what, head + tail, status))


def serve(what, data, *statuses):
    SERVED.append((what, data, list(statuses)))


def add_lengths():
    for what, value in (
            ("+5", b"+5"), ("-1", b"-1"), ("a list", b"5, 5"), ("two numbers", b"5 5"),
            ("hex", b"0x10"), ("a letter", b"x"), ("nothing", b""), ("2^63", b"9" * 19),
            ("2^64 + 5", b"18446744073709551621"), ("a fraction", b"1.5"),
            ("an exponent", b"1e1"), ("quotes", b'"5"'), ("a semicolon", b"5;"),
            ("a NUL before", b"\0" + N), ("a NUL inside", b"0\0" + N),
            ("a NUL behind", N + b"\0"), ("a vertical tab", b"\v5"),
            ("a form feed", b"5\f"), ("a CR inside", b"0\r" + N),
            ("underscores", b"1_0"), ("Arabic digits", "\u0665".encode())):
        refuse("Content-Length: " + what, POST + b"Content-Length: %s\r\n\r\n" % value)
    for a, b in ((b"0", N), (N, b"0"), (b"0", b"0"), (N, N)):
        refuse("two Content-Lengths, %s and %s" % (a.decode(), b.decode()), POST +
               b"Content-Length: %s\r\nContent-Length: %s\r\n\r\n" % (a, b))
        refuse("two in other letters, %s and %s" % (a.decode(), b.decode()), POST +
               b"Content-Length: %s\r\ncontent-length: %s\r\n\r\n" % (a, b))
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS"):
        refuse("two lengths of a %s" % method.decode(), method + b" /health HTTP/1.1\r\n"
               b"Host: localhost\r\nContent-Length: 0\r\nContent-Length: %s\r\n\r\n" % N)


def add_encodings():
    for value in (b"xchunked", b"chunked, chunked", b"chunked, identity", b"identity",
                  b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked;q=1", b'"chunked"',
                  b"chunked,", b",chunked", b"chunked\0x", b"\0chunked", b"chunked\v",
                  b"\x0bchunked", b"chunked\x80", b"cHuNkEd x", b"chunk", b"", b"'chunked'",
                  b"chunked\r\nX: y\0", b"identity, chunked", b"[chunked]"):
        refuse("Transfer-Encoding: %r" % value, POST +
               b"Transfer-Encoding: %s\r\n\r\n%s" % (value, EMPTY))
    for first, second in ((b"chunked", b"identity"), (b"identity", b"chunked"),
                          (b"chunked", b"chunked")):
        refuse("two of them, %s and %s" % (first.decode(), second.decode()), POST +
               b"Transfer-Encoding: %s\r\nTransfer-Encoding: %s\r\n\r\n%s"
               % (first, second, EMPTY))
    for length in (b"0", b"5", N):
        both = [b"Content-Length: %s\r\n" % length, b"Transfer-Encoding: chunked\r\n"]
        for order in (both, both[::-1]):
            refuse("CL and TE, %r" % b"".join(order), POST + b"".join(order) +
                   b"\r\n" + EMPTY)
    refuse("an encoding in HTTP/1.0", b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\n"
           b"Transfer-Encoding: chunked\r\n\r\n" + EMPTY)


def add_folds():
    for blank in (b" ", b"\t", b"  \t "):
        for name, first, second in (
                (b"Content-Length", b"", N), (b"Content-Length", b" 0", N),
                (b"Transfer-Encoding", b"", b"chunked"), (b"X", b" a", b"b"),
                (b"Transfer-Encoding", b" chunked", b", identity")):
            refuse("a fold of %s by %r" % (name.decode(), blank), POST + name + b":" +
                   first + b"\r\n" + blank + second + b"\r\n\r\n")
    refuse("a folded name of a length", POST + b"Content-: %s\r\n Length\r\n\r\n" % N)
    refuse("a folded name of an encoding", POST +
           b"Transfer-: chunked\r\n Encoding\r\n\r\n" + EMPTY)
    refuse("a folded Host", b"GET /health HTTP/1.1\r\nHos: x\r\n t\r\n\r\n")
    refuse("a folded id", GET + b"X-Request: abc\r\n -Id\r\n\r\n")
    refuse("a fold before the first header",
           b"POST /v1/completions HTTP/1.1\r\n Content-Length: %s\r\nHost: localhost\r\n\r\n" % N)
    refuse("a fold of nothing", POST + b"X: a\r\n \r\nContent-Length: %s\r\n\r\n" % N)


def add_names():
    for name in (b"Content-Length ", b"Content-Length\t", b" Content-Length",
                 b"Content Length", b"Content-Length\0", b"Content\0-Length", b"",
                 b"Content-Length\v", b"Content-Length\x80", b"\xc3\xa4", b"X[", b"X(y)",
                 b"X\x7f", b"\"X\"", b"X/Y", b"X@Y", b"X=Y,", b"X\x01"):
        refuse("the name %r" % name, POST + name + b": %s\r\n\r\n" % N)
    refuse("a line without colon", POST + b"Content-Length %s\r\n\r\n" % N)
    for byte in range(32):
        if byte not in (9, 10):
            refuse("the byte %d in a value" % byte, POST + b"X: a%cb\r\n\r\n" % byte)
    refuse("the byte 127 in a value", POST + b"X: a\x7fb\r\n\r\n")
    refuse("a bare LF before a length", POST + b"X: a\nContent-Length: %s\r\n\r\n" % N)
    refuse("a bare LF before an encoding", POST +
           b"X: a\nTransfer-Encoding: chunked\r\n\r\n" + EMPTY)
    refuse("a bare CR before a length", POST + b"X: a\rContent-Length: %s\r\n\r\n" % N)
    refuse("bare LFs only", b"GET /health HTTP/1.1\nHost: h\n\n")


def add_hosts():
    refuse("no Host", b"GET /health HTTP/1.1\r\n\r\n")
    refuse("two Hosts", GET + b"Host: i\r\n\r\n")
    for host in (b"a b", b"a/b", b"a@b", b"h\0i", b"h:x", b"[::1", b"h,i", b"h\"", b"a\\b",
                 b"<h>", b"h:80:80", b"h?x", b"h#x", "\u00e4".encode()):
        want = 200 if host == b"h,i" else 400  # a comma is a sub-delim of RFC 3986
        if want == 400:
            refuse("Host: %r" % host, b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % host)


def add_lines():
    for line, status in (
            (b" GET /health HTTP/1.1", 400), (b"GET\t/health\tHTTP/1.1", 400),
            (b"GET  /health HTTP/1.1", 400), (b"GET /health  HTTP/1.1", 400),
            (b"GET /health HTTP/1.1 ", 400), (b"GET /health", 400), (b"GET", 400),
            (b"GET /a b HTTP/1.1", 400), (b"GET /health\0 HTTP/1.1", 400),
            (b"GET /\x01 HTTP/1.1", 400), (b"GET /\x80 HTTP/1.1", 400),
            (b"GET /health http/1.1", 400), (b"GET /health HTTP/1.10", 400),
            (b"GET /health HTTP/1,1", 400), (b"GET /health HTTP/ 1.1", 400),
            (b"GET health HTTP/1.1", 400), (b"GET * HTTP/1.1", 400), (b"\0", 400),
            (b"\x16\x03\x01\x02\x00", 400), (b"G(T /health HTTP/1.1", 400),
            (b"GET /health\rX HTTP/1.1", 400), (b"GET /health HTTP/2.0", 505),
            (b"GET /health HTTP/0.9", 505), (b"GET /health HTTP/9.9", 505),
            (b"PRI * HTTP/2.0", 505), (b"get /health HTTP/1.1", 501),
            (b"BREW /health HTTP/1.1", 501), (b"M" * 5000 + b" / HTTP/1.1", 501)):
        refuse("the line %r" % line[:40], line + b"\r\nHost: localhost\r\n\r\n", status)
    refuse("a long address", b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414)
    refuse("20,000 headers", GET + b"X: y\r\n" * 20000 + b"\r\n", 431)
    refuse("101 headers", GET + b"X: y\r\n" * 101 + b"\r\n", 431)
    refuse("a header of 1 MB", GET + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n", 431)


def add_chunks():
    for what, body in (
            ("size -1", b"-1\r\n" + EMPTY), ("size +5", b"+5\r\nhello\r\n" + EMPTY),
            ("size 0x5", b"0x5\r\nhello\r\n" + EMPTY), ("no size", b"\r\n" + EMPTY),
            ("17 digits", b"00000000000000005\r\nhello\r\n" + EMPTY),
            ("2^64 + 5", b"10000000000000005\r\nhello\r\n" + EMPTY),
            ("a blank before", b" 5\r\nhello\r\n" + EMPTY),
            ("a blank behind", b"5 \r\nhello\r\n" + EMPTY),
            ("a tab behind", b"5\t\r\nhello\r\n" + EMPTY),
            ("a NUL", b"5\0\r\nhello\r\n" + EMPTY), ("letters", b"xyz\r\n" + EMPTY),
            ("a quoted line end", b'5;x="\r\n"\r\nhello\r\n' + EMPTY),
            ("LF in an extension", b"5;x\ny\r\nhello\r\n" + EMPTY),
            ("CR in an extension", b"5;x\ry\r\nhello\r\n" + EMPTY),
            ("LF behind the size", b"5\nhello\r\n" + EMPTY),
            ("LF behind the data", b"5\r\nhello\n" + EMPTY),
            ("LF behind the end", b"0\n\n"), ("LF behind the trailers", b"0\r\n\n"),
            ("data longer than the size", b"5\r\nhello!\r\n" + EMPTY),
            ("data shorter than the size", b"6\r\nhello\r\n" + EMPTY),
            ("no line end behind the data", b"5\r\nhello" + EMPTY),
            ("a trailer without colon", b"0\r\nContent-Length\r\n\r\n"),
            ("a fold in the trailers", b"0\r\nX: y\r\n z\r\n\r\n"),
            ("a NUL in the trailers", b"0\r\nX: \0\r\n\r\n"),
            ("trailers without end", b"0\r\n" + b"X: y\r\n" * 3000)):
        refuse("a chunk: " + what, CHUNKED + body)


def add_served():
    end = GET + b"Connection: close\r\n\r\n"
    chat = b'{"prompt":"a","max_tokens":1}'
    serve("pipelined requests", (GET + b"\r\n") * 5 + end, *[200] * 6)
    serve("an empty line between two", GET + b"\r\n\r\n\r\n" + end, 200, 200)
    serve("a body that looks like a request", POST + b"Content-Length: %s\r\n\r\n" % N +
          SMUGGLED + end, 400, 200)
    serve("the same in chunks", CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
          + end, 400, 200)
    serve("a GET with a body", GET + b"Content-Length: %s\r\n\r\n" % N + SMUGGLED + end,
          200, 200)
    serve("a length with blanks around", POST + b"Content-Length: \t %d \t\r\n\r\n" % len(chat)
          + chat + end, 200, 200)
    serve("chunks", CHUNKED + b"".join(b"1\r\n%c\r\n" % c for c in chat) + EMPTY + end, 200,
          200)
    serve("an extension", CHUNKED + b"%x;a=\"b\"\r\n%s\r\n0;c\r\n\r\n" % (len(chat), chat) + end,
          200, 200)
    serve("trailers", CHUNKED + b"%x\r\n%s\r\n0\r\nContent-Length: 5\r\nHost: localhost\r\n\r\n"
          % (len(chat), chat) + end, 200, 200)
    serve("an absolute address", b"GET http://other/health HTTP/1.1\r\nHost: localhost\r\n\r\n" + end,
          200, 200)
    serve("OPTIONS *", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n" + end, 204, 200)
    serve("HTTP/1.0", b"GET /health HTTP/1.0\r\n\r\n" + SMUGGLED, 200)
    serve("HTTP/1.0 that is kept", b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
          + end, 200, 200)
    serve("HTTP/1.2", b"GET /health HTTP/1.2\r\nHost: localhost\r\n\r\n" + end, 200, 200)
    serve("what comes after a close", end + SMUGGLED, 200)
    serve("an upgrade", GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
          b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + end, 200, 200)


def split(data):
    """[(status, headers, body)] of what a server said; the last may be cut off."""
    out = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        headers = dict(l.lower().split(b": ", 1) for l in lines[1:] if b": " in l)
        n = int(headers.get(b"content-length", b"0"))
        out.append((int(lines[0].split()[1]), headers, rest[:n]))
        data = rest[n:]
    return out


def is_openai_error(headers, body):
    if headers.get(b"content-type") != b"application/json":
        return False
    e = json.loads(body)["error"]
    return bool(e["message"]) and {"type", "param", "code"} <= set(e)


def heard(d):
    return [l for l in d.lines if l and '"path":"/smuggled' in l]


def test_refused(t, d):
    for what, data, status in REFUSED:
        n_heard = len(heard(d))
        said = d.raw_answer(data)
        try:
            answers = split(said)
            is_one = len(answers) == 1 and answers[0][0] == status
            ok = is_one and (data.startswith(b"HEAD ") or is_openai_error(*answers[0][1:]))
        except (ValueError, KeyError, IndexError):
            ok = False
        t.ok(ok and len(heard(d)) == n_heard,
             "%s: %d once, as JSON, and nothing behind it" % (what, status), said[:600])
    d.get("/v1/models", {"X-Request-Id": "after-all"})
    d.access("after-all")
    t.equal(heard(d), [], "no second request was heard")


def test_served(t, d):
    for what, data, statuses in SERVED:
        said = d.raw_answer(data)
        t.equal([a[0] for a in split(said)], statuses, what)
    t.equal(heard(d), [], "and no body was taken for a request")


def test_slowly(t, d):
    """A few of both, a byte a packet: where the pieces end does not matter."""
    for what, data, want in REFUSED[3::29] + SERVED[2:6]:
        if len(data) > 1000:
            continue
        with d.raw(b"") as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for i in range(len(data)):
                    s.sendall(data[i:i + 1])
            except OSError:
                pass  # it is refused already
            said = [a[0] for a in split(read_all(s))]
        t.equal(said, want if isinstance(want, list) else [want], "byte by byte: " + what)
    t.equal(heard(d), [], "and nothing behind them")


# --- proxies ------------------------------------------------------------------------

HAPROXY = """
global
    log stderr format raw local0
defaults
    mode http
    timeout connect 10s
    timeout client 2s
    timeout server 60s
    %(more)s
frontend f
    bind 127.0.0.1:%(port)d
    http-request deny if { path_beg /smuggled }
    default_backend b
backend b
    http-reuse always
    server s 127.0.0.1:%(to)d
"""

NGINX = """
daemon off; master_process off; pid %(dir)s/pid; error_log %(dir)s/log;
%(user)s
events {}
http {
    access_log off;
    client_body_temp_path %(dir)s; proxy_temp_path %(dir)s; fastcgi_temp_path %(dir)s;
    uwsgi_temp_path %(dir)s; scgi_temp_path %(dir)s;
    keepalive_timeout 2s; client_header_timeout 2s; client_body_timeout 2s;
    ignore_invalid_headers %(lenient)s;
    underscores_in_headers on;
    upstream u { server 127.0.0.1:%(to)d; keepalive 4; }
    server {
        listen 127.0.0.1:%(port)d;
        location /smuggled { return 403; }
        location / {
            proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_request_buffering off; proxy_ignore_client_abort on;
        }
    }
}
"""


class Proxy:
    """with Proxy(argv, text, to=port) as p: p.port is open."""

    def __init__(self, argv, text, **values):
        self.dir = tempfile.mkdtemp(prefix="halod-proxy-")
        self.port = free_port()
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w") as f:
            f.write(text % dict(values, port=self.port, dir=self.dir))
        with open(os.path.join(self.dir, "output"), "w") as out:
            self.process = subprocess.Popen([*argv, conf], stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                with open(os.path.join(self.dir, "output")) as f:
                    said = f.read()
                assert self.process.poll() is None, "the proxy has ended: " + said
                assert time.monotonic() < deadline, "the proxy does not listen: " + said
                time.sleep(0.02)

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        shutil.rmtree(self.dir, ignore_errors=True)

    def answer(self, data):
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # refused before all of it was sent
            return read_all(s)


def through(t, d, name, argv, text, **values):
    """What a proxy passes must be heard as the proxy meant it."""
    with Proxy(argv, text, to=d.port, **values) as p:
        said = p.answer(GET + b"Connection: close\r\n\r\n")
        t.ok(said.startswith(b"HTTP/1.1 200"), name + " leads to halod", said)
        n_passed = len([l for l in d.lines if l])
        for what, data, _ in REFUSED:
            p.answer(data)
            if heard(d):
                t.ok(False, "%s: %s smuggled a request" % (name, what), data[:300])
                d.lines[:] = [l for l in d.lines if l not in heard(d)]
        for _, data, _ in SERVED:
            p.answer(data)
        d.get("/v1/models", {"X-Request-Id": "through-" + name})
        d.access("through-" + name)
        n_passed = len([l for l in d.lines if l]) - n_passed
        t.ok(n_passed > 20, "%s passed many of them (%d)" % (name, n_passed))
        t.equal(heard(d), [], "%s: nobody went past it" % name)
        said = p.answer(GET + b"Connection: close\r\n\r\n")
        t.ok(said.startswith(b"HTTP/1.1 200"), name + " still leads to halod", said)


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def test_proxies(t, d):
    haproxy, nginx = find("haproxy"), find("nginx")
    if haproxy:
        for name, more in (("haproxy", ""),
                           ("haproxy, lenient", "option accept-invalid-http-request")):
            through(t, d, name.replace(", ", "-"), [haproxy, "-db", "-f"], HAPROXY, more=more)
    else:
        t.skip("HAProxy is not installed: nothing went through it")
    if nginx:
        user = "user root;" if os.geteuid() == 0 else ""
        for name, lenient in (("nginx", "on"), ("nginx-lenient", "off")):
            through(t, d, name, [nginx, "-c"], NGINX, lenient=lenient, user=user)
    else:
        t.skip("nginx is not installed: nothing went through it")


for add in (add_lengths, add_encodings, add_folds, add_names, add_hosts, add_lines, add_chunks,
            add_served):
    add()
t = Tap()
d = Halod(idle_timeout="2s", header_timeout="10s")
for test in (test_refused, test_served, test_slowly, test_proxies):
    print("# ---", test.__name__)
    test(t, d)
t.equal(d.stop(), 0, "halod ends well")
print("# %d refused, %d served" % (len(REFUSED), len(SERVED)))
t.done()
