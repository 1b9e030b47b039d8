#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl chat: a conversation with a model of its own, with a server, and on a terminal;
and the line of progress that commands show there."""
import http.server
import json
import os
import pty
import select
import signal
import subprocess
import tempfile
import threading

from stand_in import Quiet
from tap import BUILD, TINY, done, eq, haloctl, ok

PATIENCE = 60
PROGRAM = os.path.join(BUILD, "haloctl")


class Server(Quiet):
    """Speaks as much of OpenAI's API as a chat needs; wants the key "k"."""
    bodies = []

    def send(self, status, text, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def is_allowed(self):
        if self.headers["Authorization"] == "Bearer k":
            return True
        self.send(401, '{"error": {"message": "who are you"}}')
        return False

    def do_GET(self):
        if self.is_allowed():
            self.send(200, '{"data": [{"id": "m1"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_allowed():
            return
        Server.bodies.append(body)
        if body["messages"][-1]["content"] == "fail":
            self.send(429, '{"error": {"message": "too much"}}')
            return
        deltas = [{"reasoning_content": "let me think"}, {"content": "It is "},
                  {"content": "four."}]
        lines = ["data: " + json.dumps({"choices": [{"delta": d}]}) for d in deltas]
        if body["messages"][-1]["content"] == "long":
            lines = lines[:-1]
        self.send(200, "\n\n".join(lines) + "\n\n", "text/event-stream")
        if body["messages"][-1]["content"] == "long":
            self.wfile.flush()
            self.rfile.read(1)  # until the client goes
        else:
            self.wfile.write(b"data: [DONE]\n\n")


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(PROGRAM, [PROGRAM, *argv])
        self.text = ""

    def read(self):
        if not select.select([self.fd], [], [], PATIENCE)[0]:
            return ""
        try:
            return os.read(self.fd, 4096).decode(errors="replace")
        except OSError:  # the program has ended
            return ""

    def until(self, text):
        """All that came up to `text`; what follows stays for the next call."""
        while text not in self.text:
            more = self.read()
            if not more:
                break
            self.text += more
        seen, found, self.text = self.text.partition(text)
        return seen + found

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        while True:
            more = self.read()
            if not more:
                break
            self.text += more
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_own_model():
    script = b"/system Answer in one word.\nWhat is 2+2?\n/retry\n/undo\nSay\\\nhello.\n"
    code, out, err = haloctl("chat", "--model", TINY, "--no-think", "--temperature", "0",
                             "-n", "24", "--backend", "cpu", stdin=script)
    lines = [line for line in out.decode().split("\n") if line]
    eq(code, 0, "a conversation with a model of its own")
    ok(len(lines) >= 3 and lines[0] == lines[1], "/retry answers the same again", (lines, err))
    code, out, err = haloctl("chat", "--model", "/nonexistent")
    ok(code == 2 and "no such folder" in err, "a model that is not there: halod's words", err)
    code, _, err = haloctl("chat", "--model", TINY, "--url", "http://127.0.0.1:1")
    ok(code == 2 and "exclude" in err, "--model beside --url", err)
    code, _, err = haloctl("chat", "some-model")
    ok(code == 2 and "use --model some-model" in err, "a word that is no option", err)


def test_server(url):
    for address, says in (("http://127.0.0.1:1", "nobody answers there"),
                          ("http://no.such.invalid", "there is no host of this name"),
                          ("nonsense://x", "this is no address of a server"),
                          (url.replace("http:", "https:"), "SSL")):
        code, out, err = haloctl("chat", "--url", address)
        ok(code == 2 and says in err, "%s: %s" % (address.split(":")[0], says), err)
    code, out, err = haloctl("chat", "--url", url + "/", stdin=b"hello\n")
    ok(code == 2 and "wants an API key" in err, "without a key: what is missing", err)
    Server.bodies.clear()
    code, out, err = haloctl("chat", "--url", url, "--api-key", "k", "--seed", "5",
                             stdin=b"2+2?\nsure?\nfail\n/undo\nagain?\n")
    eq(out.decode(), "It is four.\n" * 3, "answers without reasoning go to stdout")
    ok("HTTP 429: too much" in err and code == 1, "a refusal is told", err)
    said = [[m["content"] for m in b["messages"]] for b in Server.bodies]
    eq(said, [["2+2?"], ["2+2?", "It is four.", "sure?"],
              ["2+2?", "It is four.", "sure?", "It is four.", "fail"],
              ["2+2?", "It is four.", "again?"]],
       "each request carries the conversation; refused and undone questions are out of it")
    eq({(b["model"], b["seed"], b["stream"]) for b in Server.bodies}, {("m1", 5, True)},
       "the server's model, and the options")


def test_terminal(url):
    os.environ["OPENAI_API_KEY"] = "k"
    t = Terminal("chat", "--url", url)
    t.until("> ")
    t.type("2+2?\n")
    seen = t.until("four.")
    ok("\x1b[2mlet me think" in seen and "\x1b[0mIt is four." in seen,
       "on a terminal reasoning is dim, the answer is not", repr(seen))
    t.until("> ")
    t.type("/think\n")
    t.until("> ")
    t.type("long\n")
    seen = t.until("It is ")
    ok("let me think" not in seen, "/think hides it", repr(seen))
    t.type("\x03")
    ok("[stopped]" in t.until("> "), "Ctrl-C stops the answer, and the chat goes on")
    t.type("/help\n")
    ok("/retry" in t.until("/quit"), "/help lists commands")
    t.until("> ")
    t.type("\x04")
    eq(t.wait(), 0, "Ctrl-D ends the chat")


def test_progress():
    with tempfile.TemporaryDirectory() as tmp:
        t = Terminal("synth", "--shape", "qwen3-1.7b", "--layers", "1", "--vocab", "8192",
                     "--out", tmp + "/m")
        eq(t.wait(), 0, "synth on a terminal")
        ok("writing 100 %" in t.text, "shows how far it is", repr(t.text))
    t = Terminal("bench", "model", "--model", TINY, "-p", "16", "-n", "4", "--backend", "cpu")
    eq(t.wait(), 0, "bench model on a terminal")
    ok("loading the model" in t.text and "prefill of 16 tokens" in t.text,
       "shows what it loads and measures", repr(t.text))
    p = subprocess.run([PROGRAM, "bench", "model", "--model", TINY, "-p", "16", "-n", "4"],
                       capture_output=True, timeout=PATIENCE)
    ok(b"\r" not in p.stdout + p.stderr, "in a pipe there is no such line", p.stderr)


def main():
    test_own_model()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://127.0.0.1:%d" % server.server_port
    test_server(url)
    test_terminal(url)
    test_progress()
    done()


main()
