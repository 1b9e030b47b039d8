#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that must come are valid, and so are those of strict tools, however wildly
halo-tiny is sampled: in every format that calls are written in, judged by another
validator (`jsonschema`). HALOD_CHECK=all takes all schemas of the goldens."""
import json
import os

from halod import CHECK, SRCDIR, Halod, need, run

jsonschema = need("jsonschema")

N = 200 if "all" in CHECK else 6
WILD = {"temperature": 1.5, "max_tokens": 200}
# Under a sanitizer a format's calls may be cut, as long ones are anyway.
MOST = 50 if "short" in CHECK else 200

BOOK = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 8},
        "kind": {"type": "string", "enum": ["novel", "play", "a <b> c"]},
        "year": {"type": "integer", "minimum": 1500, "maximum": 2030},
        "sold": {"type": "boolean"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"},
        "pages": {"type": "array", "items": {"type": "integer", "minimum": 1,
                                             "maximum": 99}, "maxItems": 3},
        "shop": {"$ref": "#/$defs/shop"},
    },
    "required": ["title", "kind", "year", "code"],
    "additionalProperties": False,
    "$defs": {"shop": {"type": "object", "properties": {
        "town": {"enum": ["Oslo", "Bari"]}, "day": {"type": "string", "format": "date"}},
        "required": ["town"], "additionalProperties": False}},
}
STOP = {"type": "object", "properties": {"why": {"enum": ["done", "late"]}},
        "required": ["why"], "additionalProperties": False}


def tool(name, schema, **more):
    return {"type": "function", "function": {
        "name": name, "description": "A tool.", "parameters": schema, **more}}


BOTH = [tool("add_book", BOOK), tool("stop", STOP), tool("ping", None)]
SCHEMAS = {"add_book": BOOK, "stop": STOP, "ping": {"type": "object", "maxProperties": 0}}


def named(name):
    return {"type": "function", "function": {"name": name}}


def post(d, text="Go on.", **more):
    a = d.chat(text, **{**WILD, **more})
    return a.json["choices"][0] if a.status == 200 else a.json


def calls_of(choice):
    return choice.get("message", {}).get("tool_calls") or []


def judge(call):
    """What is wrong with a call; None: nothing."""
    name = call["function"]["name"]
    if name not in SCHEMAS:
        return "no such tool"
    try:
        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(
            json.loads(call["function"]["arguments"]))
    except (ValueError, jsonschema.ValidationError) as e:
        return str(e).split("\n")[0]
    return None


def check(t, c, what):
    cut = c.get("finish_reason") == "length"
    calls = calls_of(c)[:-1] if cut else calls_of(c)
    bad = [judge(call) for call in calls]
    t.ok((bad or cut) and not any(bad) and not c["message"]["content"] and
         c.get("finish_reason") in ("tool_calls", "length"), what, (bad, c))


def check_cut(t, d, name, most):
    """A call that max_tokens cut is a call, the same whole and streamed, and no text."""
    ask = {**WILD, "seed": 5, "tools": BOTH, "tool_choice": "required", "max_tokens": most}
    c = post(d, **ask)
    text, calls, finish = "", [], None
    for e in d.stream("Go on.", **ask).events():
        for choice in [] if e == "[DONE]" else e["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            for piece in choice["delta"].get("tool_calls", []):
                if "id" in piece:
                    calls.append([piece["function"]["name"], ""])
                calls[-1][1] += piece["function"]["arguments"]
    whole = [[x["function"]["name"], x["function"]["arguments"]] for x in calls_of(c)]
    t.ok(whole == calls and not text and not c["message"]["content"] and
         finish == c["finish_reason"] and (whole or most < 25),
         f"{name}: cut at {most}", (whole, calls, text, c))


def test_forced(t, d):
    for seed in range(2):
        c = post(d, seed=seed, tools=BOTH, tool_choice=named("add_book"))
        check(t, c, f"named, seed {seed}")
        t.ok(len(calls_of(c)) == 1 or c["finish_reason"] == "length", "one call", c)
        c = post(d, seed=seed, tools=BOTH, tool_choice="required")
        check(t, c, f"required, seed {seed}: {len(calls_of(c))} calls")
        c = post(d, seed=seed, tools=BOTH, tool_choice="required",
                 parallel_tool_calls=False)
        check(t, c, f"required, not parallel, seed {seed}")
        t.ok(len(calls_of(c)) == 1 or c["finish_reason"] == "length", "one call", c)


def test_format_beside(t, d):
    """As with OpenAI: a forced call has no content, so its format says nothing."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
        "additionalProperties": False}}}
    c = post(d, tools=BOTH, tool_choice=named("stop"), response_format=form)
    check(t, c, "a forced call beside response_format")
    n_calls = n_texts = 0
    for seed in range(8):
        text = "weather in Tunis?" if seed % 2 else "Hello"
        c = post(d, text, seed=seed, tools=BOTH, response_format=form,
                 enable_thinking=False, temperature=0.5)
        if calls_of(c):
            n_calls += 1
            t.ok(not c["message"]["content"], "calls and nothing else", c)
        elif c["finish_reason"] == "stop":
            n_texts += 1
            t.ok(json.loads(c["message"]["content"]) in ({"ok": True}, {"ok": False}),
                 "or a document of the format", c)
    t.ok(n_calls and n_texts, f"with auto either may come: {n_calls}, {n_texts}")


def test_relaxed(t, d):
    """A call that must come is held to its schema, whatever `strict` says."""
    for seed in range(4):
        c = post(d, seed=seed, tool_choice="required", tools=[
            tool("stop", STOP, strict=False)])
        check(t, c, f"strict false, seed {seed}")


def test_strict(t, d):
    """auto: what is written of a call is held to the schema of a strict tool."""
    schema = {"type": "object", "properties": {
        "city": {"type": "string", "enum": ["Rome", "Kyiv"]},
        "days": {"type": "integer", "minimum": 3, "maximum": 5}},
        "required": ["city", "days"], "additionalProperties": False}
    SCHEMAS["get_current_weather"] = schema
    ask = {"enable_thinking": False, "max_tokens": 120, "temperature": 0.7}
    for strict in (True, False):
        n_calls = n_good = 0
        for seed in range(4):
            c = post(d, "weather in Tunis?", seed=seed, **ask, tools=[
                tool("get_current_weather", schema, strict=strict), *BOTH])
            n_calls += len(calls_of(c))
            n_good += sum(judge(call) is None for call in calls_of(c))
            if strict and calls_of(c):
                check(t, c, f"strict, seed {seed}")
        t.ok(n_calls >= 3, f"strict {strict}: {n_calls} calls")
        t.ok(strict or n_good < n_calls, f"else not: {n_good} of {n_calls} are valid")
    s = d.stream("weather in Tunis?", **ask, seed=1, tools=[
        tool("get_current_weather", schema, strict=True)])
    args = ""
    for e in s.events():
        for choice in [] if e == "[DONE]" else e["choices"]:
            for piece in choice["delta"].get("tool_calls", []):
                args += piece["function"]["arguments"]
    t.ok(jsonschema.Draft202012Validator(schema).is_valid(json.loads(args)),
         "streamed as well", args)


def test_refused(t, d):
    bad = tool("f", {"type": "object", "properties": {"a": {"multipleOf": 0}}})
    for more in ({"tool_choice": "required"}, {"tool_choice": named("f")}):
        a = d.chat("x", tools=[bad], **more)
        t.ok(a.status == 400 and a.error["param"] ==
             "tools[0].function.parameters.properties.a.multipleOf" and
             "no step" in a.error["message"], "what cannot be held to is named", a.body)
    bad["function"]["strict"] = True
    t.equal(d.chat("x", tools=[bad]).status, 400, "also of a strict tool")
    bad["function"]["strict"] = False
    t.equal(d.chat("x", tools=[bad], tool_choice="required").status, 400,
            "and of one that is not, where its call must come")
    t.equal(d.chat("x", tools=[bad], max_tokens=2).status, 200, "else it is not held")
    del bad["function"]["strict"]
    t.equal(d.chat("x", tools=[bad], max_tokens=2).status, 200, "auto: nothing is held")


def test_schemas(t, d):
    with open(os.path.join(SRCDIR, "tests/golden/schemas.tsv"), encoding="utf-8") as f:
        schemas = [json.loads(l[2:]) for l in f if l.startswith("S\t")]
    schemas = [s for s in schemas if s.get("type") == "object"][:N]
    n_whole = 0
    for i, schema in enumerate(schemas):
        SCHEMAS["f"] = schema
        c = post(d, seed=i, max_tokens=150, tools=[tool("f", schema)],
                 tool_choice=named("f"))
        check(t, c, f"schema {i}: {c.get('finish_reason', c)}")
        n_whole += c.get("finish_reason") == "tool_calls"
    t.ok(n_whole > len(schemas) / 2, f"{n_whole} of {len(schemas)} came to their end")


def test_formats(t, _):
    """The model knows one format; held to the others it writes them as well."""
    for name in ("qwen3-coder", "glm", "llama3", "mistral", "mistral-args", "harmony",
                 "hy3", "hy3-preview", "minimax", "atem", "seed", "gemma4", "kimi",
                 "deepseek-v3", "deepseek", "deepseek-v3.2", "deepseek-v4", "nemotron",
                 "granite", "lfm2"):
        d = Halod(tool_format=name, strict_tools="yes")
        try:
            for seed in range(1):
                c = post(d, seed=seed, tools=BOTH, tool_choice=named("add_book"),
                         max_tokens=MOST)
                check(t, c, f"{name}: named, seed {seed}")
                c = post(d, seed=seed, tools=BOTH, tool_choice="required", max_tokens=MOST)
                check(t, c, f"{name}: required, seed {seed}: {len(calls_of(c))} calls")
            for most in (2, 9, 25):
                check_cut(t, d, name, most)
        finally:
            t.equal(d.stop(), 0, f"{name}: halod ends well")


run([test_forced, test_format_beside, test_relaxed, test_strict, test_refused, test_schemas,
     test_formats])
