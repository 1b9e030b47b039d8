#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters by name and by id: each request has its own, beside others and none, and finds only
its own prompts in the prefix cache."""
import json
import os
import subprocess
import tempfile
import threading

from halod import PROGRAM, SRCDIR, Halod, run
from sounds import form

MODEL = os.path.join(SRCDIR, "tests/golden/models/llama-biases")
LORA = os.path.join(SRCDIR, "tests/golden/lora")
PROMPT = [(i * 37 + i // 7) % 480 for i in range(60)]
COMPLETE = "/v1/completions"


def ask(d, **more):
    return d.request("POST", COMPLETE, {"prompt": PROMPT, "max_tokens": 8, "temperature": 0,
                                        "ignore_eos": True, "logprobs": 1, **more})


def answer(d, **more):
    """What the answer's model is, its log-probabilities, and the tokens found in the cache."""
    a = ask(d, **more).json
    return (a["model"], a["choices"][0]["logprobs"]["token_logprobs"],
            a["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_chosen(t, d):
    base, none, found = answer(d)
    t.equal((base, found), ("base", 0), "no adapter is on by itself")
    name, first, found = answer(d, model="first")
    t.equal((name, found), ("first", 0), "an adapter by its name; the base's pages are not its own")
    t.ok(first != none, "it answers otherwise")
    t.equal(answer(d, model="base", lora=[{"id": 0, "scale": 1}]), ("base", first, 48),
            "the same one by its id; it finds its own pages")
    _, half, found = answer(d, lora=[{"id": 0, "scale": 0.5}, {"id": 1, "scale": 0}])
    t.equal(found, 0, "another scale has pages of its own")
    t.ok(half not in (first, none), "and another answer")
    t.equal(answer(d, lora=[{"id": 0, "scale": 0}])[1:], (none, 48), "scale 0 is no adapter")
    _, other, found = answer(d, model="other")
    t.equal(found, 0, "another adapter finds nothing")
    t.ok(other not in (first, none), "and answers otherwise")
    asks = {None: {}, "first": {"model": "first"}, "other": {"model": "other"},
            "half": {"model": "first", "lora": [{"id": 0, "scale": 0.5}]}}
    want = {None: none, "first": first, "other": other, "half": half}
    got = {}

    def client(i, name):
        got[i, name] = answer(d, **asks[name])[1]
    clients = [threading.Thread(target=client, args=(i, name)) for i in range(3) for name in want]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    t.ok(len(got) == 12 and all(v == want[k[1]] for k, v in got.items()),
         "together they answer as alone", got)


def test_shapes(t, d):
    chat = {"messages": [{"role": "user", "content": "a"}], "model": "other", "max_tokens": 2}
    t.equal(d.request("POST", "/v1/chat/completions", chat).json["model"], "other", "a chat")
    t.equal(d.request("POST", "/v1/messages", chat).json["model"], "other", "messages")
    a = d.request("POST", "/v1/responses", {"input": "a", "model": "other",
                                           "max_output_tokens": 2})
    t.equal(a.json["model"], "other", "a response")
    a = d.request("POST", "/completion", {"prompt": PROMPT, "n_predict": 2,
                                         "lora": [{"id": 1, "scale": 1.0}]})
    t.equal(a.status, 200, "llama.cpp's completion")


def test_listed(t, d):
    models = d.request("GET", "/v1/models").json["data"]
    t.equal([(m["id"], m["parent"]) for m in models],
            [("base", None), ("name", None), ("first", "base"), ("other", "base")], "/v1/models")
    t.equal(d.request("GET", "/v1/models/other").json["parent"], "base", "one of them")


def test_faults(t, d):
    for more, param, words in (
            ({"lora": [{"id": 2, "scale": 1}]}, "lora[0].id", ""),
            ({"lora": [{"scale": 1}]}, "lora[0].id", ""),
            ({"lora": [{"id": 0}]}, "lora[0].scale", ""),
            ({"lora": [{"id": 0, "scale": "x"}]}, "lora[0].scale", ""),
            ({"lora": 1}, "lora", ""),
            ({"lora": [{"id": 0, "scale": 1}, {"id": 1, "scale": 1}]}, "lora[1]", "one adapter"),
            ({"lora": [{"id": 0, "scale": 1}], "model": "other"}, "lora", "another adapter"),
            ({"lora": [{"id": 0, "scale": 0}], "model": "first"}, "lora", "a scale that is not 0"),
            ({"lora": [{"id": 1, "scale": 0}], "model": "first"}, "lora", "a scale that is not 0"),
            ({"lora": [{"id": 0, "scale": 1001}]}, "lora[0].scale", "1000")):
        a = ask(d, **more)
        t.ok(a.status == 400 and a.error["param"] == param and words in a.error["message"],
             "%s: %s" % (param, more), a.body)
    t.equal(ask(d, lora=[], model="first").json["model"], "first", "an empty list says nothing")
    a = ask(d, model="third")
    t.equal((a.status, a.error["param"]), (404, "model"), "a name that nobody has")


def test_restart(t, _):
    """Pages on disk are those of the adapter whose numbers made them, whatever its name."""
    with tempfile.TemporaryDirectory() as kv:
        os.chmod(kv, 0o700)
        d = Halod(model=MODEL, kv_dir=kv, lora='"a=%s/all"' % LORA)
        try:
            _, want, found = answer(d, model="a")
        finally:
            d.stop()
        t.equal(found, 0, "a prompt nobody has seen")
        d = Halod(model=MODEL, kv_dir=kv, lora='"a=%s/other, b=%s/all"' % (LORA, LORA))
        try:
            t.equal(answer(d, model="a")[2], 0, "the name alone finds nothing")
            t.equal(answer(d, model="b")[1:], (want, 48), "the same adapter finds its pages")
        finally:
            d.stop()


def test_head(t, _):
    """An EAGLE-3 head beside the model has no adapters, and room for none: a full step with all
    rows of logits is where that shows."""
    head = os.path.join(SRCDIR, "tests/golden/drafters/llama-biases-eagle3")
    answers = []
    for drafts in {"speculative": "off"}, {"speculative": "draft", "draft_model": head}:
        d = Halod(model=MODEL, lora='"a=%s/all"' % LORA, ctx=80, max_seqs=1, max_batch_tokens=64,
                  **drafts)
        answers.append(ask(d, model="a", prompt=PROMPT + PROMPT[:4], echo=True).json["choices"])
        d.stop()
    t.equal(answers[1], answers[0], "with a head an adapter answers the same")


def test_later(t, d):
    """An adapter with drafts by lookup, in a batch, and when its model has slept."""
    def whole(d):
        a = ask(d, model="other", max_tokens=60).json
        return a["choices"][0]["logprobs"], a["timings"]
    want, _ = whole(d)
    line = json.dumps({"custom_id": "a", "method": "POST", "url": COMPLETE, "body": {
        "prompt": PROMPT, "max_tokens": 60, "temperature": 0, "ignore_eos": True, "logprobs": 1,
        "model": "other"}})
    body, head = form(line.encode(), purpose="batch")
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o700)
        later = Halod(model=MODEL, model_name="base", lora='"%s/other"' % LORA, sleep_after="1s",
                      state_dir=state, speculative="lookup")
        try:
            got, timings = whole(later)
            t.ok(timings.get("draft_n", 0) > 0, "lookup drafts for an adapter", timings)
            t.equal(got, want, "and it answers the same")
            file = later.request("POST", "/v1/files", body, head).json["id"]
            later.wait_log("has left memory")
            n = len(later.lines)
            batch = later.request("POST", "/v1/batches", {
                "input_file_id": file, "endpoint": COMPLETE, "completion_window": "24h"}).json["id"]
            later.wait_log("has left memory", n)
            b = later.get("/v1/batches/" + batch).json
            a = json.loads(later.get("/v1/files/%s/content" % b["output_file_id"]).body)
            a = a["response"]["body"]
            t.equal((a["model"], a["choices"][0]["logprobs"]), ("other", want),
                    "a batch wakes the model, and its line has the adapter")
            t.equal(whole(later)[0], want, "so has a request that wakes it")
        finally:
            later.stop()


class Two(Halod):
    """Two models, each with an adapter of its own."""

    def settings_end(self):
        return "".join("[model %s]\nmodel = %s\nlora = of-%s=%s/%s\n" % (
            name, os.path.join(os.path.dirname(MODEL), folder), name, LORA, adapter)
                       for name, folder, adapter in (("one", "llama-biases", "all"),
                                                     ("two", "qwen3-bf16", "some")))


def test_models(t, _):
    d = Two(model=None)
    try:
        got = {name: answer(d, model=name) for name in ("one", "of-one", "two", "of-two")}
        t.equal([v[0] for v in got.values()], list(got), "each model has its adapters")
        t.ok(len({str(v[1]) for v in got.values()}) == 4, "and all four answer otherwise", got)
        parents = {m["id"]: m["parent"] for m in d.get("/v1/models").json["data"]}
        t.equal(parents, {"one": None, "of-one": "one", "two": None, "of-two": "two"},
                "they are listed with their models")
        t.equal(d.get("/lora-adapters?model=two").json,
                [{"id": 0, "path": "of-two", "scale": 0}], "/lora-adapters")
        a = d.request("POST", "/lora-adapters", [{"id": 0, "scale": 1}])
        t.ok(a.status == 501 and "each request" in a.error["message"], "which is read-only", a.body)
    finally:
        d.stop()


def test_refused(t, _):
    for lora, words in (
            ("a=%s/some" % LORA, ["layers.0.self_attn.q_proj", "another base model"]),
            ("a=/nonexistent/r=8", ["lora: ", "/nonexistent/r=8"]),
            ("/nonexistent/r=16", ["lora: ", "/nonexistent/r=16"]),
            ("a=%s/all, a=%s/other" % (LORA, LORA), ["the name a is taken"]),
            ("llama-biases=%s/all" % LORA, ["the name llama-biases is taken"]),
            ("=%s/all" % LORA, ["NAME=PATH"])):
        p = subprocess.run([PROGRAM, "--check-config", "--model", MODEL, "--lora", lora],
                           stderr=subprocess.PIPE, timeout=60)
        t.ok(p.returncode != 0 and all(w in p.stderr.decode() for w in words), lora, p.stderr)


with tempfile.TemporaryDirectory() as tmp:
    template = os.path.join(tmp, "chat.jinja")
    with open(template, "w", encoding="utf-8") as f:
        f.write("{% for m in messages %}[{{ m.role }}] {{ m.content }} [/]{% endfor %}")
    run([test_chosen, test_shapes, test_listed, test_faults, test_restart, test_head, test_later, test_models,
         test_refused],
        model=MODEL, model_name="base", aliases="name", chat_template=template,
        lora='"first=%s/all, %s/other/"' % (LORA, LORA))
