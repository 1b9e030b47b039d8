#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests as goose, crush and Zed send them, by their published sources, and answers read as
strictly as they read them. No package manager has these three. A turn, a call and its result,
a fault, each streamed."""
import json

from halod import Stream, run

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


def goose(messages, tools):
    """Its text is one string; an answer that calls has a content of null."""
    out = [{"role": "system", "content": "You are a general-purpose AI agent called goose."}]
    for m in messages:
        if m["role"] == "assistant" and m.get("calls"):
            out.append({"role": "assistant", "tool_calls": m["calls"], "content": None,
                        **({"reasoning_content": m["thought"]} if m.get("thought") else {})})
        else:
            out.append({k: m[k] for k in ("role", "content", "tool_call_id") if k in m})
    return {"model": "halo-tiny", "messages": out, **({"tools": [function()]} if tools else {}),
            "temperature": 0.0, "max_tokens": 120, "stream": True,
            "stream_options": {"include_usage": True}}


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


run([test_goose, test_crush, test_zed])
