#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at "/" as HTTP has it: its headers, its policy, its ETag, its compression, and its
setting. test_browser.py and its neighbours drive it."""
import base64
import glob
import gzip
import hashlib
import os
import re
import subprocess
import tempfile

from halod import BUILDDIR, SRCDIR, Halod, Tap, traceback

PAGE = os.path.join(SRCDIR, "src", "page")
LONGEST = 1_000_000  # bytes, compressed


def source():
    with open(os.path.join(BUILDDIR, "src", "page", "page.html"), "rb") as f:
        return f.read()


def hash_of(tag):
    inside = re.search(b"<%s>(.*?)</%s>" % (tag, tag), source(), re.S).group(1)
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(inside).digest()).decode()


def test_headers(t, d):
    a = d.get("/")
    t.equal((a.status, a.headers["Content-Type"]), (200, "text/html; charset=utf-8"),
            "the page")
    t.ok(a.body == source(), "is the file that was joined")
    t.equal(a.headers["Vary"], "Accept-Encoding", "to a client that takes no gzip")
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
    t.equal([policy[x + "-src"] for x in ("img", "media", "font")], ["data:"] * 3,
            "pictures and letters come from the page alone")
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


def test_gzip(t, d):
    plain = d.get("/")
    for sent in ("gzip", "deflate, gzip, br", "br;q=1, GZip;q=0.5", "gzip; q=0.001"):
        a = d.get("/", {"Accept-Encoding": sent})
        t.equal((a.headers["Content-Encoding"], gzip.decompress(a.body) == plain.body), ("gzip", True),
                "compressed: " + sent)
        t.equal((a.headers["Vary"], a.headers["Content-Security-Policy"]),
                ("Accept-Encoding", plain.headers["Content-Security-Policy"]), "with its headers")
    print("# %d bytes, %d compressed" % (len(plain.body), len(a.body)))
    t.ok(len(a.body) < LONGEST, "it is short enough", len(a.body))
    t.ok(a.headers["ETag"] != plain.headers["ETag"], "its tag is another one")
    known = d.get("/", {"Accept-Encoding": "gzip", "If-None-Match": a.headers["ETag"]})
    t.equal((known.status, known.headers.get("Content-Encoding"), known.headers["ETag"]),
            (304, None, a.headers["ETag"]), "which the browser may have")
    t.equal(d.get("/", {"Accept-Encoding": "gzip", "If-None-Match": plain.headers["ETag"]}).status, 200,
            "the plain one's is no tag of the compressed one")
    for sent in ("", "identity", "gzip;q=0", "gzip; q=0.0", "br"):
        a = d.get("/", {"Accept-Encoding": sent})
        t.equal((a.headers.get("Content-Encoding"), a.body == plain.body), (None, True),
                "as it is: %r" % sent)
    head = d.request("HEAD", "/", None, {"Accept-Encoding": "gzip"})
    t.equal((head.headers["Content-Encoding"], head.body), ("gzip", b""), "HEAD")


def test_source(t, d):
    """Nothing of another host, and no text becomes markup."""
    own = glob.glob(PAGE + "/*.js") + glob.glob(PAGE + "/*.css") + [PAGE + "/index.html"]
    text = "".join(open(name, encoding="utf-8").read() for name in own)
    hosts = set(re.findall(r"https?://[^\s'\"/)]+", text))
    t.equal(hosts, {"http://www.w3.org"}, "it names no other host but that of a namespace")
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                 "new Function", "onclick=", "style=", "setAttribute(\"style"):
        t.ok(name not in text, "no " + name)
    page = source().decode()
    t.equal([page.count(tag) for tag in ("<script>", "</script>", "<style>", "</style>")], [1] * 4,
            "one of each")
    named = subprocess.run(["sed", "-n", "/^PAGE_FILES/,/[^\\\\]$/p", PAGE + "/Makefile.inc"],
                           capture_output=True, text=True, check=True).stdout
    t.equal({os.path.basename(name) for name in own} - {"index.html"} - set(named.split()), set(),
            "each file is part of it")
    licences = open(PAGE + "/lib/LICENSES", encoding="utf-8").read()
    t.ok(licences.count("===") >= 16 and licences.split("\n")[5] in page, "with the licences of others")


def test_off(t):
    d = Halod(page="no")
    a = d.get("/")
    t.equal((a.status, a.headers["Content-Type"], a.error["type"]),
            (404, "application/json", "not_found_error"), "page = off")
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
for test in (test_headers, test_etag, test_gzip, test_source):
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
