#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong gets its status, its type, and the place of the fault."""
import json
import random
import string

from halod import run, read_all

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = {"role": "user", "content": "Hi"}

# what, path, body, status, type, param, code
TABLE = [
    ("no JSON", CHAT, "{", 400, "invalid_request_error", None, "invalid_json"),
    ("an empty body", CHAT, "", 400, "invalid_request_error", None, "invalid_json"),
    ("bytes that are not UTF-8", CHAT, b'{"messages":"\xff"}', 400,
     "invalid_request_error", None, "invalid_json"),
    ("nesting without end", CHAT, "[" * 100000, 400, "invalid_request_error", None,
     "invalid_json"),
    ("a list", CHAT, [], 400, "invalid_request_error", None, None),
    ("no messages", CHAT, {}, 400, "invalid_request_error", "messages", None),
    ("messages of a wrong type", CHAT, {"messages": "Hi"}, 400,
     "invalid_request_error", "messages", None),
    ("a role of a wrong type", CHAT, {"messages": [USER, USER, {
        "role": 7, "content": "x"}]}, 400, "invalid_request_error",
     "messages[2].role", None),
    ("a temperature of a wrong type", CHAT, {"messages": [USER],
                                             "temperature": "hot"},
     400, "invalid_request_error", "temperature", None),
    ("max_tokens below 1", CHAT, {"messages": [USER], "max_tokens": 0}, 400,
     "invalid_request_error", "max_tokens", None),
    ("n beyond its limit", CHAT, {"messages": [USER], "n": 1000}, 400,
     "invalid_request_error", "n", None),
    ("an unknown model", CHAT, {"messages": [USER], "model": "gpt-5"}, 404,
     "not_found_error", "model", "model_not_found"),
    ("no prompt", TEXT, {}, 400, "invalid_request_error", "prompt", None),
    ("a prompt that is too long", TEXT, {"prompt": "word " * 9000, "stream": True},
     400, "invalid_request_error", "prompt", "context_length_exceeded"),
]


def is_error(t, what, a, status, kind, param, code):
    t.equal(a.status, status, "%s: %d" % (what, status))
    t.equal(a.headers["Content-Type"], "application/json", "%s: JSON" % what)
    e = a.error
    t.equal((e["type"], e["param"], e["code"]), (kind, param, code),
            "%s: type, param and code" % what)
    t.ok(e["message"], "%s: in words" % what)
    t.ok(a.headers["X-Request-Id"], "%s: with an id" % what)


def test_table(t, d):
    for what, path, body, *want in TABLE:
        is_error(t, what, d.request("POST", path, body), *want)
        if isinstance(body, dict):
            a = d.request("POST", path, {**body, "stream": True})
            t.equal((a.status, a.headers["Content-Type"]),
                    (want[0], "application/json"), "%s: no stream is begun" % what)
    t.ok(d.metrics()['requests_rejected_total{reason="bad_json"}'] >= 4,
         "refusals are counted")


def test_addresses(t, d):
    is_error(t, "an unknown address", d.get("/v1/nothing"), 404, "not_found_error",
             None, None)
    for method, path, allow in (("GET", CHAT, "POST, OPTIONS"),
                                ("PUT", TEXT, "POST, OPTIONS"),
                                ("POST", "/health", "GET, HEAD, OPTIONS"),
                                ("DELETE", "/v1/models/x", "GET, HEAD, OPTIONS")):
        a = d.request(method, path, {})
        is_error(t, "%s %s" % (method, path), a, 405, "invalid_request_error", None,
                 "method_not_allowed")
        t.equal(a.headers["Allow"], allow, "%s %s: Allow" % (method, path))
    a = d.request("HEAD", "/v1/models")
    t.ok(a.status == 200 and a.body == b"" and int(a.headers["Content-Length"]) > 0,
         "HEAD")
    a = d.request("OPTIONS", CHAT)
    t.equal((a.status, a.headers["Allow"]), (204, "POST, OPTIONS"), "OPTIONS")


def test_models(t, d):
    j = d.get("/v1/models").json
    t.ok(j["object"] == "list" and j["data"][0]["id"] == "halo-tiny", "the models", j)
    t.equal(d.get("/v1/models/halo-tiny").json["id"], "halo-tiny", "one of them")
    t.equal(j["data"][0]["architecture"], {"input_modalities": ["text"], "output_modalities": ["text"]},
            "what it reads and writes")
    t.equal(d.get("/v1/models/halo%2Dtiny").json["id"], "halo-tiny",
            "also with an escape")
    is_error(t, "another one", d.get("/v1/models/org/other"), 404,
             "not_found_error", "model", "model_not_found")
    t.ok(d.get("/version").json["version"], "the version")


def test_too_large(t, d):
    """max_body is 1M here; the connection lives on when the rest was read."""
    conn = d.connect()
    conn.request("POST", CHAT, b" " * (1 << 20) + b"x")
    r = conn.getresponse()
    t.equal((r.status, json.loads(r.read())["error"]["code"]),
            (413, "request_too_large"), "too large a body")
    conn.request("GET", "/health")
    t.equal(conn.getresponse().status, 200, "and the connection goes on")
    conn.close()
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % CHAT.encode()
    with d.raw(head + b"Content-Length: 999999999999\r\n\r\nxxxx") as s:
        t.ok(read_all(s).startswith(b"HTTP/1.1 413 "),
             "more than is worth reading is refused at once")
    with d.raw(head + b"Transfer-Encoding: chunked\r\n\r\n") as s:
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        sent = 0
        try:
            while sent < 200:
                s.sendall(piece)
                sent += 1
        except OSError:
            pass
        if sent == 200:
            s.sendall(b"0\r\n\r\n")
        t.ok(sent == 200 and s.recv(20).startswith(b"HTTP/1.1 413 "),
             "too many chunks are read and refused")


def test_ids(t, d):
    a = d.get("/health", {"X-Request-Id": "mine/1"})
    t.equal(a.headers["X-Request-Id"], "mine/1", "an id comes back")
    ids = {d.get("/health", {"X-Request-Id": bad}).headers["X-Request-Id"]
           for bad in ("", "a b", "x" * 129, "\u00e4")}
    t.ok(len(ids) == 4 and all(i.startswith("req-") for i in ids),
         "a bad one does not", ids)
    a = d.chat(max_tokens=1, headers={"X-Request-Id": "x" * 128})
    t.equal(a.headers["X-Request-Id"], "x" * 128, "the longest one does")


def test_garbage(t, d):
    """Seeded noise, alone and inside requests: some answer or none, never a crash."""
    r = random.Random(7)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n"
    good = head + b'{"prompt":"a","max_tokens":1 }'
    socks = []
    for i in range(150):
        data = bytearray(good)
        for _ in range(r.randrange(1, 6)):
            data[r.randrange(len(data))] = r.randrange(256)
        if i % 3 == 0:
            data = bytearray(r.randbytes(r.randrange(1, 300)))
        if i % 5 == 0:
            data = data[:r.randrange(len(data))]
        socks.append(d.raw(bytes(data)))
        socks[-1].shutdown(1)  # together with the bytes or after them
    for s in socks:
        read_all(s)
        s.close()
    t.equal(d.get("/health").status, 200, "150 broken requests later it lives")
    d.wait_metrics(num_requests_running=0, num_requests_waiting=0)
    t.ok(True, "and holds none of them")


def test_odd_json(t, d):
    """Valid JSON of any shape gets an answer of the API, never a 500."""
    r = random.Random(11)

    def value(depth):
        kind = r.randrange(8 if depth else 5)
        return ([None, True, r.randrange(-9, 9), r.random() * 1e30,
                 "".join(r.choices(string.printable + "\u00e9\u4e2d\U0001f600", k=5))]
                [kind] if kind < 5 else
                [value(depth - 1) for _ in range(r.randrange(4))] if kind < 6 else
                {r.choice(["role", "content", "type", "text", "x"]): value(depth - 1)
                 for _ in range(r.randrange(4))})
    names = ["messages", "temperature", "top_p", "stop", "n", "stream", "logit_bias",
             "logprobs", "top_logprobs", "seed", "max_tokens", "stream_options",
             "chat_template_kwargs", "user", "model"]
    statuses = set()
    for _ in range(200):
        body = {"messages": [USER], "max_tokens": 2}
        for name in r.choices(names, k=2):
            body[name] = value(3)
        statuses.add(d.request("POST", CHAT, body).status)
    t.ok(statuses <= {200, 400, 404}, "200 odd bodies", statuses)


run([test_table, test_addresses, test_models, test_too_large, test_ids, test_garbage,
     test_odd_json], max_body="1M")
