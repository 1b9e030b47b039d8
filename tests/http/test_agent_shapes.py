#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests as goose, opencode, Cline, crush and Zed send them, and answers read as strictly as they
read them. A turn, a call and its result, a fault, each streamed. The first three come by npm, with
programs of 250 MB and more: their own requests were looked at, in words of our own. The others'
are by their published sources."""
import json
import os

from halod import SRCDIR, Halod, Stream, run

NAME = "get_current_weather"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUESTION = "weather in Tunis?"
RESULT = "sunny, 25 C"


def need(value, kind, optional=False):
    """A field as a typed language reads it."""
    assert (optional and value is None) or (isinstance(value, kind) and not isinstance(value, bool)), (
        value, kind)
    return value


# --- how each client writes a request --------------------------------------------------------


def function(**more):
    return {"type": "function", "function": {"name": NAME, "description": "Look up the weather",
                                             "parameters": PARAMETERS, **more}}


def long(text, n):
    """As long as the client's own text is."""
    return (text + " Be brief, be right.") * (n // len(text) + 1)


def others(n):
    """As many more tools as a client offers, with words of some length."""
    return [{"type": "function", "function": {
        "name": "own__tool_%d" % i, "description": long("A tool of the client.", 400), "parameters": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ToolParams",
            "type": "object", "properties": {
                "path": {"type": "string", "description": "A file."},
                "depth": {"type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": 3},
                "mode": {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}]}},
            "required": ["path"]}}} for i in range(n)]


def goose(messages, tools):
    """Its text is one string; an answer that calls has a content of null. Sixteen tools more, no
    limit and no temperature; what time it is stands behind the user's words."""
    out = [{"role": "system", "content": long("You are a general-purpose AI agent called goose.", 3700)}]
    for m in messages:
        if m["role"] == "assistant" and m.get("calls"):
            out.append({"role": "assistant", "tool_calls": m["calls"], "content": None,
                        **({"reasoning_content": m["thought"]} if m.get("thought") else {})})
        else:
            out.append({k: m[k] for k in ("role", "content", "tool_call_id") if k in m})
    return {"model": "halo-tiny", "messages": out,
            **({"tools": [function(), *others(16)]} if tools else {}),
            "stream": True, "stream_options": {"include_usage": True}}


def ai_sdk(messages, tools, system, n_tools, **more):
    """As the AI SDK's provider for compatible servers writes it: an answer that calls has a content
    of its text, or null where there is none."""
    out = [{"role": "system", "content": system}]
    for m in messages:
        if m["role"] == "assistant" and m.get("calls"):
            out.append({"role": "assistant", "content": None, "tool_calls": m["calls"],
                        **({"reasoning_content": m["thought"]} if m.get("thought") else {})})
        else:
            out.append({k: m[k] for k in ("role", "content", "tool_call_id") if k in m})
    return {"model": "halo-tiny", **more, "messages": out,
            **({"tools": [function(), *others(n_tools)], "tool_choice": "auto"} if tools else {}),
            "stream": True, "stream_options": {"include_usage": True}}


def opencode(messages, tools):
    return ai_sdk(messages, tools, long("You are an interactive CLI tool.", 9500), 10, max_tokens=32000)


def cline(messages, tools):
    return ai_sdk(messages, tools, long("You are an AI coding agent.", 4200), 25)


def crush(messages, tools):
    """As OpenAI's library for Go writes it: no content where there is none, strict is false."""
    out = [{"role": "system", "content": "You are Crush, a powerful AI Assistant in the CLI."}]
    for m in messages:
        if m["role"] == "assistant" and m.get("calls"):
            out.append({"role": "assistant", "tool_calls": m["calls"]})
        elif m["role"] == "user":
            out.append({"role": "user", "content": [{"type": "text", "text": m["content"]}]})
        else:
            out.append({k: m[k] for k in ("role", "content", "tool_call_id") if k in m})
    return {"messages": out, "model": "halo-tiny", "max_tokens": 120, "temperature": 0,
            "stream_options": {"include_usage": True}, "stream": True,
            **({"tools": [function(strict=False)], "tool_choice": "auto"} if tools else {})}


def zed(messages, tools):
    """Several parts where there are several; a key for the prompt cache."""
    out = [{"role": "system", "content": "You are an engineer."}]
    for m in messages:
        if m["role"] == "assistant" and m.get("calls"):
            out.append({"role": "assistant", "content": None, "tool_calls": m["calls"],
                        **({"reasoning_content": m["thought"]} if m.get("thought") else {})})
        elif m["role"] == "user":
            out.append({"role": "user", "content": [{"type": "text", "text": m["content"]}]})
        elif m["role"] == "tool":
            out.append({"role": "tool", "content": [{"type": "text", "text": m["content"]}],
                        "tool_call_id": m["tool_call_id"]})
        else:
            out.append({"role": "assistant", "content": m["content"]})
    return {"model": "halo-tiny", "messages": out, "stream": True,
            "stream_options": {"include_usage": True}, "max_completion_tokens": 120,
            "temperature": 0.0, "parallel_tool_calls": False, "prompt_cache_key": "thread-1",
            **({"tools": [function()], "tool_choice": "auto"} if tools else {})}


# --- how each reads the answer ------------------------------------------------------------------


def read_choice(choice):
    need(choice["index"], int)
    delta = need(choice["delta"], dict)
    need(choice.get("finish_reason"), str, True)
    for key in ("content", "role", "reasoning_content"):
        need(delta.get(key), str, True)
    for call in need(delta.get("tool_calls"), list, True) or []:
        need(call["index"], int)
        need(call.get("id"), str, True)
        need(call["function"].get("name"), str, True)
        need(call["function"].get("arguments"), str, True)
    return delta


def read(t, what, stream):
    """{text, thought, calls, finish} of a stream; the usage comes last and once."""
    got = {"text": "", "thought": "", "calls": [], "finish": None}
    usages, is_over = [], False
    for event in stream.events():
        if event == "[DONE]":
            is_over = True
            continue
        assert not is_over, event
        need(event["id"], str)
        need(event["created"], int)
        need(event["model"], str)
        if (usage := need(event.get("usage"), dict, True)):
            usages.append([need(usage[k], int) for k in (
                "prompt_tokens", "completion_tokens", "total_tokens")])
        for choice in need(event["choices"], list):
            delta = read_choice(choice)
            got["text"] += delta.get("content") or ""
            got["thought"] += delta.get("reasoning_content") or ""
            got["finish"] = choice.get("finish_reason") or got["finish"]
            for call in delta.get("tool_calls") or []:
                while len(got["calls"]) <= call["index"]:
                    got["calls"].append({"id": "", "type": "function",
                                         "function": {"name": "", "arguments": ""}})
                to = got["calls"][call["index"]]
                to["id"] += call.get("id") or ""
                for key in ("name", "arguments"):
                    to["function"][key] += call["function"].get(key) or ""
    t.ok(is_over and len(usages) == 1 and usages[0][0] + usages[0][1] == usages[0][2],
         what + ": a whole stream with its usage", (is_over, usages, got))
    return got


def ask(d, body, headers):
    return d.request("POST", "/v1/chat/completions", body,
                     {"Content-Type": "application/json", "Authorization": "Bearer none", **headers})


def streamed(t, d, what, body, headers):
    conn = d.connect()
    conn.request("POST", "/v1/chat/completions", json.dumps(body),
                 {"Content-Type": "application/json", "Authorization": "Bearer none", **headers})
    s = Stream(conn)
    t.equal((s.status, s.headers["X-Halod-Ignored"]), (200, None), what + ": taken, and nothing ignored")
    return read(t, what, s)


def client(t, d, name, make, **headers):
    said = streamed(t, d, name + ", a turn", make([{"role": "user", "content": "What is 2+2?"}], False), headers)
    t.ok("4" in said["text"] and said["finish"] == "stop", name + ": an answer", said)
    talk = [{"role": "user", "content": QUESTION}]
    said = streamed(t, d, name + ", a call", make(talk, True), headers)
    calls = said["calls"]
    t.ok(said["finish"] == "tool_calls" and len(calls) == 1 and calls[0]["id"] and
         calls[0]["function"]["name"] == NAME and
         json.loads(calls[0]["function"]["arguments"]) == {"city": "Tunis"}, name + ": its call", said)
    talk += [{"role": "assistant", "calls": calls, "thought": said["thought"]},
             {"role": "tool", "content": RESULT, "tool_call_id": calls[0]["id"]}]
    said = streamed(t, d, name + ", its result", make(talk, True), headers)
    t.ok(said["finish"] in ("stop", "length", "tool_calls") and (said["text"] or said["calls"]),
         name + ": an answer to the result", said)
    talk += [{"role": "assistant", "content": "It is sunny."}, {"role": "user", "content": "What is 2+2?"}]
    said = streamed(t, d, name + ", on", make(talk, True), headers)
    t.ok(said["finish"], name + ": the conversation goes on", said)
    a = ask(d, {**make(talk, True), "model": "gpt-x"}, headers)
    t.ok(a.status == 404 and "gpt-x" in need(a.error["message"], str), name + ": another model: it says so", a.body)


def in_full(test):
    """The test with a halod that has room for a client's whole request: agents.jinja."""
    def with_room(t, _):
        d = Halod(chat_template=os.path.join(SRCDIR, "tests/http/agents.jinja"), strict_tools="yes",
                  max_output_tokens=200)
        try:
            test(t, d)
        finally:
            t.equal(d.stop(), 0, "halod ends well")
    with_room.__name__ = test.__name__
    return with_room


@in_full
def test_goose(t, d):
    client(t, d, "goose", goose)
    a = d.get("/v1/models", {"Authorization": "Bearer none"})
    t.equal([need(m["id"], str) for m in a.json["data"]], ["halo-tiny"], "goose: the list of models")
    # A picture of a tool comes as a user's message behind it; this model sees none.
    talk = goose([{"role": "user", "content": "Hi"}], False)
    talk["messages"].append({"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": "data:image/png;base64,AAAA"}}]})
    a = ask(d, talk, {})
    t.ok(a.status == 400 and "image" in a.error["message"], "goose: a picture is refused in words", a.body)


@in_full
def test_opencode(t, d):
    client(t, d, "opencode", opencode, **{
        "User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14"})
    # Before the first turn it asks for a title, of two messages of the user.
    title = opencode([{"role": "user", "content": "Generate a title:\n"},
                      {"role": "user", "content": "What is 2+2?"}], False)
    said = streamed(t, d, "opencode, a title", title, {})
    t.ok(said["finish"] in ("stop", "length"), "opencode: a title", said)


@in_full
def test_cline(t, d):
    client(t, d, "Cline", cline, **{
        "User-Agent": "ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/5.0.30 runtime/bun/1.3.13"})


def test_crush(t, d):
    client(t, d, "crush", crush, **{"User-Agent": "Charm Crush/1.0", "X-Stainless-Lang": "go",
                                    "X-Stainless-Retry-Count": "0"})


def test_zed(t, d):
    client(t, d, "Zed", zed)
    # Its edit predictions are completions.
    a = d.request("POST", "/v1/completions", {
        "model": "halo-tiny", "prompt": "def add(a, b):\n    return", "max_tokens": 16, "temperature": 0.2,
        "stop": ["<|endoftext|>", "<|file_sep|>"]}, {"Content-Type": "application/json"})
    t.ok(a.status == 200 and isinstance(a.json["choices"][0]["text"], str), "Zed: an edit prediction", a.body)


run([test_goose, test_opencode, test_cline, test_crush, test_zed])
