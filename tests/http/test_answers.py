#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl verify --answers: against halod with halo-tiny, and against servers that lie."""
import http.server
import json
import os
import subprocess
import threading

from halod import BUILDDIR, MODEL, run
from quiet import Quiet

REFERENCE = os.path.join(MODEL, "reference.json")
CHECKS = ["arithmetic", "fact", "story", "tool call", "JSON schema", "stream",
          "batch of four", "reference"]


def haloctl(*args):
    p = subprocess.run([os.path.join(BUILDDIR, "haloctl"), "verify", "--answers", *args],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=600)
    return p.returncode, p.stdout, p.stderr


def answers(*args):
    code, out, err = haloctl("--json", *args)
    return code, json.loads(out) if out else {}, err


def verdicts(said):
    return {c["check"]: c["verdict"] for c in said["checks"]}


class Liar(Quiet):
    """Says `text` to everything."""
    protocol_version = "HTTP/1.1"
    text, status, calls = "", 200, None # what to say

    def send(self, body, kind="application/json", status=200):
        body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send('{"object":"list","data":[{"id":"liar"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.status != 200 and (self.status != 400 or "tools" in body):
            self.send('{"error":{"message":"no such thing"}}', status=self.status)
            return
        text = self.text
        if body.get("stream"):
            part = {"choices": [{"index": 0, "delta": {"content": text[1:]}}]}
            self.send("data: %s\n\ndata: [DONE]\n\n" % json.dumps(part),
                      "text/event-stream")
        else:
            message = {"role": "assistant", "content": text, "tool_calls": self.calls}
            self.send(json.dumps({"choices": [{"message": message, "text": text}]}))


def lie(**said):
    handler = type("Handler", (Liar,), said)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        return answers("--url", "http://127.0.0.1:%d/" % server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def doctor(url):
    p = subprocess.run([os.path.join(BUILDDIR, "haloctl"), "doctor", "--quick", "--backend",
                        "cpu", "--url", url], stdout=subprocess.PIPE, text=True, timeout=600)
    return p.stdout.splitlines()[-1]


def test_doctor(t, d):
    said = doctor("http://127.0.0.1:%d" % d.port)
    t.ok("answers" in said and said.startswith("ok"), "doctor --url: a sound model", said)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (Liar,), {"text": "Maybe."}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    said = doctor("http://127.0.0.1:%d" % server.server_port)
    t.ok("answers" in said and said.startswith("bad"), "doctor --url: a liar", said)
    server.shutdown()
    server.server_close()


def test_sound_model(t, d):
    url = "http://127.0.0.1:%d" % d.port
    code, said, err = answers("--url", url, "--reference", REFERENCE)
    t.equal((code, verdicts(said)), (0, {c: "pass" for c in CHECKS}), "halo-tiny's answers")
    t.equal(said["model"], "halo-tiny", "the model is the one that the server lists")
    code, out, err = haloctl("--url", url, "--model", "other")
    t.ok(code == 1 and "other" in out and out.endswith("FAIL\n"),
         "an unknown model: each check says what the server said", out)


def test_lies(t, d):
    bad = {c: "FAIL" for c in CHECKS}
    bad["reference"] = "skip"
    code, said, err = lie(text="the the the the the the the the the the the the")
    t.equal((code, verdicts(said)), (1, dict(bad, **{"batch of four": "pass"})),
            "a server that loops")
    code, said, err = lie(status=500)
    t.equal((code, verdicts(said)), (1, bad), "a server that fails")
    t.ok(all("no such thing" in c["said"] for c in said["checks"][:-1]),
         "what it said is told", said)
    code, said, err = lie(status=400, text="4 Paris")
    t.equal((code, verdicts(said)["tool call"], verdicts(said)["fact"]),
            (1, "skip", "pass"), "a template without tools")
    code, said, err = lie(text='{"name": "x", "age": 3}', calls=[{"function": {
        "name": "get_current_weather", "arguments": '{"city": "Paris"}'}}])
    t.equal([verdicts(said)[c] for c in ("tool call", "JSON schema", "stream")],
            ["pass", "pass", "FAIL"], "a call and an object that fit; another stream")
    code, said, err = lie(text='{"name": "x", "age": "3"}', calls=[{"function": {
        "name": "get_current_weather", "arguments": '{"city": "Rome"}'}}])
    t.equal([verdicts(said)[c] for c in ("tool call", "JSON schema")], ["FAIL", "FAIL"],
            "a call and an object that do not")


def test_no_server(t, d):
    code, out, err = haloctl("--url", "http://127.0.0.1:1")
    t.ok(code == 2 and "127.0.0.1:1" in err, "no server", (code, err))


run([test_sound_model, test_doctor, test_lies, test_no_server])
