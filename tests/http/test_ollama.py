#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ollama's API as its clients send it: lines of JSON, options, formats, histories with tools,
loading, and errors. test_ollama_clients.py has the official clients."""
import json
import re
import tempfile
import time

from halod import Halod, run

ASK = {"model": "halo-tiny", "messages": [{"role": "user", "content": "What is 2+2?"}]}
GREEDY = {"temperature": 0}
TOOL = {"type": "function", "function": {
    "name": "get_current_weather", "description": "Look up the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}


def lines(a):
    return [json.loads(line) for line in a.body.decode().splitlines()]


def ask(d, path="/api/chat", **body):
    return d.request("POST", path, {**body})


def test_stream(t, d):
    whole = ask(d, **ASK, stream=False, options=GREEDY)
    m = whole.json["message"]
    t.ok(whole.headers["Content-Type"] == "application/json" and m["role"] == "assistant" and
         m["content"] and m["thinking"], "one object", whole.body)
    a = ask(d, **ASK, options=GREEDY)
    t.equal(a.headers["Content-Type"], "application/x-ndjson", "else it is a stream")
    all_lines = lines(a)
    t.equal("".join(x["message"]["content"] for x in all_lines), m["content"], "of the same text")
    t.equal("".join(x["message"].get("thinking", "") for x in all_lines), m["thinking"],
            "and thoughts")
    t.equal([x["done"] for x in all_lines], [False] * (len(all_lines) - 1) + [True],
            "only the last line is done")
    end = all_lines[-1]
    t.equal({k: end[k] for k in ("done_reason", "prompt_eval_count", "eval_count")},
            {k: whole.json[k] for k in ("done_reason", "prompt_eval_count", "eval_count")},
            "with the same end")
    t.ok(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", end["created_at"]) and
         0 < end["eval_duration"] < end["total_duration"] < 10**12, "times", end)
    other = d.request("POST", "/v1/chat/completions", {**ASK, "temperature": 0}).json
    t.equal(m["content"], other["choices"][0]["message"]["content"],
            "the text is that of /v1/chat/completions")


def test_options(t, d):
    a = ask(d, **ASK, stream=False, options={**GREEDY, "num_predict": 3, "num_ctx": 8192,
                                             "num_thread": 4}, keep_alive="5m")
    t.equal((a.json["eval_count"], a.json["done_reason"]), (3, "length"), "num_predict")
    t.ok("X-Halod-Ignored" not in a.headers, "memory and threads are the server's")
    a = ask(d, **ASK, stream=False, options={**GREEDY, "num_predict": -1, "mirostat": 2}, oops=1)
    t.equal((a.json["done_reason"], sorted(a.headers["X-Halod-Ignored"].split(", "))),
            ("stop", ["oops", "options.mirostat"]), "-1 is no limit; what has no effect is told")
    a = ask(d, **ASK, stream=False, options={**GREEDY, "num_predict": 0})
    t.equal((a.status, a.json.get("done_reason")), (200, "stop"), "nor is 0")
    a = ask(d, **ASK, stream=False, think=False, options={**GREEDY, "stop": ["plus"]})
    t.equal((a.json["message"].get("thinking"), "plus" in a.json["message"]["content"]),
            (None, False), "think: false, and stop")
    a = ask(d, **ASK, stream=False, options={"seed": 3, "temperature": 1.5})
    b = ask(d, **ASK, stream=False, options={"seed": 3, "temperature": 1.5})
    t.equal(a.json["message"], b.json["message"], "a seed")
    a = ask(d, **ASK, stream=False, options=GREEDY, logprobs=True, top_logprobs=2)
    first = a.json["logprobs"][0]
    t.equal((len(a.json["logprobs"]), len(first["top_logprobs"])), (a.json["eval_count"], 2),
            "logprobs of each token")


def test_format(t, d):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
              "additionalProperties": False}
    a = ask(d, **ASK, stream=False, format=schema, options=GREEDY, think=False)
    t.equal(list(json.loads(a.json["message"]["content"])), ["n"], "a schema")
    a = ask(d, **ASK, stream=False, format="json", think=False,
            options={**GREEDY, "num_predict": 200})
    t.ok(a.json["message"]["content"].startswith("{"), "json", a.body)
    t.equal(ask(d, **ASK, stream=False, format="").status, 200, "an empty format is none")
    for bad in ("xml", 3, ["json"]):
        a = ask(d, **ASK, format=bad)
        t.ok(a.status == 400 and "`format`" in a.json["error"], "not %r" % (bad,), a.body)


def test_tools(t, d):
    body = {"model": "halo-tiny", "stream": False, "think": False, "tools": [TOOL],
            "options": {**GREEDY, "num_predict": 120},
            "messages": [{"role": "user", "content": "weather in Tunis?"}]}
    whole = ask(d, **body).json
    calls = whole["message"].get("tool_calls", [])
    if not t.ok(len(calls) == 1 and isinstance(calls[0]["function"]["arguments"], dict),
                "a call, its arguments an object", whole):
        return
    told = [c for x in lines(ask(d, **{**body, "stream": True}))
            for c in x["message"].get("tool_calls", [])]
    t.equal([c["function"] for c in told], [c["function"] for c in calls],
            "a stream tells it once, whole")
    history = body["messages"] + [
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "get_current_weather", "arguments": {"city": "Tunis"}}},
            {"function": {"name": "get_current_weather", "arguments": {"city": "Oslo"}}}]},
        {"role": "tool", "tool_name": "get_current_weather", "content": "sunny"},
        {"role": "tool", "content": "rain"}]
    shown = d.request("POST", "/v1/chat/completions", {
        "max_tokens": 8, "temperature": 0, "enable_thinking": False, "tools": [TOOL],
        "messages": body["messages"] + [
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_%d" % i, "type": "function", "function": {
                    "name": "get_current_weather", "arguments": json.dumps({"city": city})}}
                for i, city in enumerate(("Tunis", "Oslo"))]},
            {"role": "tool", "tool_call_id": "call_0", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]}).json
    a = ask(d, **{**body, "messages": history, "options": {**GREEDY, "num_predict": 8}})
    t.equal((a.json["prompt_eval_count"], a.json["message"]["content"]),
            (shown["usage"]["prompt_tokens"], shown["choices"][0]["message"]["content"]),
            "results without ids belong to the calls in their order")


# Is longer for each result whose call is not the next one.
IDS = """{%- set ns = namespace(n=0) -%}
{%- for t in tools or [] -%}{{ t.function.name }}{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
{{ 'right ' if m.tool_call_id == 'call_' ~ ns.n else 'wrong ' * 9 }}
{%- set ns.n = ns.n + 1 -%}
{%- else -%}{{ m.role }} {{ m.content }}{%- endif -%}
{%- for c in m.tool_calls or [] -%}{{ c.function.name }} {%- endfor -%}
{%- endfor -%}"""


def test_results(t, _):
    """Which call a result without an id belongs to, seen by a template."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
        f.write(IDS)
        f.flush()
        d = Halod(chat_template=f.name)

        def length(*results):
            calls = [{"function": {"name": name, "arguments": {}}} for name in "aba"]
            return ask(d, model="halo-tiny", stream=False, options={"num_predict": 1}, messages=[
                {"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls},
                *({"role": "tool", "content": "y", **r} for r in results)
            ]).json["prompt_eval_count"]

        right = length({}, {}, {})
        t.equal(length({"tool_name": "a"}, {"tool_name": "b"}, {"tool_name": "a"}), right,
                "a name finds its first call without a result")
        t.equal(length({"tool_call_id": "call_0"}, {"name": "b"}, {}),
                right, "so do an id and rest")
        t.ok(length({"tool_name": "b"}, {"tool_name": "a"}, {}) > right and
             length({"tool_call_id": "call_2"}, {}, {}) > right, "other orders are seen")
        t.equal(d.stop(), 0, "that daemon ends well")


def test_generate(t, d):
    chat = ask(d, **ASK, stream=False, options=GREEDY).json
    a = ask(d, "/api/generate", model="halo-tiny", prompt="What is 2+2?", stream=False,
            options=GREEDY).json
    t.equal((a["response"], a["thinking"], a["prompt_eval_count"]),
            (chat["message"]["content"], chat["message"]["thinking"], chat["prompt_eval_count"]),
            "a prompt is a chat of one message")
    system = ask(d, "/api/generate", model="halo-tiny", prompt="Hi", system="You are terse.",
                 stream=False, options=GREEDY).json
    t.ok(system["prompt_eval_count"] > 10, "with a system prompt", system)
    raw = ask(d, "/api/generate", model="halo-tiny", prompt="Once upon a time", raw=True,
              stream=False, options={**GREEDY, "num_predict": 8}, logprobs=True).json
    other = d.request("POST", "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8,
                                                  "temperature": 0}).json
    t.equal((raw["response"], len(raw["logprobs"])),
            (other["choices"][0]["text"], raw["eval_count"]), "raw: no template")
    text = "".join(x["response"] for x in lines(ask(
        d, "/api/generate", model="halo-tiny", prompt="Once upon a time", raw=True,
        options={**GREEDY, "num_predict": 8})))
    t.equal(text, raw["response"], "and its stream")
    a = ask(d, "/api/generate", model="halo-tiny", prompt="x", raw=True, system="y", think=True,
            stream=False, options={"num_predict": 1})
    t.equal(sorted(a.headers["X-Halod-Ignored"].split(", ")), ["system", "think"],
            "which alone could show these")
    for field, value in (("suffix", "x"), ("template", "{{ .Prompt }}"), ("context", [1, 2])):
        a = ask(d, "/api/generate", model="halo-tiny", prompt="x", **{field: value})
        t.ok(a.status == 400 and "`%s`" % field in a.json["error"], field + " is refused", a.body)
    a = ask(d, "/api/generate", model="halo-tiny", prompt="x", suffix="", template="",
            context=[], images=[], stream=False, options={"num_predict": 1})
    t.equal(a.status, 200, "unless it asks for nothing")


def test_load(t, d):
    for path, key in (("/api/chat", "messages"), ("/api/generate", "prompt")):
        for body in ({}, {key: [] if key == "messages" else ""}, {"keep_alive": 0}):
            a = ask(d, path, model="halo-tiny", stream=False, **body)
            t.equal((a.status, a.json["done_reason"], a.json["eval_count"], a.json["done"]),
                    (200, "load", 0, True), "%s with %s only loads" % (path, body))


def test_models(t, d):
    tags = d.get("/api/tags").json["models"]
    t.equal([(m["name"], m["details"]["quantization_level"], len(m["digest"])) for m in tags],
            [("halo-tiny:latest", "int4", 64)], "tags")
    ps = d.get("/api/ps").json["models"][0]
    t.equal(ps["context_length"], 4096, "ps")
    t.ok(int(ps["expires_at"][:4]) > time.gmtime().tm_year + 20, "clients show that it stays", ps)
    t.ok(re.match(r"\d+\.\d+\.\d+$", d.get("/api/version").json["version"]), "version")
    a = ask(d, "/api/show", model="halo-tiny:latest").json
    t.equal(a["capabilities"], ["completion", "tools", "thinking"], "show: what it can do")
    t.equal(a["model_info"][a["model_info"]["general.architecture"] + ".context_length"], 4096,
            "and how long")
    t.equal(ask(d, "/api/show", name="halo-tiny").status, 200, "by the older field")
    t.equal(ask(d, "/api/pull", model="halo-tiny").json, {"status": "success"},
            "what is served need not be pulled")
    for path in ("/api/chat", "/api/generate", "/api/show", "/api/pull"):
        a = ask(d, path, model="other", messages=ASK["messages"], prompt="x")
        t.ok(a.status == 404 and list(a.json) == ["error"] and isinstance(a.json["error"], str),
             path + ": another model", a.body)
        a = ask(d, path, messages=ASK["messages"], prompt="x")
        t.ok(a.status == 400 and "`model`" in a.json["error"], path + ": no model", a.body)
    t.equal(ask(d, **{**ASK, "model": "halo-tiny:7b"}).status, 404, "another tag")


def test_errors(t, d):
    for where, body in (
            ("messages[0].role", {"messages": [{"role": "robot", "content": "x"}]}),
            ("messages[0].content", {"messages": [{"role": "user", "content": 3}]}),
            ("messages[0].images", {"messages": [{"role": "user", "content": "x",
                                                  "images": ["aGk="]}]}),
            ("messages[1].tool_calls[0].function.name", {"messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}]}),
            ("options.temperature", {"options": {"temperature": "hot"}}),
            ("options.num_predict", {"options": {"num_predict": 1.5}}),
            ("options", {"options": [1]}), ("think", {"think": 3}),
            ("stream", {"stream": "yes"}), ("tools[0].function", {"tools": [{"type": "function"}]})):
        a = ask(d, **{**ASK, **body})
        t.ok(a.status == 400 and "`%s`" % where in a.json["error"], where + " is named", a.body)
    a = ask(d, **{**ASK, "messages": [{"role": "user", "content": "word " * 6000}]})
    t.ok(a.status == 400 and "context" in a.json["error"], "a prompt that is too long", a.body)
    calls = {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}] * 1000}
    result = {"role": "tool", "tool_name": "g", "content": "x"}
    a = ask(d, model="halo-tiny", messages=[calls] * 50 + [result] * 100)
    t.ok(a.status == 400 and "too much work" in a.json["error"], "calls and results of others",
         a.body)
    a = d.request("POST", "/api/chat", "{")
    t.ok(a.status == 400 and isinstance(a.json["error"], str), "no JSON", a.body)


run([test_stream, test_options, test_format, test_tools, test_results, test_generate, test_load,
     test_models, test_errors])
