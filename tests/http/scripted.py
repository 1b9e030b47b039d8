# SPDX-License-Identifier: Apache-2.0
"""A server that says what a test wants, under halod's page and its headers: for answers that
a small model cannot write, and for faults that halod does not make.

    s = Scripted(d)                       # d: a halod, whose page it serves
    s.say("| a | b |", [Piece("…"), BREAK])   # answers to a last message of that text
    s.asked                               # the bodies of the requests, the newest last
    s.forms                               # those that ask for a transcript, "What was said."
    s.transcripts = [503, WAIT]           # what comes first for those: an error's status, or what waits for s.go()

An answer is a list of pieces: a str is content, a dict is a delta or `prompt_progress`, WAIT holds the stream until
s.go() is called (s.held() waits until it holds), BREAK cuts the connection (what came before it may be lost: put WAIT between), STOP ends without a finish_reason. An int is an
error's status, before anything was sent.
"""
import http.client
import http.server
import json
import threading
import time

from halod import PATIENCE

WAIT, BREAK, STOP = object(), object(), object()
EMPTY = {"n": 0, "median": None, "p95": None}


def bucket(**more):
    return {"requests": 0, "failed": 0, "output_tokens": 0, "tokens_per_second": 0, "running": 0,
            "waiting": 0, "kv_usage": 0, "memory_used": 0, "ttft_ms": EMPTY, "tpot_ms": EMPTY,
            **more}


def stats(buckets=(), requests=(), **more):
    buckets = [bucket() for _ in range(60 - len(buckets))] + list(buckets)
    return {"now": int(time.time()), "model": "scripted", "version": "1", "backend": "cpu",
            "running": 0, "waiting": 0, "waiting_tokens": 0, "kv_pages": 10, "kv_pages_used": 0,
            "kv_usage": 0, "memory": {"total": 64 << 30, "used": 24 << 30, "process": 9 << 30},
            "active": [], "ttft_ms": EMPTY, "tpot_ms": EMPTY, "bucket_seconds": 10,
            "buckets": buckets, "requests": list(requests), **more}


def model(name, sees=False, hears=False, watches=False):
    """watches: frames and files."""
    return {"id": name, "object": "model", "created": 1, "owned_by": "test", "architecture": {
        "input_modalities": ["text"] + ["image"] * sees + ["video"] * watches + ["audio"] * hears,
        "output_modalities": ["text"], "video_files": watches}}


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(
        p.get("text", "") for p in content)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, body, headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, status, value):
        self.send(status, json.dumps(value).encode(), [("Content-Type", "application/json")])

    def do_GET(self):
        s = self.server.scripted
        if self.path == "/":
            self.send(200, s.page, s.headers)
        elif self.path == "/v1/models":
            self.send_json(200, {"object": "list", "data": s.models})
        elif self.path == "/stats":
            self.send_json(200, s.stats)
        else:
            self.send_json(404, {"error": {"message": "not here"}})

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, delta, finish=None, **more):
        self.chunk(b"data: " + json.dumps({"choices": [
            {"index": 0, "delta": delta, "finish_reason": finish}], **more}).encode() + b"\n\n")

    def do_POST(self):
        s = self.server.scripted
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/audio/transcriptions":
            s.forms.append(raw)
            first = s.transcripts.pop(0) if s.transcripts else 200
            if first is WAIT:
                s.hold()
            elif first != 200:
                self.send_json(first, {"error": {"message": "scripted refusal"}})
                return
            self.send_json(200, {"text": "What was said."})
            return
        body = json.loads(raw)
        s.asked.append(body)
        pieces = s.answer_to(body)
        if isinstance(pieces[0], int):
            self.send_json(pieces[0], {"error": {"message": "scripted refusal"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.stream(s, pieces)
        except OSError:
            pass  # its client has left

    def stream(self, s, pieces):
        finish = "stop"
        for piece in pieces:
            if piece is WAIT:
                s.hold()
            elif piece is BREAK:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            elif piece is STOP:
                self.chunk(b"data: [DONE]\n\n")
                self.chunk(b"")
                return
            elif isinstance(piece, str):
                self.event({"content": piece})
            elif "prompt_progress" in piece:
                self.event({}, **piece)
            else:
                finish = piece.pop("finish", finish)
                self.event(piece)
        self.event({}, finish, timings={"ttft_ms": 120.0, "predicted_n": 42,
                                        "predicted_per_second": 20.0})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass  # a browser that goes away


class Scripted:
    def __init__(self, d):
        conn = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
        conn.request("GET", "/", headers={"Accept-Encoding": "gzip"})
        r = conn.getresponse()
        self.page = r.read()
        self.headers = [(k, v) for k, v in r.getheaders() if k in (
            "Content-Type", "Content-Encoding", "Content-Security-Policy")]
        conn.close()
        self.models, self.stats = [model("scripted")], stats()
        self.answers, self.asked, self.forms, self.transcripts = {}, [], [], []
        self.holding, self.news = [], threading.Condition()  # the newest last
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.scripted = self
        self.port = self.server.server_address[1]
        self.url = "http://127.0.0.1:%d/" % self.port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def say(self, question, *answers):
        """Answers to this question: the first one first, the last one ever after."""
        self.answers[question] = list(answers)

    def answer_to(self, body):
        last = body["messages"][-1]
        key = text_of(last)
        for question, answers in self.answers.items():
            if key.endswith(question):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                return [dict(p) if isinstance(p, dict) else p for p in answer]
        return ["You said: " + key]

    def hold(self):
        gate = threading.Event()
        with self.news:
            self.holding.append(gate)
            self.news.notify_all()
        gate.wait(PATIENCE)

    def held(self):
        """Until an answer holds."""
        with self.news:
            assert self.news.wait_for(lambda: self.holding, PATIENCE), "no answer holds"

    def go(self):
        """Let the newest answer that holds go on, also one that its client has left."""
        self.held()
        with self.news:
            self.holding.pop().set()

    def begin(self):
        """Nothing of what an earlier test has asked holds."""
        while self.holding:
            self.go()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
