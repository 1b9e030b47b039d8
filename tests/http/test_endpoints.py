#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The addresses beside the two that write text."""
from halod import run

USER = {"role": "user", "content": "What is 2+2?"}


def test_tokenize(t, d):
    a = d.request("POST", "/tokenize", {"content": "Hello, world <|im_end|>"})
    t.ok(a.status == 200 and a.headers["Content-Type"] == "application/json" and
         a.json["count"] == len(a.json["tokens"]) > 2, "tokenize", a.body)
    b = d.request("POST", "/detokenize", {"tokens": a.json["tokens"]})
    t.equal((b.status, b.json["content"]), (200, "Hello, world <|im_end|>"),
            "and back")
    text = "word " * 8000  # long enough for a worker thread
    a = d.request("POST", "/tokenize", {"prompt": text})
    b = d.request("POST", "/detokenize", {"tokens": a.json["tokens"]})
    t.equal(b.json["prompt"], text, "a long text, and back")
    a = d.request("POST", "/tokenize", {"messages": [USER]})
    usage = d.chat("What is 2+2?", max_tokens=1).json["usage"]
    t.equal(a.json["count"], usage["prompt_tokens"], "a chat has as many as it uses")
    a = d.request("POST", "/apply-template", {"messages": [USER]})
    b = d.request("POST", "/tokenize", {"content": a.json["prompt"]})
    t.equal(b.json["count"], usage["prompt_tokens"], "its prompt, too")
    a = d.request("POST", "/tokenize", {"content": 7})
    t.equal((a.status, a.error["param"]), (400, "content"), "a wrong type")
    a = d.request("POST", "/detokenize", {"tokens": [-1]})
    t.equal((a.status, a.error["param"]), (400, "tokens[0]"), "an id that is none")
    a = d.request("POST", "/apply-template", {"messages": [{"role": "x"}] * 9000})
    t.equal((a.status, a.error["param"]), (400, "messages[0].role"),
            "a fault found by a worker thread")


def test_embeddings(t, d):
    for body in ({"input": "x", "model": "halo-tiny"}, {}):
        a = d.request("POST", "/v1/embeddings", body)  # no embedding_model is set
        t.ok(a.status == 501 and a.error["type"] == "not_supported" and
             "embedding" in a.error["message"], "no embeddings", a.body)


def test_props(t, d):
    props = d.get("/props")
    slots = d.get("/slots")
    t.ok(props.status == 200 and "messages" in props.json["chat_template"],
         "props", props.body)
    t.equal(props.json["total_slots"], len(slots.json), "one slot for each sequence")
    t.ok(not any(s["is_processing"] for s in slots.json), "idle", slots.body)
    s = d.long_stream()
    t.equal([s["is_processing"] for s in d.get("/slots").json].count(True), 1,
            "a running request holds one")
    s.close()
    d.wait_metrics(num_requests_running=0)
    for path in ("/props", "/slots"):
        t.equal(d.request("POST", path, {}).status, 405, "%s is read-only" % path)


run([test_tokenize, test_embeddings, test_props])
