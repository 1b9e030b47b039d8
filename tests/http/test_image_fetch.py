#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images by their address, from a server of this test's own: which are fetched, and what each
fault of that server says. The server's side tells what was asked of it, and when a connection
ends."""
import json
import os
import socket
import tempfile
import threading
import time

from halod import PATIENCE, SRCDIR, Halod, run
from test_images import MODEL, chat, image, raw, text, user

AT = "messages[0].content[0].image_url.url"
LIMIT = 6000  # max_image_bytes: the longest of the pictures below has fewer


class Server:
    """One thread a connection. A path is a row: what is answered, or a function that gets the
    socket."""

    def __init__(self):
        self.rows, self.asked, self.ended = {}, [], threading.Semaphore(0)
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port = self.socket.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.socket.accept()
            except OSError:
                return
            s.settimeout(PATIENCE)
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with s:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = s.recv(4096)
                if not piece:
                    return
                head += piece
            path = head.split(b" ")[1].decode()
            self.asked.append((path, head.decode()))
            row = self.rows[path]
            try:
                if callable(row):
                    row(s)
                else:
                    s.sendall(row)
            except OSError:
                pass
        self.ended.release()

    def paths(self):
        return [path for path, _ in self.asked]


def answer(body, kind="image/png", status="200 OK", more="", length=None):
    return ("HTTP/1.1 %s\r\n%sContent-Length: %d\r\nConnection: close\r\n%s\r\n" % (
        status, "Content-Type: %s\r\n" % kind if kind else "",
        len(body) if length is None else length, more)).encode() + body


def redirect(to):
    return answer(b"<p>elsewhere</p>" * 9, "text/html", "302 Found", "Location: %s\r\n" % to)


def wait_for_hangup(s):
    """What a server that never answers sees: until the other side is gone."""
    while s.recv(4096):
        pass


def drip(s):
    """A byte at a time, so that the connection is never idle."""
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 5000\r\n\r\n")
    s.settimeout(0.05)
    while True:
        try:
            if not s.recv(1):
                return
        except TimeoutError:
            s.sendall(b"x")


def endless(s):
    """More than is allowed, without saying how much."""
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n")
    while True:
        s.sendall(b"x" * 4096)


def by(url):
    return {"type": "image_url", "image_url": {"url": url}}


WORDS = text("What is it?")


def ask(d, url, **more):
    return chat(d, user(by(url), WORDS), logprobs=True, **more)


def test_fetched(t, d):
    png = raw("rgb.png")
    want = chat(d, user(image("rgb.png"), WORDS), logprobs=True).json
    SERVER.rows.update({
        "/a/rgb.png": answer(png), "/a/rgb.png?v=1%20x": answer(png),
        "/a/untyped": answer(png, None), "/a/bytes": answer(png, "application/octet-stream"),
        "/a/once": redirect("/a/twice"), "/a/twice": redirect(SERVER.url + "/a/thrice"),
        "/a/thrice": redirect("rgb.png")})
    for path in ("/a/rgb.png", "/a/rgb.png?v=1%20x", "/a/untyped", "/a/bytes", "/a/once"):
        a = ask(d, SERVER.url + path)
        t.ok(a.status == 200 and
             a.json["choices"][0]["logprobs"] == want["choices"][0]["logprobs"],
             path + " is answered as its data URL", a.body)
    t.equal(SERVER.paths()[-4:], ["/a/once", "/a/twice", "/a/thrice", "/a/rgb.png"],
            "redirections were followed")
    head = SERVER.asked[0][1]
    t.ok("\r\nUser-Agent: halod/" in head and "Authorization" not in head and
         "Cookie" not in head, "what the server is told", head)
    a = d.request("POST", "/v1/messages", {"max_tokens": 1, "messages": user(
        {"type": "image", "source": {"type": "url", "url": SERVER.url + "/a/rgb.png"}}, WORDS)})
    t.equal(a.status, 200, "in Anthropic's words")
    a = d.request("POST", "/v1/responses", {"max_output_tokens": 1, "store": False, "input": [
        {"role": "user", "content": [
            {"type": "input_image", "image_url": SERVER.url + "/a/rgb.png"},
            {"type": "input_text", "text": "?"}]}]})
    t.equal(a.status, 200, "in the words of Responses")
    a = d.request("POST", "/tokenize", {"messages": user(by(SERVER.url + "/a/rgb.png"))})
    t.ok(a.json["tokens"].count(505) > 1, "/tokenize counts its tokens", a.body)


def refused(t, d, url, *words):
    a = ask(d, url)
    error = a.json.get("error", {})
    t.ok(a.status == 400 and error.get("param") == AT and
         all(w in error["message"] for w in words), "%s: %s" % (url, words[0]), a.body)


def test_refused(t, d):
    png = raw("rgb.png")
    other = "http://localhost:%d/a/rgb.png" % SERVER.port
    SERVER.rows.update({
        "/a/missing": answer(b"no", "text/plain", "404 Not Found"),
        "/a/empty-404": answer(b"", None, "404 Not Found"),
        "/a/page": answer(b"<html>", "text/html; charset=utf-8"),
        "/a/no-image": answer(b"plain words"),
        "/a/long": answer(b"x" * (LIMIT + 1)),
        "/a/claims": answer(b"x", length=1 << 40),
        "/a/endless": endless,
        "/a/short": answer(png[:50], length=len(png)),
        "/a/nothing": lambda s: None,
        "/a/away": redirect(other), "/a/up": redirect("/b/rgb.png"),
        "/a/file": redirect("file:///etc/passwd"), "/a/round": redirect("/a/round"),
        "/b/rgb.png": answer(png)})
    n = len(SERVER.asked)
    for path, *words in (
            ("/a/missing", "status 404"), ("/a/empty-404", "status 404"),
            ("/a/page", "is no image", "text/html"), ("/a/no-image", "not a JPEG, PNG or WebP"),
            ("/a/long", "longer than %d bytes (max_image_bytes)" % LIMIT),
            ("/a/claims", "longer than"), ("/a/endless", "longer than"),
            ("/a/short", "cannot be fetched"), ("/a/nothing", "cannot be fetched"),
            ("/a/away", "redirects to another host, localhost"),
            ("/a/up", "image_urls does not allow"), ("/a/file", "redirects to no address"),
            ("/a/round", "redirects more than 3 times")):
        refused(t, d, SERVER.url + path, *words)
    refused(t, d, "http://127.0.0.1:1/a/x", "cannot be fetched", "onnect")
    t.equal(SERVER.paths()[n:].count("/a/round"), 4, "four requests at most")
    t.ok("/b/rgb.png" not in SERVER.paths(), "nothing was asked beside what is allowed")
    n = len(SERVER.asked)
    for url in (SERVER.url + "/b/rgb.png", SERVER.url + "/a/%2e%2e/b/rgb.png", other,
                SERVER.url.replace("http", "https") + "/a/rgb.png", "file:///etc/passwd",
                SERVER.url.replace("127.0.0.1", "user@127.0.0.1") + "/a/rgb.png"):
        refused(t, d, url, "fetches no images from there")
    t.equal(len(SERVER.asked), n, "and nothing was asked for these")
    t.equal(ask(d, SERVER.url + "/a/rgb.png").status, 200, "a good one is still fetched")


def test_slow(t, d):
    """Others are served meanwhile."""
    SERVER.rows.update({"/a/hangs": wait_for_hangup, "/a/drips": drip})
    hasty = Halod(model=MODEL, image_urls=SERVER.url + "/a/", image_fetch_timeout="1s",
                  self_check="no")
    for path in ("/a/hangs", "/a/drips"):
        answers = []
        waits = threading.Thread(target=lambda: answers.append(ask(hasty, SERVER.url + path)))
        waits.start()
        s = hasty.stream("Hello", max_tokens=4)
        t.ok(list(s.events())[-1] == "[DONE]", "a stream goes on beside " + path)
        waits.join(PATIENCE)
        error = answers[0].json["error"]
        t.ok(answers[0].status == 400 and "takes longer than 1 s" in error["message"] and
             error["param"] == AT, path + " takes too long", error)
    t.equal(hasty.stop(), 0, "and it ends well")


def test_gone(t, d):
    """A client that hangs up ends the fetch, long before its time is over."""
    SERVER.rows["/a/hangs"] = wait_for_hangup
    patient = Halod(model=MODEL, image_urls=SERVER.url + "/a/", image_fetch_timeout="1m",
                    self_check="no")
    while SERVER.ended.acquire(blocking=False):
        pass
    url = SERVER.url + "/a/hangs"
    part = {"type": "image_url", "image_url": url}
    anthropic = {"type": "image", "source": {"type": "url", "url": url}}

    def hang_up(path):
        """... as soon as the image is asked for."""
        n = len(SERVER.asked)
        content = [anthropic if b"count" in path else part]
        body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
        s = patient.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: gone%s\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (path, path, len(body), body))
        for _ in range(int(PATIENCE * 100)):
            if len(SERVER.asked) > n:
                break
            time.sleep(0.01)
        s.close()

    for path in (b"/v1/chat/completions", b"/tokenize", b"/v1/messages/count_tokens"):
        hang_up(path)
        t.ok(SERVER.ended.acquire(timeout=50), "the connection to the image's server ends")
        line = patient.access("gone" + path.decode())
        t.ok(line["status"] != 200, "and the request is over", line)
    # A stop does not wait for a fetch either.
    hang_up(b"/v1/chat/completions")
    t.equal(patient.stop(), 0, "and halod ends well")


def test_files(t, d):
    with tempfile.TemporaryDirectory() as tmp:
        folder = os.path.join(tmp, "images")
        os.mkdir(folder)
        with open(os.path.join(folder, "rgb.png"), "wb") as f:
            f.write(raw("rgb.png"))
        with open(os.path.join(tmp, "outside.png"), "wb") as f:
            f.write(raw("rgb.png"))
        os.symlink("../outside.png", os.path.join(folder, "link.png"))
        files = Halod(model=MODEL, image_dir=folder, self_check="no")
        t.equal(ask(files, "file://" + folder + "/rgb.png").status, 200, "a file of image_dir")
        refused(t, files, "file://" + folder + "/link.png", "leads out of image_dir")
        refused(t, files, "file://" + tmp + "/outside.png", "not below image_dir")
        refused(t, files, SERVER.url + "/a/rgb.png", "fetches no images from there")
        t.equal(files.stop(), 0, "and it ends well")


def test_wrong_settings(t, d):
    for key, value in (("image_urls", "example.org"), ("image_dir", "/nonexistent")):
        wrong = Halod.__new__(Halod)
        try:
            wrong.__init__(model=MODEL, **{key: value})
            t.ok(False, "%s = %s starts" % (key, value))
        except AssertionError:
            t.equal(wrong.process.wait(PATIENCE), 2, "%s = %s ends with status 2" % (key, value))
            t.ok(any(key in (line or "") for line in wrong.lines), "and names it", wrong.lines)


SERVER = Server()

if __name__ == "__main__":
    run([test_fetched, test_refused, test_slow, test_gone, test_files, test_wrong_settings],
        model=MODEL, exact="yes", image_urls=SERVER.url + "/a/, http://127.0.0.1:1/a/",
        image_fetch_timeout="1m", max_image_bytes=LIMIT)
