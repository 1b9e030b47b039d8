#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Valid bodies of requests, changed in ways that know JSON, sent to a daemon.

    test_bodies.py                     some hundred bodies, the same each time
    test_bodies.py SECONDS [SEED]      as many as come in that time; `make fuzz-bodies`

Values change their type, stand at the bounds of integers, nest, repeat, move and go; texts are cut,
and bytes in them change. To each body there is an answer: JSON in its shape, or an error in JSON
that says where the fault is. A neighbour asks meanwhile, and its answers stay what they were. At
the end the daemon is there, has its memory back and ends well. What fails is printed as a line of
JSON, with the path and the body."""
import json
import os
import random
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
import attacks  # noqa: E402
import dear_bodies as dear  # noqa: E402
from halod import PROGRAM, SRCDIR, Halod, Tap  # noqa: E402

N_BODIES = 500
IMAGES = 0.1  # of the bodies, to a daemon that sees
# At most, from the first third on: stores of responses, grammars and tokens fill. Leaks are
# AddressSanitizer's to tell.
GROWS_MB = 160
STATUSES = (200, 400, 404, 413, 501)
ODD = (None, True, False, 0, -1, 1, 2, 1.5, -0.0, 5e-324, 1.7e308, 10 ** 30, "", "0", "a", "null",
       "\0", "\ud800", "\u202e\u0300", "x" * 3000, [], [[]], [None], {}, {"": None},
       *(s * (1 << n) + d for n in (7, 8, 15, 16, 31, 32, 53, 63, 64) for s in (1, -1)
         for d in (-1, 0, 1)))
HELLO = [{"role": "user", "content": "Hello, who are you?"}]
NEIGHBOURS = [
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 12, "temperature": 0, "seed": 1,
                              "logprobs": True, "top_logprobs": 2}),
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 12, "temperature": 0, "stream": True}),
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 30, "temperature": 1, "seed": 7,
                              "response_format": {"type": "json_schema", "json_schema": {
                                  "name": "x", "schema": {"enum": ["red", "green", 5]}}}}),
    ("/v1/completions", {"prompt": "Once upon", "max_tokens": 9, "temperature": 0, "logprobs": 1}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9, "temperature": 0}),
    ("/api/chat", {"messages": HELLO, "stream": False, "options": {
        "num_predict": 9, "temperature": 0}}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 16, "temperature": 0}),
    ("/tokenize", {"content": "Hello <|im_end|> 12\u00e9"}),
    ("/apply-template", {"messages": HELLO})]


# --- changes ----------------------------------------------------------------------------------

def twist(body, pool, r):
    """One change of a value that knows no bounds."""
    paths = list(dear.places(body))
    path = r.choice(paths)
    v, how = dear.at(body, path), r.randrange(9)
    if how < 3:
        return dear.put(body, path, r.choice(ODD))
    if how == 3:
        for _ in range(r.choice((1, 2, 5, 90, 400))):
            v = [v] if r.random() < 0.5 else {"a": v}
        return dear.put(body, path, v)
    if how == 4:
        return dear.put(body, path, [v] * r.choice((2, 3, 17, 200)))
    if how == 5:  # a part of this body, or of another
        other = body if r.random() < 0.5 else r.choice(pool)
        return dear.put(body, path, copied(dear.at(other, r.choice(list(dear.places(other))))))
    if how == 6 and isinstance(v, dict) and v:
        key, other = r.choice(list(v)), r.choice(list(v))
        v[r.choice((key.upper(), key + "\0", "", other, "a" * 300))] = v.pop(key)
    elif how == 7 and path:
        del dear.at(body, path[:-1])[path[-1]]
    elif how == 8:
        return dear.put(body, path, json.dumps(v))
    return body


def copied(v):
    return json.loads(json.dumps(v))


def twist_text(text, other, r):
    """One change of bytes that need not stay JSON."""
    i, j = sorted(r.randrange(len(text) + 1) for _ in range(2))
    return r.choice((
        lambda: text[:i],
        lambda: text[i:],
        lambda: text[:i] + text[j:],
        lambda: text[:j] + text[i:j] * r.choice((1, 9, 99)) + text[j:],
        lambda: text[:i] + other[i:],
        lambda: text[:i] + bytes([r.randrange(256)]) + text[i + 1:],
        lambda: text[:i] + r.choice((b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u", b"\\ud83d",
                                     b'"', b"{", b"]", b",", b"1e999", b"NaN", b"//")) + text[i:],
        lambda: b"\xef\xbb\xbf" + text,
        lambda: text[:-1] + b"," + text[1:],  # each key twice
    ))()


def changed(path, text, pool, r):
    """A body of the pool, changed."""
    try:
        body = json.loads(text)
    except ValueError:
        return twist_text(attacks.as_bytes(text), b"{}", r)
    for _ in range(r.choice((0, 1, 1, 1, 2, 3, 5))):
        body = dear.mutate(body, pool, r) if r.random() < 0.3 and isinstance(body, dict) else \
            twist(body, pool, r)
    out = attacks.as_bytes(json.dumps(body, ensure_ascii=r.random() < 0.5))
    if r.random() < 0.2:
        out = twist_text(out, attacks.as_bytes(text), r)
    return out


# --- answers ----------------------------------------------------------------------------------

MEMBER = {"/v1/chat/completions": "choices", "/v1/completions": "choices", "/v1/messages": "content",
          "/v1/responses": "output", "/tokenize": "tokens", "/detokenize": "content",
          "/apply-template": "prompt", "/infill": "content", "/v1/embeddings": "data",
          "/v1/rerank": "results", "/v1/messages/count_tokens": "input_tokens",
          "/v1/responses/input_tokens": "input_tokens", "/api/chat": "message",
          "/api/generate": "response", "/api/embed": "embeddings", "/api/embeddings": "embedding",
          "/api/show": "details", "/api/pull": "status"}
PLACE = re.compile(r"[`\"']|\b(line|byte|token|body|message|prompt|tool|schema|pattern|grammar|"
                   r"template|model|image|text)")


def no_constant(name):
    raise ValueError(name)


def parsed(text):
    return json.loads(text.decode(), parse_constant=no_constant)


def fault(path, a):
    """What is wrong with an answer, or ""."""
    if a.status not in STATUSES:
        return "status %d" % a.status
    if a.headers["Content-Type"].startswith("text/event-stream"):
        data = [line[6:] for line in a.body.split(b"\n") if line.startswith(b"data: ")]
        last = data.pop() if data[-1:] == [b"[DONE]"] else None
        for x in data:
            parsed(x)
        is_over = last or any(w in data[-1] for w in (
            b'"message_stop"', b'"response.completed"', b'"response.incomplete"', b'"error"',
            b'"stop":true'))
        return "" if is_over else "a stream without an end"
    if a.headers["Content-Type"] == "application/x-ndjson":
        v = [parsed(line) for line in a.body.splitlines()]
        return "" if v[-1].get("done") or v[-1].get("error") or path == "/api/pull" else \
            "a stream without an end"
    v = parsed(a.body)
    if a.status == 200:
        return "" if MEMBER[path] in v else "no " + MEMBER[path]
    e = v["error"]
    if isinstance(e, str):  # Ollama's shape
        e = {"message": e, "type": ""}
    if not (isinstance(e["message"], str) and e["message"] and isinstance(e["type"], str)):
        return "an error without words"
    return "" if e.get("param") or PLACE.search(e["message"]) else "an error without a place"


VOLATILE = re.compile(rb'"(id|created|created_at|completed_at|item_id|cache_\w+|prompt_n|'
                      rb'cached_tokens|input_tokens|\w+_per_\w+|\w+_ms|\w+_duration)":'
                      rb'("[^"]*"|[-\d.eE+]+)')


def steady(a):
    """An answer without what differs from one time to the next."""
    return a.status, VOLATILE.sub(b"", a.body)


class Neighbour(threading.Thread):
    """Asks what it knows the answers to, until it is told to end."""

    def __init__(self, d):
        super().__init__(daemon=True)
        self.d, self.n, self.wrong, self.is_over = d, 0, [], False
        self.want = [steady(self.ask(*x)) for x in NEIGHBOURS]

    def ask(self, path, body):
        return self.d.request("POST", path, body, {"Content-Type": "application/json"})

    def run(self):
        while not self.is_over and not self.wrong:
            i = self.n % len(NEIGHBOURS)
            try:
                got = steady(self.ask(*NEIGHBOURS[i]))
            except Exception as e:  # noqa: BLE001
                got = repr(e)
            if got != self.want[i]:
                self.wrong.append("%s\n got %r\nwant %r" % (NEIGHBOURS[i][0], got, self.want[i]))
            self.n += 1
            time.sleep(0.02)


def rss_mb(d):
    with open("/proc/%d/status" % d.process.pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


# --- the run ----------------------------------------------------------------------------------

class Side:
    """A daemon, the bodies that it is sent, and what came of them."""

    def __init__(self, d, pool):
        self.d, self.pool = d, pool
        self.bodies = []
        for _, text in pool:
            try:
                body = json.loads(text)
            except ValueError:
                continue
            if isinstance(body, dict) and body:
                self.bodies.append(body)
        self.n, self.faults, self.statuses, self.rss = 0, [], {}, []
        self.neighbour = Neighbour(d)
        self.neighbour.start()

    def one(self, r):
        path, text = r.choice(self.pool)
        body = changed(path, text, self.bodies, r)[:60000]
        try:
            a = self.d.request("POST", path, body, {"Content-Type": "application/json"})
            why = fault(path, a)
            self.statuses[a.status] = self.statuses.get(a.status, 0) + 1
            said = a.body[:300]
        except Exception as e:  # noqa: BLE001
            why, said = "no answer: %r" % e, b""
        if why:
            self.faults.append(json.dumps({
                "why": why, "path": path, "body": body.decode("utf-8", "backslashreplace"),
                "said": said.decode(errors="replace")}))
        self.n += 1
        if self.n % 100 == 0:
            self.rss.append(rss_mb(self.d))

    def end(self, t, what):
        self.neighbour.is_over = True
        self.neighbour.join()
        print("# %s: %d bodies %r, neighbour %d answers, MB %s" % (
            what, self.n, dict(sorted(self.statuses.items())), self.neighbour.n,
            " ".join("%d" % x for x in self.rss[::max(1, len(self.rss) // 12)])))
        t.ok(not self.faults, "%s: each of the bodies has an answer in its shape" % what,
             "\n".join(self.faults))
        t.ok(not self.neighbour.wrong and self.neighbour.n > 3, "the neighbour gets what it knows",
             "\n".join(self.neighbour.wrong))
        third = self.rss[len(self.rss) // 3:] or [0]
        t.ok(max(third[-3:]) - third[0] <= GROWS_MB, "memory stays", third)
        t.ok(self.d.process.poll() is None, "halod is there",
             "\n".join(x or "(end)" for x in self.d.lines[-60:]))
        t.equal(self.d.stop(), 0, "and ends well")


def start(**settings):
    """Freed memory goes back soon under AddressSanitizer, too, so that growth shows."""
    options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"
    return Halod(access_log="no", max_output_tokens=8, ctx=1024, max_body="64K",
                 popen={"env": {**os.environ, "ASAN_OPTIONS": options}}, **settings)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else None
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1 if seconds is None else \
        random.SystemRandom().randrange(1 << 32)
    print("# seed", seed, flush=True)
    sys.setrecursionlimit(10000)  # for what nests deeply
    r, t = random.Random(seed), Tap()
    found = attacks.bodies() + [(p, dear.spell(b)) for _, p, b in dear.seeds()]
    with open(os.path.join(SRCDIR, "tests/http/dear_bodies.jsonl")) as f:
        found += [(x["path"], x["body"]) for x in map(json.loads, f) if x["kind"] != "image"]
    found += [(p, json.dumps(b)) for p, b in NEIGHBOURS]
    readers = os.path.join(SRCDIR, "tests/golden/readers/")
    text = Side(start(embedding_model=readers + "last", rerank_model=readers + "reranker"), found)
    image = Side(start(model=dear.VISION), [(p, dear.spell(b)) for _, p, b in dear.image_seeds()
                                            if len(dear.spell(b)) < 30000])
    end = time.monotonic() + (seconds or 0)
    while time.monotonic() < end if seconds else text.n < N_BODIES:
        (image if r.random() < IMAGES else text).one(r)
        if text.d.process.poll() is not None or image.d.process.poll() is not None:
            break
    text.end(t, "texts")
    image.end(t, "images")
    t.done()


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        sys.exit("there is no %s" % PROGRAM)
    main()
