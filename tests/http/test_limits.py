#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small server with hard limits: one sequence at a time, a prompt token a step, two
waiting. What a full queue says, clients that go away in every phase, silence, readers
that do not read."""
import json
import os
import select
import socket
import struct

from halod import CHECK, SRCDIR, Halod, run, read_all

# Sanitizers see the same code in fewer repetitions.
TIMES = 20 if "short" in CHECK else 60

PROMPT = "tell me more about it " * 500  # at a token a step, seconds of prefill


def idle(d):
    return d.wait_metrics(num_requests_running=0, num_requests_waiting=0,
                          kv_pages_used=0)


def gone(t, d, before, what):
    """The client has just hung up: everything of it becomes free, and it is counted."""
    idle(d)
    d.wait_metrics(client_disconnects_total=before + 1)
    t.ok(True, what)


def disconnects(d):
    return d.metrics()["client_disconnects_total"]


def test_queue_full(t, d):
    first = d.long_stream()
    d.wait_metrics(num_requests_running=1)
    waiting = [d.connect() for _ in range(2)]
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}],
                       "max_tokens": 1})
    for w in waiting:
        w.request("POST", "/v1/chat/completions", body)
    d.wait_metrics(num_requests_waiting=2)
    for stream in (False, True):
        a = d.chat("Hi", stream=stream)
        t.equal((a.status, a.error["type"], a.error["code"]),
                (429, "rate_limit_exceeded", "queue_full"), "a full queue")
        t.ok(int(a.headers["Retry-After"]) >= 1, "says when to come again")
        t.equal(a.headers["Connection"], None, "and keeps the connection")
    t.equal(d.metrics()['requests_rejected_total{reason="queue_full"}'], 2,
            "is counted")
    a = d.get("/health")
    t.ok(a.status == 200 and a.json["running"] == 1 and a.json["waiting"] == 2,
         "/health says how full", a.json)
    t.equal(d.get("/health?ready").status, 200,
            "a full queue takes the server out of no balancer")
    first.close()
    t.equal([w.getresponse().status for w in waiting], [200, 200],
            "the waiting ones are served when there is room")
    idle(d)


def test_gone_in_queue(t, d):
    first, before = d.long_stream(), disconnects(d)
    conn = d.connect()
    conn.request("POST", "/v1/chat/completions",
                 json.dumps({"messages": [{"role": "user", "content": "Hi"}]}),
                 {"X-Request-Id": "gone-queued"})
    d.wait_metrics(num_requests_waiting=1)
    conn.close()
    d.wait_metrics(num_requests_waiting=0, num_requests_running=1)
    d.wait_metrics(client_disconnects_total=before + 1)
    log = d.access("gone-queued")
    t.ok(log["status"] == 499 and log["end"] == "client_gone" and
         log["output_tokens"] == 0 and log["finish"] == "abort",
         "a client that leaves the queue is noticed while the first one runs", log)
    first.close()
    gone(t, d, before + 1, "the first one, too")


def test_gone_in_prefill(t, d):
    for stream in (False, True):
        before = disconnects(d)
        conn = d.connect()
        conn.request("POST", "/v1/chat/completions", json.dumps(
            {"messages": [{"role": "user", "content": "%s %s" % (stream, PROMPT)}],
             "stream": stream}), {"X-Request-Id": "gone-prefill-%d" % stream})
        d.wait_metrics(num_requests_running=1)
        conn.sock.close()
        gone(t, d, before, "a client that leaves in prefill (stream: %s) is noticed" % stream)
        log = d.access("gone-prefill-%d" % stream)
        t.ok(log["status"] == 499 and log["output_tokens"] == 0,
             "before its first token", log)


def test_gone_in_stream(t, d):
    before = disconnects(d)
    s = d.long_stream(headers={"X-Request-Id": "gone-stream"})
    s.close()
    gone(t, d, before, "a client that leaves its stream is noticed")
    log = d.access("gone-stream")
    t.ok(log["status"] == 499 and 0 < log["output_tokens"] < 3000 and log["stream"],
         "before the answer ends", log)
    before = disconnects(d)
    conn = d.connect()
    conn.request("POST", "/v1/chat/completions", json.dumps(
        {"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": True,
         "max_tokens": 3000}))
    d.wait_metrics(num_requests_running=1)
    conn.sock.shutdown(socket.SHUT_WR)
    gone(t, d, before, "half a hang-up counts as one")
    conn.close()


def test_gone_in_upload(t, d):
    before = disconnects(d)
    s = d.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
              b"\r\n" + b"x" * 50000)
    s.close()
    gone(t, d, before, "a client that leaves in its upload is noticed")
    before = disconnects(d)
    body = json.dumps({"prompt": PROMPT}).encode() + b" " * 900000
    s = d.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
              b"\r\n%s" % (len(body), body))
    s.close()
    gone(t, d, before, "so is one that leaves right after a large one")


def test_gone_with_answer(t, d):
    """Who closes with a reset as soon as it has the whole answer, as HAProxy does."""
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
    before = disconnects(d)
    for i in range(TIMES):
        s = d.raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: whole-%d"
                  b"\r\nContent-Length: %d\r\n\r\n%s" % (i, len(body), body.encode()))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        data = b""
        while not data.endswith(b"}") or data.count(b"{") != data.count(b"}"):
            data += s.recv(65536)
        s.close()
    log = [d.access("whole-%d" % i) for i in range(TIMES)]
    t.equal([x for x in log if x["status"] != 200 or "end" in x], [],
            "has been served, says the log")
    t.equal(disconnects(d), before, "and so do the metrics")


def comments(d, stream, n):
    out = []
    for line in stream.lines():
        if line.startswith(":"):
            out.append(line)
        if len(out) == n or line == "data: [DONE]":
            return out


def test_keepalive(t, d):
    """keepalive is 1 s here."""
    first = d.long_stream()
    second = d.stream("Hi", max_tokens=2)
    t.equal(second.status, 200, "a stream that waits gets its head")
    t.equal(comments(d, second, 2), [": keepalive"] * 2, "and comments")
    t.equal(d.metrics()["num_requests_waiting"], 1, "while it waits")
    first.close()
    events = list(second.events())
    t.ok(events[-1] == "[DONE]" and len(events) > 2, "then its answer", events)
    s = d.stream("another " + PROMPT, max_tokens=2)
    t.equal(comments(d, s, 1), [": keepalive"], "so does one in prefill")
    s.close()
    s = d.stream("a third " + PROMPT, path="/api/chat", model="halo-tiny")
    said = [json.loads(line) for line, _ in zip(s.lines(), range(2))]
    t.equal([(x["message"]["content"], x["done"]) for x in said], [("", False)] * 2,
            "a stream of Ollama's gets lines without a word")
    s.close()
    idle(d)


def test_head(t, _):
    """Until the first token a stream has no byte, so a proxy may give it to another server."""
    d = Halod(exact="yes", max_seqs=1, max_batch_tokens=1, prefill_chunk=1, prefix_cache="no",
              keepalive="1m")
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
        what = {"input": PROMPT, "max_output_tokens": 2} if path.endswith("responses") else \
               {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2}
        body = json.dumps({"stream": True, **what})
        s = d.raw(("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   "Content-Length: %d\r\n\r\n%s" % (path, len(body), body)).encode())
        d.wait_metrics(num_requests_running=1)
        d.get("/health")  # the loop has passed on what the engine said of its beginning
        t.ok(not select.select([s], [], [], 0)[0], "no byte in prefill of " + path)
        if path != "/v1/messages":
            s.close()
            idle(d)
    d.process.kill()
    try:
        got = s.recv(100)
    except ConnectionResetError:
        got = b""
    t.equal(got, b"", "nor when the server dies meanwhile")
    d.process.wait()


def test_max_wait(t, _):
    """A stream that waits too long is refused like any other call, as long as it has no byte."""
    for keepalive, max_wait in ("1m", "200ms"), ("1s", "3s"):
        d = Halod(exact="yes", max_seqs=1, keepalive=keepalive, max_wait=max_wait)
        first = d.long_stream()
        s = d.stream("Hi", max_tokens=2)
        if keepalive == "1m":
            t.equal((s.status, s.headers["Retry-After"]), (503, "2"), "503 and Retry-After")
            e = json.loads(s.response.read())["error"]
        else:
            t.equal(s.status, 200, "keepalive is shorter: the stream has begun")
            events = list(s.events())
            t.equal(len(events), 1, "its error is an event")
            e = events[0]["error"]
        t.ok(e["code"] == "timeout" and "in the queue" in e["message"], "says why", e)
        first.close()
        t.equal(d.stop(), 0, "ends well")


def test_slow_reader(t, _):
    """Of a small model's answers: what counts is their bytes. Another daemon, with an hour's
    patience, still has the same reader when this one has dropped two."""
    model = {"model": os.path.join(SRCDIR, "tests/golden/models/qwen3-bf16"), "max_seqs": 1,
             "prefix_cache": "no"}
    patient = Halod(stall_timeout="1h", **model)
    kept = patient.slow_stream(300, "slow-0")
    d = Halod(stall_timeout="1s", **model)
    before = d.metrics()["sse_clients_stalled_total"]
    s = d.slow_stream(300, "slow-1")  # fits into the stream's buffer
    # Not asked whether it runs: on a busy machine it may have ended by then.
    d.wait_metrics(sse_clients_stalled_total=before + 1)
    idle(d)
    log = d.access("slow-1")
    # Under a sanitizer the answer may take longer than the patience with its reader.
    t.ok(log["end"] == "stalled" and
         (log["output_tokens"] == 300 or log["finish"] == "abort"),
         "who does not read the rest is dropped", log)
    data = read_all(s)
    t.ok(b"data: {" in data and b"[DONE]" not in data, "its stream is cut")
    s.close()
    s = d.slow_stream(3500, "slow-2")
    d.wait_metrics(sse_clients_stalled_total=before + 2)
    idle(d)
    log = d.access("slow-2")
    t.ok(log["end"] == "stalled" and log["finish"] == "abort" and
         log["output_tokens"] < 3500, "a running request is ended", log)
    s.close()
    t.equal(patient.metrics()["sse_clients_stalled_total"], 0,
            "a longer stall_timeout still waits for its reader")
    kept.close()
    t.equal(patient.stop(), 0, "ends well")
    s = d.stream("Hi", max_tokens=300, ignore_eos=True, logprobs=True,
                 top_logprobs=20)
    t.equal(list(s.events())[-1], "[DONE]", "one that reads is not")
    idle(d)
    t.equal(d.stop(), 0, "it ends well")


def test_slow_request(t, d):
    """idle_timeout is 6 s here, header_timeout 3 s."""
    late = b"HTTP/1.1 408 "
    parts = {"nothing": (b"", b""), "half a line": (b"GET /he", late),
             "half the headers": (b"GET /health HTTP/1.1\r\nHost:", late),
             "half a body": (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                             b"Content-Length: 10\r\n\r\n{", late)}
    socks = {what: d.raw(data) for what, (data, _) in parts.items()}
    conn = d.connect()
    conn.request("GET", "/health")
    conn.getresponse().read()
    for what, s in socks.items():
        said = read_all(s)
        t.equal((said[:13], b"request_timeout" in said), (parts[what][1],
                bool(parts[what][1])), "%s, and then silence: closed" % what)
        s.close()
    t.equal(conn.sock.recv(1), b"", "an idle connection is closed")
    conn.close()


def test_many(t, d):
    """More connections than max_connections (50): who is idle makes room."""
    before = d.metrics()
    socks = [d.raw(b"GET /he") for _ in range(60)]
    ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    t.ok(b"200 OK" in d.raw_answer(ask), "a crowd with half a head each is no obstacle")
    t.equal(read_all(socks[0]), b"", "its oldest is closed")
    for s in socks[50:]:
        s.sendall(ask[7:])
    t.ok(all(b"200 OK" in read_all(s) for s in socks[50:]), "its newest are served")
    for s in socks:
        s.close()
    now = d.metrics()
    key = 'connections_refused_total{reason="idle"}'
    t.ok(now[key] - before[key] >= 10, "those that were closed are counted", now[key])
    t.ok(d.wait_log("closed connections: .* to make room"), "and told in the log")
    t.ok(0 < now["connections"] <= 50, "so are the open ones", now["connections"])


def test_address(t, d):
    """One address has 3 places of 50; a unix socket would have all."""
    small = Halod(max_connections=50, max_connections_per_address=3)
    try:
        socks = [small.raw(b"GET /he") for _ in range(3)]
        # One of them was refused if the server still counted one of the start.
        while (said := small.raw_answer(b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
                                        b"Connection: close\r\n\r\n"))[9:12] == b"200":
            socks.append(small.raw(b"GET /he"))
        t.ok(said.startswith(b"HTTP/1.1 429 ") and b"too_many_connections" in said and
             b"Retry-After: 1\r\n" in said, "a fourth connection is refused", said)
        t.ok("max_connections_per_address" in small.wait_log("refused connections"),
             "the log says so")
        for s in socks:
            s.close()
        while small.raw_answer(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                               b"Connection: close\r\n\r\n")[9:12] != b"200":
            pass  # until the server has seen them go; a test that hangs is killed
        t.ok(small.metrics()['connections_refused_total{reason="address"}'] >= 1,
             "and so do the metrics")
    finally:
        t.equal(small.stop(), 0, "it ends well")


def test_body_memory(t, d):
    """body_memory is 1M here: a body of 100,000 bytes is charged more than that."""
    small = Halod(body_memory="1M")
    try:
        prompt = {"content": "x " * 50000}
        head = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
                b"X-Request-Id: first\r\n\r\n")
        first = small.raw(head + b"[")
        while (a := small.request("POST", "/tokenize", prompt)).status == 200:
            pass  # until the server has seen the first; a test that hangs is killed
        t.equal((a.status, a.error["code"], a.headers["Retry-After"]),
                (503, "body_memory", "2"), "a second large body at a time")
        chunks = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                  b"Connection: close\r\n\r\n" + b"4e20\r\n%s\r\n" % (b"x" * 20000) * 5 +
                  b"0\r\n\r\n")
        t.ok(small.raw_answer(chunks).startswith(b"HTTP/1.1 503"), "also in chunks")
        t.equal(small.request("POST", "/tokenize", {"content": "x " * 5000}).status, 200,
                "a small one is served")
        t.ok(small.metrics()['requests_rejected_total{reason="memory"}'] >= 2, "counted")
        first.sendall(b" " * 99998 + b"]")
        t.ok(first.recv(20).startswith(b"HTTP/1.1 400"), "the first one is read")
        t.equal(small.request("POST", "/tokenize", prompt).status, 200,
                "then there is room for another")
        first.close()
    finally:
        t.equal(small.stop(), 0, "it ends well")


def test_files(t, d):
    """More clients than file descriptors: the log says so, and it goes on."""
    small = Halod(wrap=("sh", "-c", 'ulimit -n 48; exec "$@"', "sh"))
    try:
        socks = [small.raw(b"") for _ in range(60)]
        t.ok("LimitNOFILE" in small.wait_log("no file descriptors are left"),
             "the log says that descriptors are out")
        for s in socks:
            s.close()
        t.equal(small.get("/health").status, 200, "and it serves when there are some")
        t.ok(small.metrics()['connections_refused_total{reason="files"}'] >= 1,
             "and counts it")
    finally:
        t.equal(small.stop(), 0, "it ends well")


def test_listens_again(t, d):
    """All connections there may be, and all gone at once: the next is let in."""
    small = Halod(max_connections=2)
    try:
        for i in range(5):
            first, second, third = [small.raw(b"") for _ in range(3)]
            first.close()
            second.close()
            third.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            t.ok(b"200 OK" in read_all(third), "listens again, round %d" % (i + 1))
    finally:
        small.stop()


run([test_queue_full, test_gone_in_queue, test_gone_in_prefill, test_gone_in_stream,
     test_gone_in_upload, test_gone_with_answer, test_keepalive, test_head, test_max_wait,
     test_slow_reader, test_slow_request,
     test_many, test_address, test_body_memory, test_files, test_listens_again],
    # exact: the fast way would be done before two comments were due
    exact="yes",
    max_seqs=1, max_queue=2, max_batch_tokens=1, prefill_chunk=1, keepalive="1s",
    stall_timeout="1s", idle_timeout="6s", header_timeout="3s", prefix_cache="no", max_connections=50)
