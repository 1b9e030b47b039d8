#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at "/" as HTTP has it: its headers, its policy, its ETag, and its setting.
test_browser.py drives it."""
import base64
import hashlib
import os
import re
import tempfile

from halod import SRCDIR, Halod, Tap, traceback


def source():
    with open(os.path.join(SRCDIR, "src", "http", "page.html"), "rb") as f:
        return f.read()


def hash_of(tag):
    inside = re.search(b"<%s>(.*?)</%s>" % (tag, tag), source(), re.S).group(1)
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(inside).digest()).decode()


def test_headers(t, d):
    a = d.get("/")
    t.equal((a.status, a.headers["Content-Type"]), (200, "text/html; charset=utf-8"),
            "the page")
    t.ok(a.body == source(), "is the file of the source")
    policy = dict(p.split(" ", 1) for p in
                  a.headers["Content-Security-Policy"].split("; "))
    t.equal({k: policy[k] for k in ("default-src", "connect-src", "base-uri",
                                    "form-action", "frame-ancestors")},
            {"default-src": "'none'", "connect-src": "'self'", "base-uri": "'none'",
             "form-action": "'none'", "frame-ancestors": "'none'"}, "its policy")
    t.equal((policy["script-src"], policy["style-src"]),
            (hash_of(b"script"), hash_of(b"style")), "allows its own script and style only")
    t.equal(policy["require-trusted-types-for"], "'script'", "and no markup from texts")
    t.equal((a.headers["X-Content-Type-Options"], a.headers["X-Frame-Options"],
             a.headers["Referrer-Policy"]), ("nosniff", "DENY", "no-referrer"),
            "further headers")
    t.equal(a.headers["Cache-Control"], "no-cache", "browsers ask whether it is new")
    t.equal(a.headers.get_all("Cache-Control"), ["no-cache"], "and are told that once")
    t.ok(a.headers.get("Access-Control-Allow-Origin") is None, "no page of others reads it")
    head = d.request("HEAD", "/")
    t.equal((head.status, head.headers["Content-Length"], head.body),
            (200, str(len(a.body)), b""), "HEAD")
    for path in ("/?x=1", "/#x"):
        t.equal(d.get(path).status, 200 if path == "/?x=1" else 404, "GET " + path)
    t.equal(d.request("POST", "/", {}).status, 405, "POST")


def test_etag(t, d):
    tag = d.get("/").headers["ETag"]
    t.ok(re.fullmatch(r'"[0-9a-f]{16}"', tag), "a tag", tag)
    for sent in (tag, 'W/%s' % tag, '"x", %s' % tag, "*"):
        a = d.get("/", {"If-None-Match": sent})
        t.equal((a.status, a.body, a.headers["ETag"], a.headers["Cache-Control"]),
                (304, b"", tag, "no-cache"), "the browser has it: " + sent)
        t.ok(a.headers["Content-Security-Policy"], "and its policy: " + sent)
    t.equal(d.get("/", {"If-None-Match": '"other"'}).status, 200, "it has another one")


def test_source(t, d):
    """Nothing of another host, and no text becomes markup."""
    text = source().decode()
    hosts = set(re.findall(r"https?:(?://[^\s'\"/]+)?", text))
    t.equal(hosts, {"http://www.w3.org"}, "it names no other host")
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                 "new Function", "localStorage.", "onclick=", "style="):
        t.ok(name not in text, "no " + name)
    t.equal((text.count("<script>"), text.count("<style>")), (1, 1), "one of each")


def test_off(t):
    d = Halod(page="no")
    a = d.get("/")
    t.equal((a.status, a.headers["Content-Type"], a.error["type"]),
            (404, "application/json", "not_found_error"), "page = no")
    t.ok("page" in a.error["message"], "says which setting it is", a.body)
    t.ok(a.headers.get("Content-Security-Policy") is None, "without the page's headers")
    t.equal(d.get("/stats").status, 200, "the numbers are still there")
    t.equal(d.stop(), 0, "halod ends well")


def test_keys(t):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys")
        with open(path, "w") as f:
            f.write("sk-one\n")
        os.chmod(path, 0o640)
        d = Halod(api_key_file=path, cors_origins="http://other")
        t.equal(d.get("/").status, 200, "the page needs no key")
        t.equal([d.get(p).status for p in ("/stats", "/slots", "/v1/models")], [401] * 3,
                "what it asks does")
        own = {"Origin": "http://127.0.0.1:%d" % d.port, "X-Api-Key": "sk-one"}
        t.equal(d.chat("Hi", own, max_tokens=1).status, 200, "its origin may ask")
        a = d.request("POST", "/v1/chat/completions", {"messages": []},
                      {**own, "Origin": "http://evil", "Content-Type": "text/plain"})
        t.equal(a.status, 403, "another one may not")
        t.equal(d.stop(), 0, "halod ends well")


t = Tap()
d = Halod()
for test in (test_headers, test_etag, test_source):
    try:
        test(t, d)
    except Exception:
        t.ok(False, test.__name__, traceback.format_exc())
t.equal(d.stop(), 0, "halod ends well")
for test in (test_off, test_keys):
    try:
        test(t)
    except Exception:
        t.ok(False, test.__name__, traceback.format_exc())
t.done()
