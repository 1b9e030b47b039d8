#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Structured output with a real model: what it writes under a schema, a regex, a list
of choices or a grammar is always valid, however wildly it is sampled."""
import json
import os
import re

from halod import run, Halod

WILD = {"temperature": 1.5, "max_tokens": 200}

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "kind": {"enum": ["cat", "dog", None]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5},
                 "minItems": 1, "maxItems": 3},
        "at": {"type": "string", "format": "date"},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}


def is_person(v):
    return (list(v) == [k for k in PERSON["properties"] if k in v] and
            set(PERSON["required"]) <= set(v) and
            isinstance(v["name"], str) and len(v["name"]) <= 12 and
            type(v["age"]) is int and 0 <= v["age"] <= 130 and
            v["kind"] in ("cat", "dog", None) and 1 <= len(v["tags"]) <= 3 and
            all(isinstance(s, str) and len(s) <= 5 for s in v["tags"]) and
            ("at" not in v or re.fullmatch(r"\d{4}-\d\d-\d\d", v["at"]) is not None))


def answer(d, **more):
    a = d.chat("Say something.", **{**WILD, **more})
    return a.json["choices"][0] if a.status == 200 else a.json


def schema(s):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": s}}


def test_schema(t, d):
    for seed in range(8):
        c = answer(d, seed=seed, enable_thinking=False, response_format=schema(PERSON))
        text = c["message"]["content"]
        t.ok(c["finish_reason"] == "stop" and is_person(json.loads(text)),
             f"seed {seed}: a document of the schema, to its end", c)


def test_stream(t, d):
    s = d.stream("Say something.", seed=3, enable_thinking=False,
                 response_format=schema(PERSON), **WILD)
    chunks = [json.loads(l[6:]) for l in s.lines() if l and l != "data: [DONE]"]
    text = "".join(c["delta"].get("content") or "" for e in chunks for c in e["choices"])
    t.ok(is_person(json.loads(text)), "the same as a stream", text)


def test_reasoning(t, d):
    c = answer(d, seed=1, enable_thinking=True, max_tokens=400,
               response_format=schema({"type": "object", "properties":
                                       {"ok": {"type": "boolean"}}, "required": ["ok"]}))
    m = c["message"]
    if c["finish_reason"] == "stop":
        t.ok(json.loads(m["content"]) in ({"ok": True}, {"ok": False}),
             "the content is the schema's, whatever was thought before", m)
    else:
        t.ok(not (m["content"] or "").strip().startswith("<"),
             "it thought until its tokens ran out", m)
    # With these seeds halo-tiny, left to itself, ends its turn within the reasoning.
    ask = {"temperature": 1.2, "max_tokens": 120, "enable_thinking": True}
    for seed in (10, 47):
        c = d.chat("Write an example in JSON.", seed=seed, guided_choice=["7", "8"], **ask
                   ).json["choices"][0]
        t.ok(c["message"]["content"] in ("7", "8") and c["finish_reason"] == "stop",
             "the turn does not end within the reasoning, seed %d" % seed, c)


def test_others(t, d):
    off = {"enable_thinking": False}
    for seed in range(4):
        c = answer(d, seed=seed, guided_choice=["yes", "no", "perhaps"], **off)
        t.ok(c["message"]["content"] in ("yes", "no", "perhaps") and
             c["finish_reason"] == "stop", "one of the choices", c)
        c = answer(d, seed=seed, structured_outputs={"regex": r"[A-F]{3}-\d{2,4}"}, **off)
        t.ok(re.fullmatch(r"[A-F]{3}-\d{2,4}", c["message"]["content"]) is not None,
             "a text of the regex", c)
        c = answer(d, seed=seed, grammar='root ::= "(" root ")" | [0-9]{2}', **off)
        t.ok(re.fullmatch(r"\(*\d\d\)*", c["message"]["content"]) is not None or
             c["finish_reason"] == "length", "a text of the grammar", c)
    c = answer(d, seed=1, response_format={"type": "json_object"}, **off)
    t.ok(c["finish_reason"] == "length" or
         isinstance(json.loads(c["message"]["content"]), dict), "any JSON object", c)
    a = d.chat("Two at once.", n=3, enable_thinking=False, guided_regex="[ab]{4}c", **WILD)
    t.ok(all(re.fullmatch("[ab]{4}c", c["message"]["content"]) for c in
             a.json["choices"]), "each of n choices by itself", a.json)


def test_other_shapes(t, d):
    """The same guides under Anthropic's API and OpenAI's newer one, and biases."""
    asks = {"messages": lambda **more: d.request("POST", "/v1/messages", {
                "messages": [{"role": "user", "content": "Say something."}],
                **WILD, **more}),
            "responses": lambda **more: d.request("POST", "/v1/responses", {
                "input": "Say something.", **more,
                **{{"max_tokens": "max_output_tokens"}.get(k, k): v
                   for k, v in WILD.items()}})}

    def texts(a, kind):
        blocks = a.json["content"] if kind == "messages" else [
            c for item in a.json["output"] if item["type"] == "message"
            for c in item["content"]]
        return [b["text"] for b in blocks if b["type"] in ("text", "output_text")]

    own = {"messages": {"output_config": {"format": {"type": "json_schema",
                                                     "schema": PERSON}}},
           "responses": {"text": {"format": {"type": "json_schema", "name": "p",
                                             "schema": PERSON}}}}
    for kind, ask in asks.items():
        off = {"enable_thinking": False}
        for seed, more in enumerate((own[kind], {"guided_json": PERSON},
                                     {"structured_outputs": {"json": PERSON}},
                                     {"json_schema": PERSON})):
            a = ask(seed=seed, **off, **more)
            t.ok(is_person(json.loads("".join(texts(a, kind)))),
                 "%s: %s holds" % (kind, next(iter(more))), a.body)
        a = ask(guided_regex="[ab]{4}c", **off)
        t.ok(re.fullmatch("[ab]{4}c", "".join(texts(a, kind))), kind + ": a regex", a.body)
        a = ask(guided_choice=["yes", "no"], **off)
        t.ok("".join(texts(a, kind)) in ("yes", "no"), kind + ": a choice", a.body)
        a = ask(grammar='root ::= "x" [0-9]', **off)
        t.ok(re.fullmatch("x[0-9]", "".join(texts(a, kind))), kind + ": a grammar", a.body)
        for more, param in (({"guided_json": False}, "guided_json"),
                            ({"structured_outputs": {"json": False}},
                             "structured_outputs.json"),
                            ({"guided_json": {"not": {}}}, "guided_json"),
                            ({"guided_regex": "(" }, "guided_regex"),
                            ({"logit_bias": {"x": 1}}, "logit_bias.x"),
                            ({"guided_regex": "a", **own[kind]}, "guided_regex")):
            a = ask(**more)
            words = a.json["error"]["message"] if a.status == 400 else ""
            t.ok("`%s`" % param in words, "%s: %s is refused" % (kind, more), a.body)
        a = ask(guided_regex="[xyz]", logit_bias={
            str(d.request("POST", "/tokenize", {"content": "y"}).json["tokens"][-1]): 100},
                **off)
        t.equal(texts(a, kind), ["y"], kind + ": logit_bias")
        # Thoughts may come first: the format holds for what is said behind them.
        for seed in range(4):
            a = ask(seed=seed, guided_choice=["yes", "no"], enable_thinking=True,
                    thinking_budget=8) if kind == "responses" else ask(
                    seed=seed, guided_choice=["yes", "no"],
                    thinking={"type": "enabled", "budget_tokens": 8})
            t.ok("".join(texts(a, kind)).strip() in ("yes", "no"),
                 kind + ": the format holds behind the thoughts", a.body)


def test_jump(t, d):
    """What the schema leaves no choice about is not drawn token by token."""
    names = ["a_rather_long_property_name_%d" % i for i in range(4)]
    body = {"seed": 1, "enable_thinking": False, "response_format": schema(
        {"type": "object", "properties": {n: {"type": "boolean"} for n in names},
         "required": names})}
    before = d.metrics()
    a = d.chat("Say something.", **WILD, **body)
    n = a.json["usage"]["completion_tokens"]
    after = d.metrics()
    gaps = after["inter_token_latency_seconds_count"] - before[
        "inter_token_latency_seconds_count"]
    t.ok(list(json.loads(a.json["choices"][0]["message"]["content"])) == names,
         "all properties are there", a.json)
    t.ok(0 < gaps < n / 2, f"{n} tokens by {gaps:.0f} draws")
    t.equal(after["generation_tokens_total"] - before["generation_tokens_total"], n,
            "all of them are counted")
    a = d.chat("Say something.", logprobs=True, **WILD, **body)
    c = a.json["choices"][0]
    t.ok(len(c["logprobs"]["content"]) == a.json["usage"]["completion_tokens"] and
         any(p["logprob"] < -1 for p in c["logprobs"]["content"]),
         "with log-probabilities each is drawn", c["logprobs"])


def test_preempted(t, _):
    """Where pages run out, sequences are thrown out and recomputed; their place in the
    grammar is kept."""
    numbers = {"type": "array", "items": {"type": "integer", "maximum": 99, "minimum": 10},
               "minItems": 60, "maxItems": 60}
    d = Halod(ctx=512, max_seqs=4, kv_cache="2M", page_size=16)
    try:
        a = d.chat("Count.", n=4, seed=2, temperature=1.5, max_tokens=400,
                   enable_thinking=False, response_format=schema(numbers))
        n_preempted = d.metrics()["num_preemptions_total"]
        t.ok(n_preempted > 0, f"{n_preempted:.0f} preemptions")
        t.ok(a.status == 200 and all(
            c["finish_reason"] == "stop" and len(json.loads(c["message"]["content"])) == 60
            for c in a.json["choices"]), "and each document is whole", a.body)
    finally:
        d.stop()


def test_completion(t, d):
    a = d.request("POST", "/v1/completions", {
        "prompt": "Once upon a time", "guided_json": PERSON, "seed": 5, **WILD})
    t.ok(is_person(json.loads(a.json["choices"][0]["text"])),
         "a raw completion has a schema, too", a.json)


def test_refused(t, d):
    a = d.chat("x", response_format=schema({"properties": {"a": {"multipleOf": 0}}}))
    e = a.json["error"]
    t.ok(a.status == 400 and
         e["param"] == "response_format.json_schema.schema.properties.a.multipleOf" and
         "no step" in e["message"], "an unsupported keyword is named, with its path", e)
    for more in ({"guided_json": False}, {"json_schema": False}, {"guided_json": ""},
                 {"structured_outputs": {"json": False}}, {"guided_choice": False},
                 {"guided_regex": False}, {"response_format": False}):
        for path, body in (("/v1/chat/completions", {"messages": [
                {"role": "user", "content": "x"}]}), ("/v1/completions", {"prompt": "x"})):
            a = d.request("POST", path, {**body, "max_tokens": 4, **more})
            t.equal(a.status, 400, "%s: %s is no free text" % (path, more))


def ahead(n, tail):
    return "".join("(?=.*%c)" % (97 + i) for i in range(n)) + tail


def spent(d):
    """Processor time of the event loop's thread, and of all others."""
    folder, times = "/proc/%d/task/" % d.process.pid, {}
    for thread in os.listdir(folder):
        with open(folder + thread + "/schedstat") as f:
            times[int(thread)] = int(f.read().split()[0])
    loop = times.pop(d.process.pid)
    return loop, sum(times.values())


def test_work(t, d):
    """Few bytes that ask for much work: refused while it is done, and never on the loop."""
    dear = ["^" + ahead(8, "[a-z]{%d,60}" % (10 + i % 9)) + "$" for i in range(40)]
    props = {"p%d" % i: {"type": "string", "pattern": p} for i, p in enumerate(dear)}
    tools = [{"type": "function", "function": {"name": name, "strict": True, "parameters": {
        "type": "object", "properties": {"p": schema}}}} for name, schema in props.items()]
    ways = [{"type": "object", "properties": {"a": {"const": i}}} for i in range(100)]
    before = spent(d)
    for what, more in (
            ("a regex", {"guided_regex": ahead(12, "[a-z]{10,60}")}),
            ("classes", {"guided_regex": r"(?=.*\p{L})(?=.*\p{N})(?=.*\w)(?=.*\p{Lu})"
                                         r"(?!.*\p{P}{2}).{1,100}"}),
            ("many patterns", {"guided_json": {"type": "object", "properties": props}}),
            ("tools", {"tools": tools, "tool_choice": "required"}),
            ("combinations", {"guided_json": {"oneOf": ways}})):
        a = d.chat("Hi", max_tokens=1, **more)
        t.ok(a.status == 400 and "too much work" in a.error["message"], what + " too dear",
             a.body)
    loop, others = (b - a for a, b in zip(before, spent(d)))
    t.ok(loop < others / 4, "the loop has compiled none: other threads have", (loop, others))
    t.equal(d.chat("Hi", max_tokens=1, guided_regex=ahead(3, "[a-z]{3,9}")).status, 200,
            "a small one is held to")


run([test_work, test_schema, test_stream, test_reasoning, test_others, test_other_shapes,
     test_jump, test_preempted, test_completion, test_refused])
