#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers, whole and streamed: shapes, order, several at a time."""
import json
import threading

from halod import USUAL, run, read_all, Stream

GREEDY = {"temperature": 0, "max_tokens": 24}


def text_of(events):
    return "".join(c["delta"].get("reasoning_content") or
                   c["delta"].get("content") or ""
                   for e in events if e != "[DONE]" for c in e["choices"])


def test_whole(t, d):
    a = d.chat("What is 2+2?", {"X-Request-Id": "whole-1"}, **GREEDY)
    t.equal(a.status, 200, "a chat completion")
    t.equal(a.headers["Content-Type"], "application/json", "is JSON")
    t.equal(a.headers["X-Request-Id"], "whole-1", "with the request's id")
    j = a.json
    t.equal(j["object"], "chat.completion", "its object")
    t.ok(j["id"].startswith("chatcmpl-") and j["model"] == "halo-tiny",
         "its id and model", j)
    c = j["choices"][0]
    t.ok(c["index"] == 0 and c["message"]["role"] == "assistant" and
         c["finish_reason"] in ("stop", "length"), "its choice", c)
    u = j["usage"]
    t.ok(u["prompt_tokens"] > 0 and 0 < u["completion_tokens"] <= 24 and
         u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"] and
         "cached_tokens" in u["prompt_tokens_details"], "its usage", u)
    t.ok(j["timings"]["ttft_ms"] > 0, "its timings", j["timings"])
    log = d.access("whole-1")
    t.ok(log["status"] == 200 and log["path"] == "/v1/chat/completions" and
         log["method"] == "POST" and log["model"] == "halo-tiny" and
         log["bytes"] == len(a.body) and log["finish"] == c["finish_reason"] and
         log["prompt_tokens"] == u["prompt_tokens"] and
         log["output_tokens"] == u["completion_tokens"] and
         0 < log["ttft_ms"] <= log["duration_ms"] and not log["stream"] and
         log["client"].startswith("127.0.0.1:"), "its line in the access log", log)


def test_progress(t, d):
    s = d.stream("word " * 600, return_progress=True, **GREEDY)
    chunks = [json.loads(l[6:]) for l in s.lines() if l.startswith("data: {")]
    told = [c["prompt_progress"] for c in chunks if "prompt_progress" in c]
    t.ok(told and all("prompt_progress" in c for c in chunks[:len(told)]),
         "a stream tells how far its prompt is, before its first token", chunks[:2])
    done = [p["processed"] for p in told]
    t.ok(done == sorted(done) and done[-1] == told[-1]["total"] and
         all(p["cache"] < p["total"] for p in told), "up to its end", told)


def test_stream(t, d):
    s = d.stream("What is 2+2?", {"X-Request-Id": "stream-1"},
                 stream_options={"include_usage": True}, **GREEDY)
    t.equal(s.status, 200, "a stream")
    t.ok(s.headers["Content-Type"].startswith("text/event-stream"), "is SSE")
    t.equal(s.headers["Cache-Control"], "no-cache", "is not cached")
    t.equal(s.headers["X-Accel-Buffering"], "no", "is not buffered")
    t.equal(s.headers["X-Request-Id"], "stream-1", "has the request's id")
    lines = list(s.lines())
    t.ok(all(l == "" or l.startswith("data: ") for l in lines) and
         all(not (a and b) for a, b in zip(lines, lines[1:])) and lines[-1] == "",
         "one data line an event, an empty line after each", lines)
    events = [l[6:] for l in lines if l]
    t.equal(events[-1], "[DONE]", "ends with [DONE]")
    chunks = [json.loads(e) for e in events[:-1]]
    t.ok(len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1 and
         {c["object"] for c in chunks} == {"chat.completion.chunk"},
         "all chunks have the same id, time and model")
    t.equal(chunks[0]["choices"][0]["delta"].get("role"), "assistant",
            "the role comes first")
    t.ok(all("role" not in c["choices"][0]["delta"] for c in chunks[1:-1]),
         "and once")
    reasons = [c["choices"][0]["finish_reason"] for c in chunks[:-1]]
    t.ok(reasons[-1] in ("stop", "length") and set(reasons[:-1]) == {None},
         "the finish reason comes last", reasons)
    t.ok(chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] > 0,
         "the usage after it", chunks[-1])
    whole = d.chat("What is 2+2?", **GREEDY).json["choices"][0]["message"]
    t.equal(text_of(chunks), (whole.get("reasoning_content") or "") +
            (whole["content"] or ""), "the pieces make the whole")
    log = d.access("stream-1")
    t.ok(log["stream"] and log["tpot_ms"] > 0, "its line in the access log", log)


def test_completions(t, d):
    body = {"prompt": "Once upon a time", **GREEDY}
    a = d.request("POST", "/v1/completions", body)
    t.equal(a.status, 200, "a text completion")
    t.equal(a.json["object"], "text_completion", "its object")
    conn = d.connect()
    conn.request("POST", "/v1/completions", json.dumps({**body, "stream": True}))
    events = list(Stream(conn).events())
    t.equal("".join(e["choices"][0]["text"] for e in events[:-1] if e["choices"]),
            a.json["choices"][0]["text"], "streams the same")


def test_choices(t, d):
    a = d.chat("Hi", n=3, temperature=0, max_tokens=8)
    t.equal([c["index"] for c in a.json["choices"]], [0, 1, 2], "three choices")
    t.equal(len({json.dumps(c["message"]) for c in a.json["choices"]}), 1,
            "greedy ones are equal")


def test_together(t, d):
    """Eight streams at a time say what each says alone."""
    texts = ["Count to %d." % n for n in range(2, 10)]
    alone = [text_of(d.stream(x, **GREEDY).events()) for x in texts]
    together, barrier = [None] * 8, threading.Barrier(8)

    def one(i):
        barrier.wait()
        together[i] = text_of(d.stream(texts[i], **GREEDY).events())

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    t.equal(together, alone, "eight streams together are as each alone")


def test_http_versions(t, d):
    body = b'{"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,' \
           b'"temperature":0,"stream":true}'
    head = b"POST /v1/chat/completions HTTP/%s\r\nHost: localhost\r\nContent-Length: %d\r\n"
    old = d.raw_answer(head % (b"1.0", len(body)) + b"\r\n" + body)
    top, _, rest = old.partition(b"\r\n\r\n")
    t.ok(b" 200 OK" in top and b"chunked" not in top and
         rest.startswith(b"data: {") and rest.endswith(b"data: [DONE]\n\n"),
         "HTTP/1.0 gets a stream without chunks", old)
    two = d.raw_answer(head % (b"1.1", len(body)) + b"\r\n" + body +
                       head % (b"1.1", len(body)) + b"Connection: close\r\n\r\n" +
                       body)
    t.equal((two.count(b" 200 OK"), two.count(b"data: [DONE]")), (2, 2),
            "two pipelined requests are answered one after the other")
    expect = d.raw(head % (b"1.1", len(body)) +
                   b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
    t.ok(expect.recv(100).startswith(b"HTTP/1.1 100 "), "100 Continue")
    expect.sendall(body)
    t.ok(b"[DONE]" in read_all(expect), "and then the answer")
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                       for i in range(0, len(body), 7)) + b"0\r\n\r\n"
    a = d.raw_answer(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Connection: close\r\nTransfer-Encoding: chunked\r\n"
                     b"Content-Type: text/plain\r\n\r\n" + chunked)
    t.ok(b"[DONE]" in a, "a body in chunks, of a wrong type", a)
    conn = d.connect()
    for _ in range(3):
        conn.request("POST", "/v1/chat/completions", body.replace(b"true", b"false"))
        r = conn.getresponse()
        t.ok(r.status == 200 and json.loads(r.read()), "a kept connection")
    conn.close()


def test_large(t, d):
    """Bodies beyond the size that is parsed on another thread."""
    body = {"messages": [{"role": "user", "content": "What is 2+2?"}], **GREEDY}
    small = d.request("POST", "/v1/chat/completions", body)
    large = d.request("POST", "/v1/chat/completions",
                      json.dumps(body) + " " * (1 << 20))
    t.equal(large.json["choices"], small.json["choices"], "a megabyte of body")
    bad = d.request("POST", "/v1/chat/completions", json.dumps(body)[:-1] +
                    " " * (1 << 20))
    t.equal((bad.status, bad.error["code"]), (400, "invalid_json"),
            "a megabyte of broken JSON")
    a = d.chat("word " * 200000, stream=True)
    t.ok(a.status == 400 and a.error["code"] == "context_length_exceeded" and
         a.error["n_prompt_tokens"] > a.error["n_ctx"] > 0,
         "a prompt that is too long is plain JSON, with both counts", a.body)


def test_lenient(t, d):
    """What other servers take, and means one thing only."""
    for name in ("max_tokens", "max_completion_tokens"):
        a, b = (d.chat("What is 2+2?", temperature=0, **more).json
                for more in ({name: -1}, {}))
        t.equal(a["choices"][0]["message"], b["choices"][0]["message"],
                name + ": -1 is no limit")
    for more in ({"stop": ""}, {"functions": []}, {"function_call": "none"}):
        t.equal(d.chat("Hi", max_tokens=1, **more).status, 200, "%r asks for nothing" % more)
    a = d.request("POST", "/v1/chat/completions", b"\xef\xbb\xbf" + json.dumps(
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode())
    t.equal(a.status, 200, "a byte order mark")
    said = [{"role": "user", "content": "Go"}, {"role": "assistant", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]
    counts = [d.request("POST", "/tokenize", {"messages": [*said, {
        "role": "tool", "tool_call_id": "c", "content": content}]}).json.get("count")
        for content in (None, "")]
    t.ok(counts[0] and counts[0] == counts[1], "a tool's null is an empty text", counts)


run([test_whole, test_lenient, test_progress, test_stream, test_completions, test_choices, test_together,
     test_http_versions, test_large], **USUAL)
