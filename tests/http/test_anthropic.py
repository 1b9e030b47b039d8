#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Anthropic's Messages on the wire."""
import json

from halod import Stream, run

USER = {"role": "user", "content": "What is 2+2?"}
BODY = {"model": "halo-tiny", "max_tokens": 12, "temperature": 0, "messages": [USER]}
PATH = "/v1/messages"


def post(d, path=PATH, headers={}, **more):
    return d.request("POST", path, {**BODY, **more},
                     {"anthropic-version": "2023-06-01", **headers})


def stream(d, **more):
    conn = d.connect()
    conn.request("POST", PATH + "?beta=true", json.dumps({**BODY, "stream": True, **more}))
    return Stream(conn)


def text_of(m):
    return "".join(b.get("thinking", "") + b.get("text", "") for b in m["content"])


def test_whole(t, d):
    a = post(d, PATH + "?beta=true", {"X-Request-Id": "msg-1"})
    m = a.json
    t.equal((a.status, m["type"], m["role"], m["id"]),
            (200, "message", "assistant", "msg_msg-1"), "a message")
    t.equal(a.headers["request-id"], "msg-1", "the request's id as Anthropic sends it")
    t.ok(m["stop_reason"] in ("end_turn", "max_tokens") and text_of(m), "its end", m)
    u = m["usage"]
    t.ok(u["input_tokens"] + u["cache_read_input_tokens"] > 5 and
         0 < u["output_tokens"] <= 12, "its usage", u)
    chat = d.chat(USER["content"], max_tokens=12, temperature=0).json
    t.equal(text_of(m), (chat["choices"][0]["message"].get("reasoning_content") or "") +
            chat["choices"][0]["message"]["content"], "says what a chat says")
    n = post(d, PATH + "/count_tokens").json["input_tokens"]
    t.equal(n, chat["usage"]["prompt_tokens"], "count_tokens")
    log = d.access("msg-1")
    t.ok(log["prompt_tokens"] == n and log["path"].startswith(PATH), "the log", log)


def test_stream(t, d):
    s = stream(d)
    t.ok(s.status == 200 and s.headers["Content-Type"].startswith("text/event-stream"),
         "a stream")
    lines = [l for l in s.lines() if l and not l.startswith(":")]
    names = [l[7:] for l in lines[::2]]
    data = [json.loads(l[6:]) for l in lines[1::2]]
    t.ok(all(l.startswith("event: ") for l in lines[::2]) and
         all(l.startswith("data: ") for l in lines[1::2]) and
         names == [x["type"] for x in data], "each event has its name", lines[:4])
    t.equal((names[0], names[-2], names[-1]),
            ("message_start", "message_delta", "message_stop"), "the frame")
    t.equal(data[0]["message"]["usage"]["output_tokens"], 0, "nothing said yet")
    depth, seen, index = 0, "", -1
    for x in data[1:-2]:
        if x["type"] == "content_block_start":
            depth, index = depth + 1, index + 1
        elif x["type"] == "content_block_stop":
            depth -= 1
        else:
            seen += x["delta"].get("text", "") + x["delta"].get("thinking", "")
        if depth not in (0, 1) or x["index"] != index:
            t.ok(False, "blocks do not overlap", data)
    whole = post(d).json
    t.equal((depth, seen), (0, text_of(whole)), "the pieces make the whole")
    t.equal(data[-2]["delta"]["stop_reason"], whole["stop_reason"], "the same end")
    t.equal(data[-2]["usage"]["output_tokens"], whole["usage"]["output_tokens"],
            "the same usage")


def test_cache(t, d):
    """The line that changes with every request does not spoil the prefix cache."""
    def ask(n):
        return post(d, system=[
            {"type": "text", "text": "x-anthropic-billing-header: cch=%d;" % n},
            {"type": "text", "text": "You help. " * 40,
             "cache_control": {"type": "ephemeral"}}]).json["usage"]
    first, second = ask(1), ask(2)
    t.ok(second["cache_read_input_tokens"] > 32 and
         second["input_tokens"] < 32, "the second prompt is cached", (first, second))
    t.equal(sum(second[k] for k in ("input_tokens", "cache_read_input_tokens")),
            sum(first[k] for k in ("input_tokens", "cache_read_input_tokens")),
            "input_tokens are those that were not")


def tool(name, about, key):
    return {"name": name, "description": about, "input_schema": {
        "type": "object", "properties": {key: {"type": "string"}}, "required": [key]}}


TOOLS = {"tools": [tool("get_current_weather", "Look up the weather", "city"),
                   tool("calculate", "Evaluate an arithmetic expression", "expr")],
         "messages": [{"role": "user", "content": "weather in Tunis?"}],
         "max_tokens": 120}


def test_tools(t, d):
    for choice in ({"type": "auto"}, {"type": "any"},
                   {"type": "tool", "name": "get_current_weather"}):
        m = post(d, tool_choice=choice, thinking={"type": "disabled"}, **TOOLS).json
        t.equal(m["stop_reason"], "tool_use", "%s: a call" % choice["type"])
        use = m["content"][-1]
        t.ok(use["type"] == "tool_use" and use["name"] == "get_current_weather" and
             list(use["input"]) == ["city"], "%s: its block" % choice["type"], use)
    data = list(stream(d, thinking={"type": "disabled"}, **TOOLS).events())
    starts = [x["content_block"] for x in data if x["type"] == "content_block_start"]
    args = "".join(x["delta"].get("partial_json", "") for x in data
                   if x["type"] == "content_block_delta")
    t.ok(starts[-1]["type"] == "tool_use" and starts[-1]["input"] == {} and
         list(json.loads(args)) == ["city"], "streamed in pieces", data)
    m = post(d, **{**TOOLS, "messages": TOOLS["messages"] + [
        {"role": "assistant", "content": m["content"]},
        {"role": "user", "content": [{"type": "tool_result", "content": "sunny",
                                      "tool_use_id": use["id"]}]}]})
    t.ok(m.status == 200 and m.json["content"], "the result goes back", m.body)


def test_format(t, d):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}},
              "required": ["n"], "additionalProperties": False}
    m = post(d, thinking={"type": "disabled"}, max_tokens=60,
             output_config={"format": {"type": "json_schema", "schema": schema}}).json
    t.ok(isinstance(json.loads(text_of(m))["n"], int), "output_config.format", m)


def test_system(t, d):
    """A system message between others counts, also in count_tokens."""
    said = {"role": "system", "content": "Available agent types: none."}
    for where in ([USER, said], [USER, said, {"role": "assistant", "content": "4"}, USER]):
        a = post(d, messages=where, headers={
            "anthropic-beta": "mid-conversation-system-2026-04-07"})
        t.equal((a.status, a.json["type"]), (200, "message"), "a system message is taken")
        counts = [post(d, PATH + "/count_tokens", messages=m).json["input_tokens"]
                  for m in (where, [m for m in where if m is not said])]
        t.ok(counts[0] > counts[1] + 4, "and counted", counts)


def test_begun(t, d):
    """A last message of the assistant is gone on with, in both APIs that can ask for it."""
    begun = [{"role": "user", "content": "What is water made of?"},
             {"role": "assistant", "content": "Water is made of oxygen and"}]
    m = post(d, messages=begun, max_tokens=8).json
    t.ok(text_of(m) and not text_of(m).lstrip().startswith("Water"), "it goes on", m)
    chat = d.request("POST", "/v1/chat/completions", {
        "messages": [begun[0], {**begun[1], "prefix": True}], "max_tokens": 8,
        "temperature": 0}).json
    t.equal(chat["choices"][0]["message"]["content"], text_of(m), "as by `prefix` of a chat")
    a = d.request("POST", "/v1/chat/completions", {"messages": [
        {**begun[1], "prefix": True}, begun[0]]})
    t.equal((a.status, a.error["param"]), (400, "messages[0].prefix"), "`prefix` comes last")
    a = post(d, messages=begun, tools=TOOLS["tools"], tool_choice={"type": "any"})
    t.ok(a.status == 400 and "tool_choice" in a.error["message"], "not into a call", a.body)


def test_models(t, d):
    head = {"anthropic-version": "2023-06-01"}
    m = d.get("/v1/models/halo-tiny", head).json
    t.ok(m["type"] == "model" and m["display_name"] == "halo-tiny" and
         m["created_at"].endswith("Z"), "a model as Anthropic has it", m)
    l = d.get("/v1/models/", head).json
    t.ok(l["data"][0] == m and not l["has_more"] and l["first_id"] == "halo-tiny",
         "and the list", l)
    a = d.get("/v1/models/claude", head)
    t.equal((a.status, a.json["type"], a.error["type"]), (404, "error", "not_found_error"),
            "its errors")
    t.ok("type" not in d.get("/v1/models/claude").json, "are OpenAI's without the header")


def test_errors(t, d):
    for what, more, status, kind in (
            ("no max_tokens", {"max_tokens": None}, 400, "invalid_request_error"),
            ("a wrong role", {"messages": [{"role": "x", "content": ""}]}, 400,
             "invalid_request_error"),
            ("another model", {"model": "claude-x"}, 404, "not_found_error"),
            ("too long", {"messages": [{"role": "user", "content": "word " * 9000}],
                          "stream": True}, 400, "invalid_request_error")):
        a = post(d, **more)
        t.ok(a.status == status and a.json["type"] == "error" and
             a.error["type"] == kind and set(a.error) == {"type", "message"},
             "%s: %d" % (what, status), a.body)
    t.ok("prompt is too long: " in a.error["message"], "which agents look for", a.body)
    a = d.request("POST", PATH + "/count_tokens", "{")
    t.equal((a.status, a.json["type"]), (400, "error"), "count_tokens: bad JSON")


def test_left(t, d):
    s = stream(d, max_tokens=3500)
    next(s.events())
    s.close()
    d.wait_metrics(num_requests_running=0)
    t.ok(True, "a client that leaves ends its request")


run([test_whole, test_stream, test_cache, test_tools, test_format, test_system, test_begun,
     test_models, test_errors, test_left])
