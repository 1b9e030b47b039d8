#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl bench agents: a trace against a stand-in that keeps every prompt, the reasons that it
finds, and three equal prompts against halod. A token of the stand-in is a word."""
import glob
import http.server
import json
import os
import sys
import tempfile
import threading

import tap
from stand_in import StandIn
from tap import done, eq, haloctl, ok

sys.path.insert(0, os.path.join(tap.SRC, "tests", "http"))
from halod import Halod  # noqa: E402

bodies, known, lock = [], [], threading.Lock()


def m(role, *text, **more):
    return {"role": role, "text": list(text), **more}


def render(body, drops):
    """As a chat template would; drops: without thinking before the user's last words."""
    last = max(i for i, x in enumerate(body["messages"]) if x["role"] == "user")
    out = json.dumps(body.get("tools"))
    for i, x in enumerate(body["messages"]):
        thinking = x.get("reasoning_content", "") if i > last or not drops else ""
        calls = " ".join(c["function"]["arguments"] for c in x.get("tool_calls", []))
        out += " <%s> %s %s %s" % (x["role"], thinking, x["content"], calls)
    return out.split()


def common(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


class Server(StandIn):
    disable_nagle_algorithm = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = render(body, "/drops" in self.path)
        with lock:
            n = len(bodies)
            cached = max((common(prompt, k) for k in known), default=0)
            bodies.append(body)
            said = ["word%d-%d" % (n, i) for i in range(body["max_tokens"])]
            known.append(prompt + ["<assistant>"] + said)
        if "/strict" in self.path and "ignore_eos" in body:
            self.send(400, b'{"error":{"message":"ignore_eos is not known"}}')
            return
        if "/full" in self.path and n >= 1:
            self.send(400, b'{"error":{"message":"the context is full"}}')
            return
        cause = {}
        if ("/forgets" in self.path or "/loses" in self.path) and n == 6:
            cached = 0
            cause = {"cache_miss": "evicted"} if "/forgets" in self.path else {}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(said),
                 "prompt_tokens_details": {"cached_tokens": cached}}
        timings = {"cache_n": cached, **cause}
        if "/silent" in self.path:
            del usage["prompt_tokens_details"], timings["cache_n"]
        if "/timings" in self.path:
            del usage["prompt_tokens_details"]
        chunks = [{"choices": [{"delta": {"content": w + " "}}]} for w in said]
        end = "length"
        if "/thinks" in self.path:
            f = [("name", "tool_7"), ("arguments", '{"te'), ("arguments", 'xt": "own"}')]
            i = "c%d" % n
            chunks = [{"choices": [{"delta": {"reasoning_content": "hm %d" % n}}]}] + [
                {"choices": [{"delta": {"tool_calls": [
                    {"index": 0, **({"id": i} if k == "name" else {}), "function": {k: v}}]}}]}
                for k, v in f]
            end = "tool_calls"
        chunks += [{"choices": [{"delta": {}, "finish_reason": end}]},
                   {"choices": [], "usage": usage, "timings": timings}]
        text = "".join("data: %s\n\n" % json.dumps(c) for c in chunks) + "data: [DONE]\n\n"
        for path, wrong in WRONG.items():
            if path in self.path:
                text = wrong
        self.send(200, text.encode(), "text/event-stream")


# Streams that are none, and what is said of them.
WRONG = {"/long": "data: " + "x" * (17 << 20), "/words": "data: hm\n\ndata: [DONE]\n\n",
         "/cut": "data: {}\n\n", "/told": 'data: {"error":{"message":"the GPU is tired"}}\n\n'}
SAID = {"/long": b"too long", "/words": b"not JSON", "/cut": b"[DONE]", "/told": b"the GPU is tired"}

# Text 3 is an edited copy of text 1; 0 and 4 are the systems of the agent and its subagents.
TEXTS = [4000, 2000, 300, [1, 1000, 1000], 1500, 200, 200, 120, 400]
ASK = [m("system", 0), m("user", 1)]
TURN = [m("assistant", 2, calls=[5]), m("tool", 6)]
THOUGHT = m("assistant", 2, thinking=[8])
TALKS = [
    {"requests": [
        {"keep": 0, "add": ASK, "answer": 40, "tools": [7, 8]},
        {"keep": 2, "add": TURN, "answer": 20},
        {"keep": 4, "add": [m("assistant", 2, calls=[5, 6]), m("tool", 5), m("tool", 6)],
         "answer": 40},
        {"keep": 1, "add": [m("user", 3), *TURN, m("assistant", 2), m("user", 7)], "answer": 40},
        {"keep": 6, "add": [THOUGHT, m("user", 5)], "answer": 40},
        {"keep": 6, "add": [m("assistant", 2), m("user", 5), m("user", 6)], "answer": 40},
        {"keep": 1, "add": [m("user", 8)], "answer": 40},
        {"keep": 2, "add": [m("assistant", 2), m("user", 5)], "answer": 40, "tools": [8]}]},
    *[{"requests": [{"keep": 0, "add": [m("system", 4), m("user", t)], "answer": 40},
                    {"keep": 2, "add": TURN, "answer": 40}], "parent": 0, "after": 1}
      for t in (5, 6)]]
WHY = {(0, 0): "new text", (0, 1): "new text", (0, 2): "new text", (0, 3): "edited history",
       (0, 4): "new text", (0, 5): "thinking dropped", (0, 6): "compaction",
       (0, 7): "edited history",
       (1, 0): "new subagent", (1, 1): "new text", (2, 0): "new subagent", (2, 1): "new text"}

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = "http://127.0.0.1:%d" % server.server_port


def bench(path, trace, *args):
    bodies.clear()
    known.clear()
    return haloctl("bench", "agents", trace, "--url", URL + path, *args)


def replay(path, trace, *args):
    code, out, err = bench(path, trace, "--json", *args)
    v = json.loads(out)
    return v, {(t["agent"], t["turn"]): t for t in v["turns"]}


def test_trace(trace):
    v, turns = replay("", trace)
    eq({k: t["why"] for k, t in turns.items()}, WHY, "each turn's reason")
    ok(all(t["computed_tokens"] <= t["needed_tokens"] + 8 for k, t in turns.items()
           if k != (0, 7)), # other tools: the stand-in puts them in front of all
       "nothing is computed twice where the server keeps all", v["turns"])
    ok(turns[0, 1]["computed_tokens"] < turns[0, 1]["needed_tokens"] < 120 and
       turns[0, 2]["answer_tokens"] == 10 and v["failed"] == 0, "counts", v["turns"])
    said = [x["content"] for x in bodies[1]["messages"] if x["role"] == "assistant"]
    ok(said and said[0].startswith("word0-0 "), "the server's answer goes back to it", said)
    calls = [c["id"] for x in bodies[-1]["messages"] for c in x.get("tool_calls", [])]
    results = [x["tool_call_id"] for x in bodies[-1]["messages"] if x["role"] == "tool"]
    eq(results, calls, "each call has its result")
    order = [(t["agent"], t["turn"]) for t in v["turns"]]
    ok(max(order.index((1, 1)), order.index((2, 1))) < order.index((0, 2)) and
       order.index((0, 1)) < min(order.index((1, 0)), order.index((2, 0))),
       "an agent waits for its subagents", order)
    first = [json.dumps(b["messages"][:2]) for b in bodies]
    replay("", trace)
    eq({json.dumps(b["messages"][:2]) for b in bodies}, set(first), "the same words again")
    whole = sum(t["prompt_tokens"] for t in turns.values())
    half, _ = replay("", trace, "--scale", "0.5")
    ok(0.4 < half["all"]["prompt_tokens"] / whole < 0.7, "half the lengths", half["all"])


def test_servers(trace):
    _, turns = replay("/forgets", trace)
    eq([k for k, t in turns.items() if t["why"] == "evicted"], [(0, 2)],
       "what the server has lost")
    _, turns = replay("/loses", trace)
    eq([k for k, t in turns.items() if t["why"] == "not found"], [(0, 2)], "and does not say why")
    _, turns = replay("/drops", trace)
    eq(turns[0, 4]["why"], "new text", "a template that drops thinking: while it is there")
    ok(turns[0, 5]["why"] == "thinking dropped", "and when it is gone", turns[0, 5])
    _, turns = replay("/timings", trace)
    eq({k: t["why"] for k, t in turns.items()}, WHY, "by timings, as llama.cpp tells")
    v, turns = replay("/silent", trace)
    ok(v["all"]["computed_tokens"] is None and turns[0, 6]["why"] == "compaction",
       "a server that does not tell", v["all"])
    code, out, err = bench("/silent", trace)
    ok(code == 0 and b"compaction" in out and b"?" in out and b"medians" in out, "as text", out)
    code, out, err = bench("/full", trace)
    ok(code == 1 and b"HTTP 400: the context is full" in out, "a server that refuses", out)
    eq(len(bodies), 3, "is asked once more without ignore_eos, and no subagent starts")
    for path, said in SAID.items():
        code, out, err = bench(path, trace)
        ok(code == 1 and said in out, "a stream that is none: %s" % said.decode(), out)
    v, turns = replay("/strict", trace)
    ok(v["failed"] == 0 and {k: t["why"] for k, t in turns.items()} == WHY and
       ["ignore_eos" in b for b in bodies[:3]] == [True, False, False],
       "a server that does not know ignore_eos", v["error"])
    replay("/thinks", trace)
    said = bodies[1]["messages"][2]
    ok(said["reasoning_content"] == "hm 0" and said["content"] == "" and
       [(c["id"], c["function"]) for c in said["tool_calls"]] ==
       [("c0", {"name": "tool_7", "arguments": '{"text": "own"}'})] and
       bodies[1]["messages"][3]["tool_call_id"] == "c0",
       "thinking and calls of the server go back to it", said)


def test_faults(folder):
    path = os.path.join(folder, "bad.json")
    for trace, words in (
            ("", "talks"), ({"talks": [{}]}, "talks[0]"),
            ({"texts": [[0, 1, 1]], "talks": [{}]}, "texts[0]"),
            ({"texts": [5, [0, 6, 1]], "talks": [{}]}, "texts[1]"),
            ({"texts": [5], "talks": [{"requests": [{"keep": 0, "add": [m("user", 1)]}]}]},
             "requests[0].add[0]"),
            ({"texts": [5], "talks": [{"requests": [{"keep": 1, "add": [m("user", 0)]}]}]},
             "requests[0]"),
            ({"texts": [5], "talks": [{"requests": [{"keep": 0, "add": [m("user", 0)]}],
                                       "parent": 0}]}, "talks[0]")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(trace) if trace else "")
        code, out, err = bench("", path)
        ok(code == 2 and words in err and path in err and not bodies, "refused: " + words, err)


def test_recorded():
    """Those of the tree: what they hold."""
    paths = glob.glob(os.path.join(tap.SRC, "tests/bench/traces/*.json"))
    whys = {}
    for path in paths:
        v, _ = replay("/drops", path, "--scale", "0.1")
        whys[os.path.basename(path)[:-5]] = set(v["why"])
        ok(v["failed"] == 0 and v["all"]["turns"] == len(bodies), path, v["error"])
    ok({"claude", "cline", "codex", "opencode"} <= set(whys) and
       {"new subagent", "compaction", "thinking dropped"} <= whys["claude"] and
       "edited history" in whys["cline"] and "compaction" in whys["codex"],
       "clients that compact, edit, think and start subagents", whys)


def test_halod():
    """Three equal prompts at once: the first computes, the others find its pages."""
    d = Halod()
    code, out, err = haloctl("bench", "agents", "--json", "--scale", "0.1", "--url",
                             "http://127.0.0.1:%d" % d.port,
                             os.path.join(tap.SRC, "tests/bench/traces/equal.json"))
    d.stop()
    turns = sorted(json.loads(out)["turns"], key=lambda t: -t["computed_tokens"])
    ok(code == 0 and turns[0]["computed_tokens"] == turns[0]["prompt_tokens"] > 200 and
       all(t["computed_tokens"] < 32 for t in turns[1:]), "halod computes it once", turns)


with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "trace.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"client": "made here", "texts": TEXTS, "talks": TALKS}, f)
    test_trace(path)
    test_servers(path)
    test_faults(tmp)
test_recorded()
test_halod()
done()
