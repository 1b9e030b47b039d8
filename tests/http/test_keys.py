#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""API keys, their limits, and pages of other origins."""
import os
import re
import socket
import signal
import subprocess
import tempfile

from halod import MODEL, PROGRAM, Halod, Tap

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
ONE, TWO = {"Authorization": "Bearer sk-one"}, {"X-Api-Key": "sk-two"}
PAGE = "http://localhost:3000"


def write_keys(path, *keys):
    with open(path, "w") as f:
        f.write("".join(k + "\n" for k in keys))


def test_keys(t, d, path):
    for what, headers, want in (
            ("no key", {}, 401), ("a wrong one", {"Authorization": "Bearer sk-on"}, 401),
            ("Basic", {"Authorization": "Basic sk-one"}, 401),
            ("an empty one", {"Authorization": "Bearer "}, 401),
            ("a key", ONE, 200), ("x-api-key", TWO, 200),
            ("bearer in small letters", {"authorization": "bearer sk-two"}, 200),
            ("a placeholder beside it", {"Authorization": "Bearer none", **TWO}, 200)):
        for method, p, body in (("POST", CHAT, BODY), ("GET", "/v1/models", None)):
            a = d.request(method, p, body, headers)
            t.equal(a.status, want, "%s: %s %d" % (what, p, want))
    a = d.request("POST", CHAT, BODY)
    t.equal((a.error["type"], a.error["code"], a.headers["WWW-Authenticate"]),
            ("authentication_error", "invalid_api_key", "Bearer"), "401 in words")
    t.ok("sk-" not in "\n".join(l for l in d.lines if l), "no key is logged")
    t.equal((d.get("/health").status, d.get("/metrics").status), (200, 401),
            "/health is open, /metrics as configured")
    t.equal(d.get("/metrics", ONE).status, 200, "/metrics with a key")
    t.equal(d.get("/nothing").status, 404, "an unknown address")
    d.request("POST", CHAT, BODY, {**TWO, "X-Request-Id": "keyed-1"})
    t.equal(d.access("keyed-1")["key"], "Zoe of sales", "the log says whose key")
    counted = dict(re.findall(r'^halod_key_(\w+)_total{key="Zoe of sales"} (\d+)$',
                              d.get("/metrics", ONE).body.decode(), re.M))
    t.ok(int(counted["requests"]) > 1 and
         int(counted["prompt_tokens"]) > int(counted["generation_tokens"]) >= 2,
         "/metrics counts requests and tokens by name", counted)


def stream(d, headers):
    return d.stream("Tell me a story.", headers, ignore_eos=True, max_tokens=3500)


def test_limit(t, d, path):
    s = stream(d, ONE)
    next(s.events())
    a = d.request("POST", CHAT, BODY, ONE)
    t.equal((a.status, a.error["code"], a.headers["Retry-After"]),
            (429, "key_limit", "1"), "a second request with the same key")
    t.equal(d.get("/v1/models", ONE).status, 200, "which may look around")
    t.equal(d.request("POST", CHAT, BODY, TWO).status, 200, "another key")
    s.close()
    while d.request("POST", CHAT, BODY, ONE).status != 200:
        pass  # until the server has seen it; a test that hangs is killed
    t.ok(True, "a request that ended makes room")


def test_reload(t, d, path):
    def hup(pattern):
        n = len(d.lines)
        d.process.send_signal(signal.SIGHUP)
        d.wait_log(pattern, n)

    s = stream(d, ONE)
    events = s.events()
    next(events)
    write_keys(path, "sk-three", "sk-two")
    hup("SIGHUP: 2 API keys")
    t.equal([d.get("/v1/models", {"X-Api-Key": "sk-" + k}).status
             for k in ("one", "two", "three")], [401, 200, 200], "SIGHUP: new keys")
    t.ok(next(events)["choices"], "a request of the old key goes on")
    s.close()
    write_keys(path, "k\u00e9y", "sk-three")
    hup("error.*:1: a key has .*: the 1 API key in the other lines is valid")
    t.equal([d.get("/v1/models", {"X-Api-Key": "sk-" + k}).status for k in ("two", "three")],
            [401, 200], "a bad line hides no revocation")
    for what in "emptied", "removed":
        write_keys(path) if what == "emptied" else os.unlink(path)
        hup("error.*: no API key is valid now, and no client gets in")
        t.equal([d.get("/v1/models", {"X-Api-Key": k}).status for k in ("sk-three", "", " ")],
                [401] * 3, "a file that is %s: nobody gets in" % what)
        t.equal(d.get("/health").status, 200, "but the server is well")
        write_keys(path, "sk-three", "sk-two")
        hup("SIGHUP: 2 API keys, changed")
        t.equal(d.get("/v1/models", TWO).status, 200, "until the file has a key again")


def test_responses(t, d, path):
    """What one key has stored is not there for another."""
    three = {"X-Api-Key": "sk-three"}
    a = d.request("POST", "/v1/responses",
                  {"input": "My secret is 4711.", "max_output_tokens": 4}, three)
    at = "/v1/responses/" + a.json["id"]
    t.equal([d.get(at + end, three).status for end in ("", "/input_items")], [200, 200],
            "its maker reads a stored response")
    none = d.get("/v1/responses/resp_none", TWO)
    for what, method, end in (("read", "GET", ""), ("its input", "GET", "/input_items"),
                              ("deleted", "DELETE", "")):
        b = d.request(method, at + end, None, TWO)
        t.equal((b.status, b.error["type"]), (none.status, none.error["type"]),
                "with another key it is not there to be " + what)
    b = d.request("POST", "/v1/responses", {"input": "What is my secret?",
                  "previous_response_id": a.json["id"]}, TWO)
    t.equal((b.status, b.error["param"]), (400, "previous_response_id"),
            "nor to be continued")
    t.equal(d.request("DELETE", at, None, three).status, 200, "its maker deletes it")
    t.equal(d.get(at, three).status, 404, "then it is gone")


LONG = "The password of the safe is 4711, and nobody else may know it. " * 4


def n_cached(d, headers, **more):
    a = d.request("POST", CHAT, {"messages": [{"role": "user", "content": LONG}],
                                 "max_tokens": 1, **more}, headers)
    return a.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_prefixes(t, d, path):
    """A key cannot learn from the cache what another key has asked."""
    three = {"X-Api-Key": "sk-three"}
    t.equal(n_cached(d, TWO), 0, "a prompt that nobody has sent")
    t.ok(n_cached(d, TWO) > 0, "its key finds it again")
    t.equal(n_cached(d, three), 0, "another key does not")
    t.equal(n_cached(d, TWO, cache_salt="one"), 0, "nor does the same key with a salt")
    t.ok(n_cached(d, TWO, cache_salt="one") > 0, "until it was asked with that salt")
    t.equal(n_cached(d, three, cache_salt="one"), 0, "a salt is not shared between keys")
    for salt in ("", "x" * 1025, 5):
        a = d.request("POST", CHAT, {**BODY, "cache_salt": salt}, TWO)
        t.equal((a.status, a.error["param"]), (400, "cache_salt"),
                "no salt: %.8r" % (salt,))


def test_shared(t):
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "keys")
        write_keys(path, "sk-one", "sk-two")
        d = Halod(api_key_file=path, prefix_cache_shared="yes")
        t.equal(n_cached(d, ONE), 0, "shared: a prompt that nobody has sent")
        t.ok(n_cached(d, TWO) > 0, "is found by another key")
        t.equal(n_cached(d, TWO, cache_salt="one"), 0, "not with a salt")
        t.ok(n_cached(d, ONE, cache_salt="one") > 0, "which the keys share, too")
        t.equal(d.stop(), 0, "halod ends well")


def test_credential(t):
    """systemd's copy: the same after SIGHUP means that nothing was revoked."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "api_keys")
        write_keys(path, "sk-one")
        d = Halod(popen={"env": {**os.environ, "CREDENTIALS_DIRECTORY": tmp}})
        d.process.send_signal(signal.SIGHUP)
        line = d.wait_log("SIGHUP")
        t.ok("error" in line and "restart" in line,
             "a copy that did not change is an error that says what to do", line)
        write_keys(path, "sk-two")  # as a systemd that copies again does
        d.process.send_signal(signal.SIGHUP)
        d.wait_log("SIGHUP: 1 API key, changed")
        t.equal((d.get("/v1/models", ONE).status, d.get("/v1/models", TWO).status),
                (401, 200), "a new copy counts")
        t.equal(d.stop(), 0, "halod ends well")


def test_cors(t, d, path):
    ask = {"Origin": PAGE, "Access-Control-Request-Method": "POST",
           "Access-Control-Request-Headers": "authorization,x-stainless-lang"}
    h = d.request("OPTIONS", CHAT, None, ask).headers
    t.equal([h["Access-Control-Allow-" + k] for k in ("Origin", "Methods", "Headers")],
            [PAGE, "POST, OPTIONS", "authorization,x-stainless-lang"],
            "a preflight, without a key")
    t.equal(h["Vary"], "Origin", "depends on the origin")
    for what, method, body, headers in (
            ("an answer", "GET", None, TWO), ("an error", "POST", {}, {})):
        a = d.request(method, "/v1/models", body, {"Origin": PAGE, **headers})
        t.equal(a.headers["Access-Control-Allow-Origin"], PAGE, "%s to it" % what)
    s = d.stream("Hi", {"Origin": PAGE, **TWO}, max_tokens=1)
    t.equal(s.headers["Access-Control-Allow-Origin"], PAGE, "a stream to it")
    list(s.lines())
    for origin in ("http://localhost:3001", "null", "http://localhost:3000.evil.org",
                   "HTTP://LOCALHOST:3000"):
        for method in ("OPTIONS", "GET"):
            h = d.request(method, "/v1/models", None, {**ask, **TWO, "Origin": origin})
            t.ok(not [k for k in h.headers if k.lower().startswith("access-control")],
                 "%s from %s: no word" % (method, origin))
    h = d.request("OPTIONS", CHAT, None, {
        **ask, "Access-Control-Request-Headers": "a: b"}).headers
    t.equal(h["Access-Control-Allow-Headers"], None, "names that are none")


def test_foreign_pages(t, d, path):
    """A page of elsewhere may not make the engine work without a preflight."""
    json_type, host = "application/json", "127.0.0.1:%d" % d.port
    for what, origin, kind, want in (
            ("text/plain of a foreign page", "http://evil.example", "text/plain", 403),
            ("a form of a foreign page", "http://evil.example",
             "application/x-www-form-urlencoded", 403),
            ("no type, of a foreign page", "http://evil.example", "", 403),
            ("a type that only begins like JSON", "http://evil.example",
             "application/jsonx", 403),
            ("a file or a sandbox", "null", "text/plain", 403),
            ("another port", "http://127.0.0.1:1", "text/plain", 403),
            ("JSON of a foreign page, after its preflight", "http://evil.example",
             json_type + "; charset=utf-8", 200),
            ("text/plain of an own page", "http://" + host, "text/plain", 200),
            ("text/plain of an allowed page", PAGE, "text/plain", 200),
            ("text/plain of a program", None, "text/plain", 200),
            ("a form of a program, as curl -d sends", None,
             "application/x-www-form-urlencoded", 200)):
        headers = {**TWO, "Content-Type": kind, **({"Origin": origin} if origin else {})}
        a = d.request("POST", CHAT, BODY, headers)
        t.equal((a.status, want == 200 or a.error["code"]),
                (want, want == 200 or "foreign_origin"), what)
    t.equal(d.metrics_with(TWO)['requests_rejected_total{reason="origin"}'], 6, "counted")
    a = d.request("POST", CHAT, BODY, {**TWO, "Content-Encoding": "gzip"})
    t.equal((a.status, a.error["code"]), (415, "unsupported_media_type"),
            "a packed body is not taken")
    a = d.request("POST", CHAT, BODY, {**TWO, "Content-Encoding": "identity"})
    t.equal(a.status, 200, "an unpacked one that says so is")


def test_rebinding(t):
    """Without keys: names that somebody else could make to point here."""
    d = Halod(cors_origins="http://ai.example")
    own = socket.gethostname()
    for name, want in (("evil.example", 403), ("localhost.evil.example", 403),
                       ("127.0.0.1.evil.example", 403), ("ai.example", 200),
                       (own + ".evil.example", 403), (own + "x", 403), ("x" + own, 403),
                       (own + ".local.evil.example", 403), ("h", 403),
                       (own + ":8080", 200), (own.upper() + ".", 200),
                       (own.split(".")[0] + ".local:8080", 200), ("localhost:80", 200),
                       ("10.1.2.3:8080", 200), ("[::1]:80", 200)):
        page = {"Host": name, "Origin": "http://" + name}
        for kind in ("text/plain", "application/json"):
            a = d.request("POST", CHAT, BODY, {"Content-Type": kind, **page})
            t.equal(a.status, want, "%s from %s" % (kind, name))
        # A browser sends no Origin with a GET of the same origin.
        for method, path, fine in (("GET", "/", 200), ("GET", "/stats", 200),
                                   ("GET", "/metrics", 200), ("GET", "/v1/models", 200),
                                   ("GET", "/v1/responses/x", 404), ("HEAD", "/props", 200),
                                   ("DELETE", "/v1/responses/x", 404),
                                   ("OPTIONS", "/stats", 204), ("GET", "/none", 404)):
            a = d.request(method, path, None, {"Host": name})
            t.equal(a.status, fine if want == 200 else 403, "%s %s of %s" % (method, path, name))
        for path in ("/health", "/livez", "/readyz"):
            t.equal(d.get(path, {"Host": name}).status, 200, path + " of " + name)
    t.equal(d.stop(), 0, "halod ends well")


def test_start(t):
    """Files that would let nobody in, or everybody, end the start."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "api_keys")
        write_keys(path)
        for what, name in (("empty", path), ("missing", path + "x")):
            p = subprocess.run([PROGRAM, "-c", "/dev/null", "--model", MODEL, "--port",
                                "0", "--api-key-file", name],
                               stderr=subprocess.PIPE, timeout=60)
            t.ok(p.returncode == 2 and b"api_keys" in p.stderr,
                 "%s: halod does not start" % what, (p.returncode, p.stderr))
        write_keys(path, "sk-one")
        d = Halod(popen={"env": {**os.environ, "CREDENTIALS_DIRECTORY": tmp}},
                  cors_origins="*")
        t.equal((d.get("/v1/models").status, d.get("/v1/models", ONE).status),
                (401, 200), "the credential of systemd")
        t.equal(d.get("/metrics").status, 200, "/metrics is open by default")
        t.equal(d.get("/health", {"Origin": "null"}).headers[
            "Access-Control-Allow-Origin"], "*", "any origin")
        t.equal(d.stop(), 0, "halod ends well")


t = Tap()
with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "keys")
    write_keys(path, "sk-one", "sk-two Zoe of sales")
    d = Halod(api_key_file=path, metrics_need_key="yes", max_requests_per_key=1,
              cors_origins="http://a.example, " + PAGE)
    for test in (test_keys, test_limit, test_reload, test_responses, test_prefixes,
                 test_cors, test_foreign_pages):
        print("# ---", test.__name__)
        test(t, d, path)
    t.equal(d.stop(), 0, "halod ends well")
test_shared(t)
test_credential(t)
test_rebinding(t)
test_start(t)
t.done()
